"""An engine that has requests and makes no step hangs, whatever its process says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from server.availability import Availability
from server.engine import GuidedEngine
from server.load import Load
from server.stall import Stall


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr("server.stall.time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def test_requests_without_steps(clock):
    load = Load()
    stall = Stall(load, 300)
    clock.seconds += 5000  # idle
    stall.look(0)
    stall.look(3)
    assert not stall.hangs, "the requests have just come"
    clock.seconds += 299
    stall.look(3)
    assert not stall.hangs
    clock.seconds += 2
    stall.look(3)
    assert stall.hangs
    load.logger(None).record(None, None)
    stall.look(3)
    assert not stall.hangs, "it makes steps again"
    clock.seconds += 301
    stall.look(0)
    assert not stall.hangs, "nobody waits for it"


def test_probes_say_so(clock, monkeypatch):
    async def alive(self: AsyncLLM) -> None:
        return None

    monkeypatch.setattr(AsyncLLM, "check_health", alive)
    engine = GuidedEngine.__new__(GuidedEngine)
    asyncio.run(engine.check_health())
    engine.stall = Stall(Load(), 300)
    availability = Availability(SimpleNamespace(errored=False, stall=engine.stall))
    asyncio.run(engine.check_health())
    assert availability.refusal() is None
    clock.seconds += 301
    engine.stall.look(1)
    with pytest.raises(EngineDeadError):
        asyncio.run(engine.check_health())
    assert availability.refusal().code == "engine_dead"
