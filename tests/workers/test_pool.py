"""Real worker processes: whatever a job does to its worker, it is that job's error alone."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from guided.cache import Disk
from guided.constraint import Constraint
from guided.errors import InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.workers import Overloaded, Pool, PoolOptions, Priority
from guided.workers.messages import IDLE
from guided.workers.pool import _SHORT
from guided.workers.queue import Ticket
from tests.index.test_token_index import VOCABULARY
from tests.workers.live_pool import LIMITS, LivePool, job, kill_workers, running, signal_workers, until

EXPLOSION = Constraint.regex("(a|b)*a(a|b){40}")  # its automaton has 2 ** 41 states
RECURSIVE = Constraint.grammar('start: "(" start ")" | "a" start "b" | "x"')


def test_an_index_comes_by_file(live):
    constraint = Constraint.regex("[ab]{2,3}c?")
    outcome = live.run(constraint)
    assert outcome["tier"] == "compiled" and outcome["closed"] and outcome["states"] > 3
    assert {"network", "automaton", "first row", "closing", "file"} == set(outcome["stages"])
    stored = Disk(live.folder, VOCABULARY).load(constraint.digest)
    assert stored is not None and stored.index.accepts("abc") and not stored.index.accepts("a")
    assert live.run(constraint)["tier"] == "disk"


def test_refusals_arrive_as_they_were_raised(live):
    with pytest.raises(InvalidConstraint) as caught:
        live.run(Constraint.regex("a(b"))
    assert caught.value.column is not None and caught.value.source == "a(b"
    with pytest.raises(UnsupportedKeyword) as unsupported:
        live.run(Constraint.json_schema({"properties": {"a": {"pattern": "(a)\\1"}}}))
    assert unsupported.value.pointer == "/properties/a/pattern"
    with pytest.raises(LimitExceeded) as too_long:
        live.run(Constraint.regex("a" * 200_000))
    assert too_long.value.limit == "constraint_bytes"


def test_an_index_that_explodes_is_left_growing(live):
    outcome = live.run(EXPLOSION)
    assert not outcome["closed"] and outcome["states"] > 1000


def test_wall_time_ends_with_the_worker(live):
    deaths = live.pool.deaths
    with pytest.raises(LimitExceeded, match="wall_seconds") as caught:
        live.run(EXPLOSION, "close", wall_seconds=0.2, closing_seconds=20.0, seconds=20.0, priority=Priority.LONG)
    assert caught.value.limit == "wall_seconds"
    assert live.pool.deaths == deaths + 1
    assert live.run(Constraint.regex("after"), priority=Priority.LONG)["closed"]


def test_a_job_that_got_no_cpu_is_not_too_complex(live):
    async def starved() -> None:
        work = asyncio.create_task(
            live.pool.run(job(EXPLOSION, "close", closing_seconds=60.0, seconds=60.0, wall_seconds=3.0), Priority.LONG)
        )
        await asyncio.sleep(0.05)
        signal_workers(live.pool, signal.SIGSTOP)
        await work

    with pytest.raises(Overloaded, match="no time"):
        live.wait(starved())
    signal_workers(live.pool, signal.SIGCONT)
    assert live.run(Constraint.regex("rich again"), priority=Priority.LONG)["closed"]


def test_cpu_time_is_cut_by_the_kernel(live):
    """Where nobody looks at the budget: what a job claims and what it may take are set apart here."""
    with pytest.raises(LimitExceeded) as caught:
        live.run(EXPLOSION, "close", cpu_seconds=0.1, closing_seconds=30.0, seconds=30.0, wall_seconds=60.0)
    assert caught.value.limit == "seconds"


def test_memory_ends_in_a_refusal(loop, tmp_path):
    """320 MiB of address space is less than this index wants; the machine never feels it."""
    with running(loop, tmp_path, 320 << 20) as small, pytest.raises(LimitExceeded) as caught:
        small.run(EXPLOSION, "close", closing_seconds=60.0, seconds=60.0, wall_seconds=90.0, priority=Priority.LONG)
    assert caught.value.limit == "memory_bytes"


def test_a_killed_worker_takes_its_job_to_another(live):
    """Once: the second worker that dies over the same job is the job's fault."""

    async def killed(times: int) -> dict:
        work = asyncio.create_task(
            live.pool.run(job(EXPLOSION, "close", closing_seconds=1.5, seconds=9.0), Priority.LONG)
        )
        for _ in range(times):
            await asyncio.sleep(0.4)
            signal_workers(live.pool, signal.SIGKILL)
        return await work

    assert not live.wait(killed(1))["closed"]
    with pytest.raises(LimitExceeded, match="died") as caught:
        live.wait(killed(3))
    assert caught.value.limit == "worker"
    assert live.run(Constraint.regex("still here"))["closed"]


def test_a_killed_nursery_is_replaced(live):
    nursery = live.nursery
    nursery.suspend()  # it cannot tell how they end
    signal_workers(live.pool, signal.SIGKILL)
    nursery.kill()
    assert live.run(Constraint.regex("nursed"), priority=Priority.LONG)["closed"]


def _started(loop, folder, **options: Any) -> LivePool:
    """A pool with its two workers."""
    made = LivePool(Pool(VOCABULARY, PoolOptions(folder, limits=LIMITS, **options)), loop, folder)
    made.wait(made.pool.start())
    until(lambda: len(made.nursery.children()) == 2)
    return made


def test_several_jobs_take_no_longer_than_one_may(tmp_path):
    patient = Pool(VOCABULARY, PoolOptions(tmp_path))
    hasty = Pool(VOCABULARY, PoolOptions(tmp_path, patience_seconds=0.02, wall_seconds=0.03))

    async def several(pool: Pool, work: Coroutine[Any, Any, None]) -> None:
        async with pool.in_time():
            await work

    async def fail() -> None:
        raise TimeoutError

    asyncio.run(several(patient, asyncio.sleep(0)))
    with pytest.raises(Overloaded, match=r"not done after 0\.05 s"):
        asyncio.run(several(hasty, asyncio.sleep(60)))
    assert (patient.overloads, hasty.overloads) == (0, 1)
    with pytest.raises(TimeoutError):
        asyncio.run(several(patient, fail()))


def test_without_a_nursery_nobody_waits_for_ever(loop, tmp_path, monkeypatch):
    made = _started(loop, tmp_path, patience_seconds=0.5)

    async def cannot(niceness: int) -> None:
        raise OSError("no memory to fork")

    try:
        monkeypatch.setattr(made.pool._nursery, "fork", cannot)
        kill_workers(made.pool)
        with pytest.raises(Overloaded, match="too long"):
            made.wait(asyncio.wait_for(made.pool.run(job(Constraint.regex("nobody")), Priority.QUICK), 30))
    finally:
        made.wait(made.pool.close())


def test_a_worker_at_rest_gives_back_its_memory(live, monkeypatch):
    monkeypatch.setattr("guided.workers.pool._REST_SECONDS", 0.2)
    monkeypatch.setattr("guided.workers.pool._SPARE_BYTES", 0)
    deaths = live.pool.deaths
    live.run(EXPLOSION)
    grown = {worker.pid for worker in live.nursery.children()}
    until(lambda: len(grown & {worker.pid for worker in live.nursery.children()}) < len(grown))
    assert live.run(Constraint.regex("rested"))["closed"]
    assert live.pool.deaths == deaths


def _priorities(made: LivePool) -> set[tuple[int, int]]:
    """Policy and niceness of each worker; one that the pool has just ended has none."""
    found = set()
    for worker in made.nursery.children():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            found.add((os.sched_getscheduler(worker.pid), worker.nice()))
    return found


@pytest.mark.skipif(os.nice(0) != 0, reason="the tests themselves are nice")
@pytest.mark.parametrize("nice, expected", [(3, (os.SCHED_IDLE, 19)), (0, (os.SCHED_OTHER, 0))])
def test_workers_give_way(nice, expected, loop, tmp_path):
    made = _started(loop, tmp_path, nice=nice)
    try:
        until(lambda: _priorities(made) == {expected})
        # Linux shares CPUs between sessions before it looks at niceness.
        assert os.getsid(made.nursery.pid) == os.getsid(0)
        assert os.getpgid(made.nursery.pid) == made.nursery.pid, "the terminal's keys are for the server"
    finally:
        made.wait(made.pool.close())


@pytest.mark.skipif(os.nice(0) != 0, reason="the tests themselves are nice")
def test_short_jobs_claim_a_cpu_where_they_get_none(loop, tmp_path, monkeypatch):
    made = _started(loop, tmp_path, nice=3)

    async def starved() -> dict[str, Any]:
        signal_workers(made.pool, signal.SIGSTOP)
        return await made.pool.run(job(Constraint.regex("starved"), wall_seconds=0.5), Priority.QUICK)

    try:
        assert made.wait(starved())["closed"]
        assert (os.SCHED_OTHER, 3) in _priorities(made)
        signal_workers(made.pool, signal.SIGCONT)
        made.pool._starved_until = 0.0  # the minute is over
        for number in range(2):
            made.run(Constraint.regex(f"calm{number}"))
        assert _priorities(made) == {(os.SCHED_IDLE, 19)}
    finally:
        made.wait(made.pool.close())


def test_who_leaves_takes_the_job_along(live):
    async def leave() -> float:
        work = asyncio.create_task(
            live.pool.run(job(EXPLOSION, "close", closing_seconds=60.0, seconds=60.0, wall_seconds=90.0), Priority.LONG)
        )
        await asyncio.sleep(0.3)
        work.cancel()
        begin = time.monotonic()
        await live.pool.run(job(Constraint.regex("next")), Priority.LONG)
        return time.monotonic() - begin

    assert live.wait(leave()) < 60


def test_checks_and_first_attempts_take_turns(tmp_path, monkeypatch):
    """A worker for short jobs: fifty answers that are to be checked do not keep a constraint waiting that is simple."""

    async def order() -> list[str]:
        pool = Pool(VOCABULARY, PoolOptions(tmp_path))
        done: list[str] = []

        async def hire(niceness: int) -> SimpleNamespace:
            return SimpleNamespace(is_gone=False, niceness=IDLE, grown_bytes=0, kill=lambda: None)

        async def note(worker: object, ticket: Ticket) -> bool:
            done.append(ticket.priority.name)
            return True

        monkeypatch.setattr(pool, "_hire", hire)
        monkeypatch.setattr(pool, "_counted", note)
        for priority in [Priority.CHECK] * 4 + [Priority.QUICK] * 2:
            pool._queue.put(Ticket({}, priority, "", asyncio.get_running_loop().create_future()))
        working = asyncio.create_task(pool._keep_busy(_SHORT))
        while len(done) < 6 and not working.done():
            await asyncio.sleep(0)
        if working.done():
            await working  # it ended with an error
        working.cancel()
        return done

    assert asyncio.run(order()) == ["CHECK", "QUICK", "CHECK", "QUICK", "CHECK", "CHECK"]


def test_short_jobs_do_not_wait_for_long_ones(live):
    async def both() -> bool:
        long = [
            asyncio.create_task(live.pool.run(job(EXPLOSION, "close", closing_seconds=1.0), Priority.LONG))
            for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        await live.pool.run(job(Constraint.choice(["a", "b"])), Priority.QUICK)
        first = not any(task.done() for task in long)
        await asyncio.gather(*long)
        return first

    assert live.wait(both())


def test_what_nobody_waits_for_makes_way(live):
    async def both() -> None:
        background = asyncio.create_task(
            live.pool.run(
                job(EXPLOSION, "close", closing_seconds=60.0, seconds=60.0, wall_seconds=90.0), Priority.BACKGROUND
            )
        )
        await asyncio.sleep(0.5)
        await live.pool.run(job(Constraint.regex("somebody waits")), Priority.LONG)
        with pytest.raises(Overloaded, match="made way"):
            await background

    live.wait(both())


# --- answers of growing indexes -------------------------------------------------------------------------------------------


def tokens(text: str) -> list[int]:
    """One token a byte: the small vocabulary has all of them."""
    pieces = list(VOCABULARY.token_bytes)
    return [pieces.index(bytes([byte])) for byte in text.encode()]


def test_answers_are_checked_and_what_was_learnt_is_kept(live: LivePool):
    assert not live.run(RECURSIVE, closing_seconds=0.0)["closed"]
    before = Disk(live.folder, VOCABULARY, rebuild=lambda c: None).load(RECURSIVE.digest).index.num_states
    for text, complete in [("x", True), ("(x)", True), ("(x", False), ("((((((((ax" + "b))))))))", True), ("y", False)]:
        found = live.run(RECURSIVE, "check", tokens=tokens(text), priority=Priority.CHECK)
        assert found["complete"] is complete, text
    deadline = time.monotonic() + 30
    while True:  # written after the answer, with nobody waiting
        stored = Disk(live.folder, VOCABULARY, rebuild=lambda c: None).load(RECURSIVE.digest)
        if stored is not None and stored.index.num_states > before:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_exploring_writes_what_may_come_next(live: LivePool):
    grammar = Constraint.grammar('start: "[" start "]" | "a" start "b" | "x" | "(" start ")"')
    live.run(grammar, closing_seconds=0.0)
    for text, alive in [("[[[(", True), ("[]", False), ("[(x)]", True)]:
        found = live.run(grammar, "explore", tokens=tokens(text), exploring_seconds=0.05, priority=Priority.CHECK)
        assert found["alive"] is alive, text
    stored = Disk(live.folder, VOCABULARY, rebuild=lambda c: None).load(grammar.digest)
    state = stored.index.start
    for token in tokens("[[[(x"):  # nothing of this asks for the network, which is not there
        assert stored.index.mask(state).any()
        state = stored.index.advance(state, token)


def test_describe(live):
    constraint = Constraint.regex("[ab]{2,4}")
    live.run(constraint)
    facts = live.run(constraint, "describe")
    assert (facts["fewest_tokens"], facts["most_tokens"]) == (1, 4)
    assert 1 <= facts["typical_tokens"] <= 4 and facts["max_tokens"] <= 5
    schema = Constraint.json_schema({"properties": {"a": {"type": "integer", "minimun": 3}}, "required": ["a"]})
    live.run(schema)
    assert sorted(one["code"] for one in live.run(schema, "describe")["warnings"]) == [
        "no-unknown",
        "unknown-keyword",
    ]


def test_fetch_and_flush(live):
    constraint = Constraint.regex("fetched")
    assert live.run(None, "fetch", digest=constraint.digest)["constraint"] is None
    live.run(constraint)
    assert live.run(None, "fetch", digest=constraint.digest)["constraint"] == constraint.canonical_text
    assert live.run(None, "flush")["removed"]["disk"] >= 1
    assert not list(Path(live.folder).rglob("*.index"))
