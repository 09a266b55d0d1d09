"""In: what happens to the server; out: whether it takes requests, and how many it is answering. Ends nothing itself."""

from __future__ import annotations

import asyncio
from typing import Protocol

from server.errors import RequestRefused
from server.stall import Stall

_RETRY_SECONDS = 5


class Engine(Protocol):
    stall: Stall | None

    @property
    def errored(self) -> bool: ...


class Availability:
    """Of a server that has started: its engine is up and its constraints are warm.

    Attributes:
        draining: what runs is finished, nothing new begins.
        running: requests that are being answered, health checks and the like aside.
    """

    def __init__(self, engine: Engine) -> None:
        self.draining = False
        self.running = 0
        self._engine = engine
        self._idle = asyncio.Event()
        self._idle.set()

    def refusal(self) -> RequestRefused | None:
        """Why no request is taken: HTTP 503, which clients and routers send elsewhere."""
        if self._engine.errored:
            return RequestRefused("the engine died", "engine_dead", status=503, retry_seconds=_RETRY_SECONDS)
        if self._engine.stall is not None and self._engine.stall.hangs:
            return RequestRefused("the engine hangs", "engine_dead", status=503, retry_seconds=_RETRY_SECONDS)
        if self.draining:
            return RequestRefused(
                "this server is shutting down; send the request again", "shutting_down", status=503, retry_seconds=1
            )
        return None

    def enter(self) -> None:
        self.running += 1
        self._idle.clear()

    def leave(self) -> None:
        self.running -= 1
        if not self.running:
            self._idle.set()

    async def idle(self) -> None:
        """Returns when no request is being answered."""
        await self._idle.wait()
