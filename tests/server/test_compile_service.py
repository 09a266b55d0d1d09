"""Compilation happens once, off the event loop, and is remembered; refusals are not."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import server.compile_service as module
from guided.constraint import Constraint
from guided.errors import InvalidConstraint
from guided.limits import Limits
from server.compile_service import Compiled, CompileService
from tests.server.fakes import TextIndex, tokens_of


class Compiler:
    """Takes `seconds` and counts its calls."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.seconds = seconds
        self.error = error
        self.calls: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, constraint, vocabulary, limits):
        self.calls.append(constraint.value[0])
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return TextIndex(constraint.value[0])


@pytest.fixture
def compiler(monkeypatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(module, "compile", made)
    return made


def service(capacity: int = 8) -> CompileService:
    return CompileService(None, limits=Limits(), capacity=capacity)  # type: ignore[arg-type]


def choice(text: str) -> Constraint:
    return Constraint.choice([text])


def test_those_who_ask_together_share_one_compilation(compiler):
    compiler.seconds = 0.05

    async def ask():
        shared = service()
        return await asyncio.gather(*(shared.compile(choice("a")) for _ in range(20)))

    answers = asyncio.run(ask())
    assert len(compiler.calls) == 1
    assert all(answer is answers[0] for answer in answers)


def test_what_was_compiled_is_remembered_up_to_the_capacity(compiler):
    async def ask():
        small = service(capacity=2)
        for text in ("a", "b", "a", "c", "a", "b"):
            await small.compile(choice(text))

    asyncio.run(ask())
    assert compiler.calls == ["a", "b", "c", "b"]  # "b" was used least recently when "c" came


def test_the_event_loop_goes_on(compiler):
    compiler.seconds = 0.3

    async def ask():
        shared = service()
        waiting = asyncio.create_task(shared.compile(choice("a")))
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(ask()) > 10
    assert threading.get_ident() not in compiler.threads


def test_refusals_reach_everybody_and_are_not_remembered(compiler):
    compiler.error = InvalidConstraint("no")

    async def ask():
        shared = service()
        for _ in range(2):
            refused = await asyncio.gather(
                shared.compile(choice("a")), shared.compile(choice("a")), return_exceptions=True
            )
            assert [type(r) for r in refused] == [InvalidConstraint, InvalidConstraint]

    asyncio.run(ask())
    assert len(compiler.calls) == 2


def test_a_caller_that_leaves_does_not_cancel_the_others(compiler):
    compiler.seconds = 0.1

    async def ask():
        shared = service()
        leaving = asyncio.create_task(shared.compile(choice("a")))
        staying = asyncio.create_task(shared.compile(choice("a")))
        await asyncio.sleep(0.02)
        leaving.cancel()
        return await staying

    assert asyncio.run(ask()).constraint == choice("a")


@pytest.mark.parametrize(("text", "complete"), [("ok", True), ("o", False), ("", False), ("okk", False), ("no", False)])
def test_satisfied_by(text, complete):
    compiled = Compiled(choice("ok"), TextIndex("ok"))  # type: ignore[arg-type]
    assert compiled.satisfied_by(tokens_of(text)) is complete
