"""In: how many requests the engine has and which steps it made; out: whether it hangs. Ends nothing itself.

vLLM knows an engine whose process is gone. One that waits for a device or a rank that never answers has a process, and requests that
wait with it.
"""

from __future__ import annotations

import logging
import time

from server.load import Load

logger = logging.getLogger(__name__)


class Stall:
    """Of an engine that is looked at every few seconds.

    Attributes:
        hangs: it has had requests for so long and made no step.
    """

    def __init__(self, load: Load, seconds: float) -> None:
        """
        Args:
            seconds: that no step takes, a first one with compilation included.
        """
        self.hangs = False
        self._load = load
        self._seconds = seconds
        self._steps = load.steps
        self._since = time.monotonic()  # the engine did something, or had nothing to do

    def look(self, unfinished: int) -> None:
        """Takes notice of how many requests the engine has now."""
        now = time.monotonic()
        if not unfinished or self._steps != self._load.steps:
            self._steps, self._since = self._load.steps, now
        hung, self.hangs = self.hangs, now - self._since > self._seconds
        if self.hangs and not hung:
            logger.error("the engine has had %d requests for %g s and made no step", unfinished, self._seconds)
        elif hung and not self.hangs:
            logger.warning("the engine makes steps again")
