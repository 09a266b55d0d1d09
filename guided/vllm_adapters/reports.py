"""In: what the worker measured for a request; out: the same in the API server. Knows neither.

vLLM carries nothing of ours from the worker back, so it goes through a file of the host's cache, a line each time the request leaves the
batch: at its end, or where it is preempted. An engine on another host reports nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

from guided.cache import default_folder

logger = logging.getLogger(__name__)

_STALE_SECONDS = 3600  # nobody waits that long: whoever asked is gone
_POLL_SECONDS = 0.005


@dataclass(slots=True)
class Measured:
    """The masks of one answer, one for each of its tokens, the stop token included.

    Attributes:
        mass: probability that the model gave to the allowed tokens together.
        allowed: how many tokens were allowed.
        states: of the automaton that the answer has been in.
    """

    mass: list[float] = field(default_factory=list)
    allowed: list[int] = field(default_factory=list)
    states: int = 0

    @property
    def mean(self) -> float:
        return sum(self.mass) / len(self.mass)

    @property
    def least(self) -> float:
        return min(self.mass)

    @property
    def forced(self) -> int:
        """How often one token alone was allowed."""
        return self.allowed.count(1)


class Reports:
    """What workers measured, by request."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder().parent / "reports"
        self._warned = False
        self._swept = 0.0  # monotonic time
        self._sweep()

    def write(self, name: str, mass: list[float], allowed: list[int], states: int) -> None:
        """A folder that cannot be written costs a warning, and the report."""
        self._sweep()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._path(name).open("a") as file:
                file.write(json.dumps({"mass": mass, "allowed": allowed, "states": states}) + "\n")
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("reports cannot be written: %s", error)

    async def read(self, name: str, tokens: int, patience_seconds: float = 2.0) -> Measured | None:
        """What was measured for an answer of `tokens` tokens, at least one, and nobody else reads it; None where it does not come."""
        path, deadline = self._path(name), time.monotonic() + patience_seconds
        while True:
            found = self._read(path)
            if len(found.mass) >= tokens > 0:
                path.unlink(missing_ok=True)
                return Measured(
                    found.mass[:tokens], found.allowed[:tokens], found.states
                )  # the engine may be a step ahead
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(_POLL_SECONDS)

    def _read(self, path: Path) -> Measured:
        found = Measured()
        with contextlib.suppress(OSError, ValueError):  # not there yet, or half a line
            for line in path.read_text().splitlines():
                part = json.loads(line)
                found.mass += part["mass"]
                found.allowed += part["allowed"]
                found.states = part["states"]
        return found

    def _sweep(self) -> None:
        """Removes what nobody came for: the client had left."""
        now = time.monotonic()
        if self._swept and now - self._swept < _STALE_SECONDS / 6:
            return
        self._swept = now
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                    path.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.jsonl"
