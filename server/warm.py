"""In: files and folders of constraints; out: their indexes in the cache before the server is ready, and a line for each that is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from guided.constraint import Constraint
from guided.constraint_files import read_file
from guided.errors import ConstraintError
from guided.workers import Overloaded
from server.compile_service import CompileService

_BAR = 30  # characters
_AT_ONCE = 4  # constraints that wait for workers at a time


Forms = Callable[[Constraint], Awaitable[list[Constraint]]]


class Says(Protocol):
    def say(self, message: str) -> None: ...


async def warm(service: CompileService, files: list[Path], progress: Says, forms: Forms | None = None) -> None:
    """Compiles and closes what can be closed. A constraint that is refused is named; the server starts all the same.

    Args:
        forms: what outputs obey besides a constraint itself; see `server.thinking.serving.Thinking.forms`.
    """
    places = asyncio.Semaphore(_AT_ONCE)
    done = 0

    async def one(path: Path) -> None:
        nonlocal done
        async with places:
            try:
                constraint = await asyncio.to_thread(read_file, path)
                for form in [constraint, *(await forms(constraint) if forms is not None else ())]:
                    await service.warm(form)
            except (ConstraintError, Overloaded, OSError) as error:
                progress.say(f"{path} is not warmed: {error}")
        done += 1
        progress.say(f"warming [{bar(done, len(files))}] {done} of {len(files)}  {path.name}")

    await asyncio.gather(*(one(path) for path in files))


def bar(done: int, total: int) -> str:
    filled = _BAR * done // max(1, total)
    return "#" * filled + "." * (_BAR - filled)
