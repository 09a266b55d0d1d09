"""Who is next: by priority, callers in turn, and no more than there is room for."""

from __future__ import annotations

import asyncio

import pytest

from guided.workers.queue import Overloaded, Priority, Queue, Ticket

QUICK = (Priority.QUICK,)


def ticket(name: str, caller: str = "", priority: Priority = Priority.QUICK) -> Ticket:
    return Ticket({"name": name}, priority, caller, asyncio.get_running_loop().create_future())


def order_of(make) -> list[str]:
    """The names in the order in which a worker that takes everything gets them."""

    async def run() -> list[str]:
        queue = Queue(capacity=100, workers=2, patience_seconds=60)
        count = make(queue)
        return [(await queue.get(tuple(Priority))).job["name"] for _ in range(count)]

    return asyncio.run(run())


def test_priorities():
    def make(queue: Queue) -> int:
        for priority in reversed(Priority):
            queue.put(ticket(priority.name, priority=priority))
        return len(Priority)

    assert order_of(make) == ["CHECK", "QUICK", "LONG", "BACKGROUND"]


def test_callers_take_turns():
    def make(queue: Queue) -> int:
        for number in range(5):
            queue.put(ticket(f"storm {number}", "storm"))
        queue.put(ticket("a 0", "a"))
        queue.put(ticket("b 0", "b"))
        queue.put(ticket("a 1", "a"))
        return 8

    assert order_of(make) == ["storm 0", "a 0", "b 0", "storm 1", "a 1", "storm 2", "storm 3", "storm 4"]


def test_there_is_a_bound_and_a_share():
    async def run() -> None:
        queue = Queue(capacity=4, workers=2, patience_seconds=60)
        for number in range(2):
            queue.put(ticket(f"{number}", "greedy"))
        with pytest.raises(Overloaded) as caught:
            queue.put(ticket("2", "greedy"))
        assert caught.value.retry_seconds >= 1
        queue.put(ticket("3", "modest"))
        queue.put(ticket("4", "another"))
        with pytest.raises(Overloaded):
            queue.put(ticket("5", "late"))
        queue.put(ticket("check", "late", Priority.CHECK))  # an answer that is complete is always checked
        assert len(queue) == 5

    asyncio.run(run())


def test_who_left_is_passed_over():
    async def run() -> None:
        queue = Queue(capacity=10, workers=2, patience_seconds=60)
        gone, here = ticket("gone"), ticket("here")
        queue.put(gone)
        queue.put(here)
        gone.outcome.cancel()
        assert await queue.get(QUICK) is here

    asyncio.run(run())


def test_waiting_in_vain_is_overload():
    async def run() -> None:
        queue = Queue(capacity=10, workers=2, patience_seconds=0.0)
        late = ticket("late")
        queue.put(late)
        await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(QUICK), 0.05)
        with pytest.raises(Overloaded):
            late.outcome.result()

    asyncio.run(run())


def test_retry_after_follows_the_work_that_waits():
    async def run() -> None:
        queue = Queue(capacity=1000, workers=2, patience_seconds=60)
        assert queue.retry_seconds == 1
        for _ in range(200):
            queue.took(2.0)
        for number in range(30):
            queue.put(ticket(f"{number}"))
        assert 20 <= queue.retry_seconds <= 60

    asyncio.run(run())


def test_everybody_who_waits_is_woken():
    async def run() -> None:
        queue = Queue(capacity=10, workers=2, patience_seconds=60)
        waiting = [asyncio.create_task(queue.get(QUICK)) for _ in range(3)]
        await asyncio.sleep(0)
        for number in range(3):
            queue.put(ticket(f"{number}"))
        assert sorted(found.job["name"] for found in await asyncio.gather(*waiting)) == ["0", "1", "2"]

    asyncio.run(run())
