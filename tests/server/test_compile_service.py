"""Constraints through the service and real workers: compiled once for all who ask, refused, given up, described."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import server.compile_service as module
from guided.constraint import Constraint
from guided.errors import InvalidConstraint, LimitExceeded
from guided.workers import Overloaded, Priority
from server.compile_service import spells_an_answer
from server.refusals import Refusals
from tests.server.fakes import TextIndex, tokens_of
from tests.server.live_service import Live, choice, live
from tests.workers.live_pool import loop

__all__ = ["live", "loop"]


def test_those_who_ask_together_share_one_compilation(live):
    async def ask() -> list:
        return await asyncio.gather(*(live.service.compile(choice("together")) for _ in range(20)))

    before = live.service.tally.found["compiled"]
    answers = live.wait(ask())
    assert live.service.tally.found["compiled"] == before + 1
    assert all(answer is answers[0] for answer in answers)
    assert answers[0].index.is_closed and live.wait(answers[0].fewest_tokens("")) == answers[0].index.min_tokens(0)


def test_the_event_loop_goes_on(live):
    async def ask() -> int:
        waiting = asyncio.create_task(live.service.compile(choice(*(f"{n:05}" for n in range(3000)))))
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await waiting
        return ticks

    assert live.wait(ask()) > 10


def test_refusals_are_remembered_for_what_they_say(live):
    bad = Constraint.regex("(")
    for _ in range(3):
        with pytest.raises(InvalidConstraint, match="column 1"):
            live.compile(bad)
    assert live.service.tally.refusals["invalid_constraint"] == 1, "the second and third did not reach a worker"


def test_what_is_not_quick_gets_a_second_longer_attempt(live, monkeypatch):
    monkeypatch.setattr(module, "_QUICK_SECONDS", -1.0)  # over before it begins
    constraint = Constraint.json_schema({"properties": {f"p{n}": {"type": "integer"} for n in range(50)}})
    with pytest.raises(LimitExceeded) as caught:
        quick = live.service._job("compile", constraint, seconds=-1.0)
        live.wait(live.service.pool.run(quick, Priority.QUICK))
    assert caught.value.limit == "seconds"
    assert live.compile(constraint).constraint == constraint


@pytest.mark.parametrize(
    ("error", "remembered"),
    [
        (InvalidConstraint("no", column=3, source="abcdef"), True),
        (LimitExceeded("too many", limit="states"), True),
        (LimitExceeded("too slow", limit="seconds"), False),
        (LimitExceeded("too slow", limit="wall_seconds"), False),
        (LimitExceeded("too large", limit="memory_bytes"), False),
        (LimitExceeded("died", limit="worker"), False),
    ],
)
def test_which_refusals_are_remembered(error, remembered, monkeypatch):
    refusals = Refusals()
    refusals.remember("digest", error)
    if remembered:
        with pytest.raises(type(error)) as caught:
            refusals.raise_known("digest")
        assert caught.value.describe() == error.describe()
        later = SimpleNamespace(monotonic=lambda: float("inf"))  # the minute is over; for other threads it is not
        monkeypatch.setattr("server.refusals.time", later)
    refusals.raise_known("digest")


def test_who_leaves_takes_the_compilation_along_but_not_the_others(live):
    async def leave() -> Any:
        leaving = asyncio.create_task(live.service.compile(choice("left")))
        staying = asyncio.create_task(live.service.compile(choice("left")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert live.wait(leave()).constraint == choice("left")

    async def all_leave() -> None:
        leaving = asyncio.create_task(live.service.compile(choice("all left")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert choice("all left").digest not in live.service._flights

    live.wait(all_leave())
    assert live.compile(choice("all left")).index is not None


def test_describe(live):
    facts = live.wait(live.service.describe(Constraint.regex("[ab]{1,3}")))
    assert facts["closed"] and facts["digest"] == Constraint.regex("[ab]{1,3}").digest
    assert (facts["fewest_tokens"], facts["most_tokens"]) == (1, 3)


def test_a_full_queue_is_overload(loop, tmp_path):
    small = Live(loop, tmp_path, queued=2)
    small.start()
    try:

        async def storm() -> list:
            asked = (small.service.compile(choice(f"{n}"), f"caller {n}") for n in range(12))
            return await asyncio.gather(*asked, return_exceptions=True)

        answers = small.wait(storm())
        refused = [a for a in answers if isinstance(a, Overloaded)]
        assert refused and all(a.retry_seconds >= 1 for a in refused)
        assert len(refused) < 12
    finally:
        small.wait(small.service.close())


@pytest.mark.parametrize(("text", "complete"), [("ok", True), ("o", False), ("", False), ("okk", False), ("no", False)])
def test_spells_an_answer(text, complete):
    assert spells_an_answer(TextIndex("ok"), tokens_of(text)) is complete  # type: ignore[arg-type]
