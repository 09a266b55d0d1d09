"""In: work that several ask for at the same time; out: it is done once, and each has its result. Knows not what it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class _Flight(Generic[Result]):
    """Work under way. It ends when the last who waits for it has left."""

    task: asyncio.Task[Result]
    waiting: int = 0


class Flights(Generic[Result]):
    """Work by name; that of different names goes on side by side."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[Result]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._flights

    async def share(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of `work`, or of what somebody else began under this name. Raises what it raises."""
        flight = self._flights.get(name)
        if flight is None:
            flight = self._flights[name] = _Flight(asyncio.create_task(work()))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0:
                if self._flights.get(name) is flight:
                    del self._flights[name]
                flight.task.cancel()

    @property
    def tasks(self) -> list[asyncio.Task[Result]]:
        return [flight.task for flight in self._flights.values()]
