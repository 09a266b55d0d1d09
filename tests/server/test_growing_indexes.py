"""Indexes that still grow, through the service: used, checked and searched for their shortest answers by workers, closed in the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import server.compile_service as module
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.workers import Priority
from tests.server.live_service import live
from tests.workers.live_pool import loop
from tests.workers.test_pool import EXPLOSION, RECURSIVE, tokens

__all__ = ["live", "loop"]


@pytest.fixture
def asked(live, monkeypatch) -> list[tuple[str, Priority, str]]:
    """The jobs that the pool is given: kind, priority and caller."""
    jobs: list[tuple[str, Priority, str]] = []
    run = live.service.pool.run

    async def noted(job: dict[str, Any], priority: Priority, caller: str = "") -> dict[str, Any]:
        jobs.append((job["kind"], priority, caller))
        return await run(job, priority, caller)

    monkeypatch.setattr(live.service.pool, "run", noted)
    return jobs


def test_an_index_that_grows_is_used_and_checked_by_workers(live):
    compiled = live.compile(RECURSIVE)
    assert compiled.index is None and live.wait(compiled.fewest_tokens("")) is not None
    for text, complete in [("(x)", True), ("(x", False), ("y", False)]:
        assert live.wait(compiled.satisfied_by(tokens(text), "")) is complete


def test_the_shortest_answer_is_looked_for_once_and_in_its_callers_turn(live, asked):
    compiled = live.compile(Constraint.grammar('start: "(" start ")" | "abb"'))
    asked.clear()

    async def together() -> list[int | None]:
        return await asyncio.gather(*(compiled.fewest_tokens(f"caller {n}") for n in range(20)))

    assert len(set(live.wait(together()))) == 1
    assert live.wait(compiled.fewest_tokens("later")) is not None
    assert asked == [("fewest", Priority.QUICK, "caller 0")]
    assert live.wait(compiled.satisfied_by(tokens("(abb"), "somebody")) is False
    assert asked[1:] == [("check", Priority.CHECK, "somebody")]


def test_that_the_shortest_answer_is_not_found_is_remembered_for_a_while(live, asked, monkeypatch):
    compiled = live.compile(Constraint.grammar('start: "(" start ")" | "aab"'))
    asked.clear()
    run = live.service.pool.run

    async def too_slow(job: dict[str, Any], priority: Priority, caller: str = "") -> dict[str, Any]:
        found = await run(job, priority, caller)
        if job["kind"] == "fewest":
            raise LimitExceeded("too slow", limit="seconds")
        return found

    monkeypatch.setattr(live.service.pool, "run", too_slow)
    for _ in range(3):
        assert live.wait(compiled.fewest_tokens("a")) is None
    assert asked == [("fewest", Priority.QUICK, "a"), ("fewest", Priority.LONG, "a")]
    monkeypatch.setattr(module, "_UNKNOWN_SECONDS", 0.0)
    live.service.memory.flush()
    compiled = live.compile(compiled.constraint)
    asked.clear()
    for _ in range(2):
        assert live.wait(compiled.fewest_tokens("a")) is None
    assert [kind for kind, _, _ in asked] == ["fewest"] * 4, "the while is over"


def test_after_a_restart_the_shortest_answer_is_known_before_anybody_asks(live, monkeypatch):
    live.compile(RECURSIVE)
    service = live.restart()
    compiled = service.memory.peek(RECURSIVE.digest)
    assert compiled is not None and compiled.index is None
    live.wait(asyncio.wait(service._tasks[1:]))
    monkeypatch.setattr(service.pool, "run", None)  # nobody is asked any more
    assert live.wait(compiled.fewest_tokens("")) == 1


def test_what_needs_longer_is_closed_with_nobody_waiting(live):
    wide = Constraint.regex("[ab]{2,400}c")
    live.service._close_seconds, before = 0.0, live.service._close_seconds
    try:
        assert live.compile(wide).index is None
        assert live.wait(live.service.warm(wide))
        assert live.compile(wide).index is not None
        assert not live.wait(live.service.warm(EXPLOSION)), "5,000 states are not enough: it goes on growing"
    finally:
        live.service._close_seconds = before
