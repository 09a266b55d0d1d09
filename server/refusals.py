"""In: constraints that were refused; out: the same refusal at once when they are sent again soon. Knows no compilation."""

from __future__ import annotations

import time

from guided.errors import ConstraintError, LimitExceeded
from guided.workers.messages import Message, from_error, to_error

_SECONDS = 60.0
_CAPACITY = 1024
_DETERMINED = {
    "constraint_bytes",
    "states",
    "nesting",
    "choices",
}  # limits that a constraint reaches on any machine at any time


class Refusals:
    """The refusals of the last minute that the constraint itself is the reason of: time and memory may suffice the next time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, float]] = {}  # digest -> error, time.monotonic() of its end; oldest first

    def raise_known(self, digest: str) -> None:
        """Raises ConstraintError where the constraint was refused lately."""
        known = self._known.get(digest)
        if known is None:
            return
        error, end = known
        if time.monotonic() < end:
            raise to_error(error)
        del self._known[digest]

    def remember(self, digest: str, error: ConstraintError) -> None:
        if isinstance(error, LimitExceeded) and error.limit not in _DETERMINED:
            return
        while len(self._known) >= _CAPACITY:
            del self._known[next(iter(self._known))]
        self._known[digest] = from_error(error), time.monotonic() + _SECONDS

    def flush(self) -> None:
        self._known.clear()
