"""In: how long the masks of a step of the engine took; out: how many took how long, for the API server. Knows neither.

vLLM carries nothing of ours from the worker back, so the counts are in a file of the host's cache: the worker maps it, the server reads it.
An engine on another host counts for nobody. What is counted is time of the host: kernels of a GPU run on while the step goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from bisect import bisect_left
from pathlib import Path

import numpy as np

from guided.cache import default_folder

logger = logging.getLogger(__name__)

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)  # seconds
_FIELDS = len(BOUNDS) + 2  # float64: steps up to each bound and from the one before, steps beyond them, seconds of all
_STALE_SECONDS = 30 * 24 * 3600


def _folder() -> Path:
    return default_folder().parent / "masks"


class MaskTimes:
    """What the worker counts."""

    def __init__(self, instance: str) -> None:
        """A folder that cannot be written costs a warning, and the counts.

        Args:
            instance: of the engine.
        """
        self._counts: np.ndarray = np.zeros(_FIELDS)
        try:
            folder = _folder()
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            self._counts = np.memmap(folder / f"{instance}-{os.getpid()}", np.float64, "w+", shape=(_FIELDS,))
        except OSError as error:
            logger.warning("the time of masks cannot be told: %s", error)

    def count(self, seconds: float) -> None:
        """One step."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._counts[-1] += seconds


def read(instance: str) -> tuple[list[int], float] | None:
    """Steps by length, as BOUNDS divide them, and their seconds, of all workers of an engine; None where there are none on this host."""
    found = [np.fromfile(path, np.float64) for path in _folder().glob(f"{instance}-*")]
    counts = sum(one for one in found if len(one) == _FIELDS)
    if isinstance(counts, int):
        return None
    return [int(count) for count in counts[:-1]], float(counts[-1])


def _sweep(folder: Path) -> None:
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                path.unlink()
