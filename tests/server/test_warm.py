"""Warming before the server is ready: every file, a line for each, and a wrong one stops nothing."""

from __future__ import annotations

import asyncio

from guided.constraint import Constraint
from guided.constraint_files import find_files
from guided.errors import InvalidConstraint
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


def test_what_outputs_obey_besides_is_warmed_too(tmp_path):
    (tmp_path / "a.regex").write_text("a")
    (tmp_path / "marked.regex").write_text("b")
    service, progress = Service(), Progress()

    async def forms(constraint: Constraint) -> list[Constraint]:
        if constraint.value == "b":
            raise InvalidConstraint("its marker is too long")
        return [constraint.after("</think>")]

    asyncio.run(warm(service, find_files([tmp_path]), progress, forms))  # type: ignore[arg-type]
    constraint = Constraint.regex("a")
    assert {one.digest for one in service.compiled} == {constraint.digest, constraint.after("</think>").digest}
    assert any("marked.regex is not warmed: its marker" in line for line in progress.lines)


def test_bar():
    assert bar(0, 4) == "." * 30 and bar(4, 4) == "#" * 30 and len(bar(1, 3)) == 30
