"""What a worker measured reaches the process that asked for it."""

from __future__ import annotations

import asyncio
import os

from guided.vllm_adapters.reports import Reports


def test_the_parts_of_one_answer_are_put_together_and_read_once(tmp_path):
    worker, server = Reports(tmp_path), Reports(tmp_path)
    worker.write("a", [0.5], [7], 2)  # preempted here
    worker.write("b", [0.9], [1], 1)
    worker.write("a", [0.25, 1.0], [3, 1], 4)
    found = asyncio.run(server.read("a", 3))
    assert (found.mass, found.allowed, found.states) == ([0.5, 0.25, 1.0], [7, 3, 1], 4)
    assert asyncio.run(server.read("a", 3, patience_seconds=0.0)) is None
    assert asyncio.run(server.read("b", 2, patience_seconds=0.0)) is None, "a part is missing"


def test_steps_are_put_in_order_and_the_last_word_on_a_position_counts(tmp_path):
    worker, server = Reports(tmp_path), Reports(tmp_path)
    worker.write_steps("a", [(0, 0.5, 7), (1, 0.1, 2), (2, 0.1, 2)])  # two drafts, of which none is kept
    assert asyncio.run(server.read("a", 4, patience_seconds=0.0)) is None, "a part is missing"
    worker.write_steps("a", [(1, 0.25, 3)])
    worker.write_steps("a", [(2, 1.0, 1), (3, 0.75, 4)])
    found = asyncio.run(server.read("a", 3))
    assert (found.mass, found.allowed, found.states) == ([0.5, 0.25, 1.0], [7, 3, 1], None)


def test_it_is_waited_for(tmp_path):
    async def late() -> None:
        await asyncio.sleep(0.05)
        Reports(tmp_path).write("a", [0.5], [7], 2)

    async def both() -> object:
        return (await asyncio.gather(Reports(tmp_path).read("a", 1), late()))[0]

    assert asyncio.run(both()) is not None


def test_what_nobody_read_does_not_stay_for_ever(tmp_path):
    Reports(tmp_path).write("a", [0.5], [7], 2)
    (path,) = tmp_path.iterdir()
    os.utime(path, (0, 0))
    Reports(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_the_report_alone(tmp_path):
    (tmp_path / "file").write_text("")
    Reports(tmp_path / "file").write("a", [0.5], [7], 2)
    assert asyncio.run(Reports(tmp_path / "file").read("a", 1, patience_seconds=0.0)) is None
