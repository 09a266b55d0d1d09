"""In: what the worker measured for a request; out: the same in the API server. Knows neither.

vLLM carries nothing of ours from the worker back, so it goes through a file of the host's cache: a line each time the request leaves the
batch, at its end or where it is preempted, or, where nobody says when that is, a line each step. An engine on another host reports
nothing.
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
from typing import Any

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
        states: of the automaton that the answer has been in; None where steps were reported one by one.
    """

    mass: list[float] = field(default_factory=list)
    allowed: list[int] = field(default_factory=list)
    states: int | None = None

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


def reports_of_this_rank() -> Reports | None:
    """None in all but one of the workers that share the model's tensors: all of them mask, and measure, the same."""
    from vllm.distributed import parallel_state

    is_first = (
        not parallel_state.model_parallel_is_initialized() or parallel_state.get_tensor_model_parallel_rank() == 0
    )
    return Reports() if is_first else None


class Reports:
    """What workers measured, by request."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder().parent / "reports"
        self._warned = False
        self._swept = 0.0  # monotonic time
        self._sweep()

    def write(self, name: str, mass: list[float], allowed: list[int], states: int) -> None:
        """A request has left the batch. A folder that cannot be written costs a warning, and the report."""
        self._append(name, {"mass": mass, "allowed": allowed, "states": states})

    def write_steps(self, name: str, steps: list[tuple[int, float, int]]) -> None:
        """(position in the output, mass, allowed) of one step; what was said of a position before was a draft that was rejected."""
        self._append(name, {"steps": steps})

    def _append(self, name: str, part: dict[str, Any]) -> None:
        self._sweep()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._path(name).open("a") as file:
                file.write(json.dumps(part) + "\n")
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
        steps: dict[int, tuple[float, int]] = {}
        with contextlib.suppress(OSError, ValueError):  # not there yet, or half a line
            for line in path.read_text().splitlines():
                part = json.loads(line)
                if "steps" in part:
                    steps |= {position: (mass, allowed) for position, mass, allowed in part["steps"]}
                    continue
                found.mass += part["mass"]
                found.allowed += part["allowed"]
                found.states = part["states"]
        for position in range(len(steps)):
            if position not in steps:
                break  # it is on its way
            found.mass.append(steps[position][0])
            found.allowed.append(steps[position][1])
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
