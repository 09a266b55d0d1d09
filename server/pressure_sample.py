"""In: constrained answers; out: what the worker measured of every so many, for the metrics. No answer waits for it.

Who asks for a report gets what is measured of that one answer. Nobody asks for the others; measuring each would cost the engine two passes
over the logits in every step, so a few stand for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from uuid import uuid4

from vllm.outputs import RequestOutput

from guided.vllm_adapters.reports import Measured, Reports


class PressureSample:
    """Chooses answers, and records what was measured when they are over."""

    def __init__(self, every: int, reports: Reports, record: Callable[[str, Measured], None]) -> None:
        """
        Args:
            every: how many answers there are to one that is measured; 0: none is.
            record: is told the kind of constraint, and what was measured.
        """
        self._every = every
        self._reports = reports
        self._record = record
        self._left = every
        self._reading: set[asyncio.Task[None]] = set()

    def name(self) -> str | None:
        """Under which the worker is to report the next answer; None: it is not measured."""
        if not self._every:
            return None
        self._left -= 1
        if self._left:
            return None
        self._left = self._every
        return uuid4().hex

    async def followed(
        self, outputs: AsyncGenerator[RequestOutput, None], name: str, kind: str, *, deltas: bool
    ) -> AsyncGenerator[RequestOutput, None]:
        """Passes outputs of one answer on; what was measured of it, to where it came, is recorded after that.

        Args:
            deltas: each output holds the tokens since the last one, not all of them.
        """
        tokens = 0
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    tokens = len(output.outputs[0].token_ids) + (tokens if deltas else 0)
                    yield output
        finally:
            reading = asyncio.create_task(self._read(name, kind, tokens))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read(self, name: str, kind: str, tokens: int) -> None:
        measured = await self._reports.read(name, tokens) if tokens else None
        if measured is not None:
            self._record(kind, measured)
