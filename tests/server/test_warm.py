"""Warming before the server is ready: every file, a line for each, and a wrong one stops nothing."""

from __future__ import annotations

import asyncio

from guided.constraint_files import find_files
from server.warm import bar, warm
from tests.server.fakes import FakeCompileService


class Service(FakeCompileService):
    async def warm(self, constraint) -> bool:
        await self.compile(constraint)
        return True


class Progress:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def test_every_file_is_warmed_and_wrong_ones_are_named(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.regex").write_text(f"{number}")
    (tmp_path / "bad.schema.json").write_text("{")
    service, progress = Service(), Progress()
    asyncio.run(warm(service, find_files([tmp_path]), progress))  # type: ignore[arg-type]
    assert len(service.compiled) == 5
    assert sum("is not warmed" in line for line in progress.lines) == 1
    assert progress.lines[-1].startswith("warming [") and "6 of 6" in progress.lines[-1]


def test_bar():
    assert bar(0, 4) == "." * 30 and bar(4, 4) == "#" * 30 and len(bar(1, 3)) == 30
