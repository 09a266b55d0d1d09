"""Every so many answers are measured, and none waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guided.vllm_adapters.reports import Measured, Reports
from server.pressure_sample import PressureSample
from tests.server.fakes import output, sample


@pytest.mark.parametrize(("every", "chosen"), [(0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5])])
def test_every_so_many(tmp_path, every, chosen):
    measuring = PressureSample(every, Reports(tmp_path), lambda *_: None)
    names = [measuring.name() for _ in range(7)]
    assert [number for number, name in enumerate(names) if name is not None] == chosen
    assert len({*names} - {None}) == len(chosen)


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("leaves", [False, True], ids=["whole", "the client leaves"])
def test_what_was_measured_is_recorded_when_the_answer_is_over(tmp_path, deltas, leaves):
    found: list[tuple[str, Measured]] = []
    reports = Reports(tmp_path)
    measuring = PressureSample(1, reports, lambda kind, measured: found.append((kind, measured)))
    parts = [[1, 2], [3]] if deltas else [[1, 2], [1, 2, 3]]

    async def answer() -> Any:
        for tokens in parts:
            yield output(sample(tokens))

    async def run() -> list[list[int]]:
        name = measuring.name()
        followed = measuring.followed(answer(), name, "json", deltas=deltas)
        passed = []
        async for part in followed:
            passed.append(part.outputs[0].token_ids)
            if leaves:
                break
        await followed.aclose()
        assert not found, "the answer has not waited"
        reports.write(name, [0.5, 0.25, 1.0], [3, 1, 7], 4)
        while measuring._reading:
            await asyncio.sleep(0.001)
        return passed

    assert asyncio.run(run()) == (parts[:1] if leaves else parts)
    ((kind, measured),) = found
    assert kind == "json" and measured.mass == ([0.5, 0.25] if leaves else [0.5, 0.25, 1.0])
