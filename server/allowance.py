"""In: who asks; out: whether it is too much at once or in a minute, and what is left. Knows no keys and no routes.

A bucket of one minute's requests that fills continuously: a caller may send them in a burst, and then as they come back.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from server.errors import RequestRefused

CODE = "rate_limit_exceeded"
_MINUTE = 60.0
_KEPT = 16_384  # callers whose buckets are kept; beyond it those go that have asked nothing for longest
_TRIED = 8  # callers that are looked at for one that may go: a request costs the same however many there are


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one caller may have. None: any number."""

    requests_per_minute: int | None = None
    concurrent_requests: int | None = None


@dataclass(slots=True)
class _Caller:
    """`level`: requests that may be sent now, as of `at`. `running`: requests that are being answered."""

    level: float
    at: float
    running: int = 0


class Allowances:
    """What every caller has used."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._callers: OrderedDict[str, _Caller] = OrderedDict()  # who asked last is last

    def enter(self, name: str, allowance: Allowance) -> dict[str, str]:
        """Counts a request, which ends with `leave`; the headers that tell the caller what is left.

        Raises:
            RequestRefused: HTTP 429; nothing is counted.
        """
        now, rate = self._clock(), allowance.requests_per_minute
        caller = self._callers.get(name)
        if caller is None:
            self._make_room()
            caller = self._callers[name] = _Caller(float(rate or 0), now)
        self._callers.move_to_end(name)
        most = allowance.concurrent_requests
        if most is not None and caller.running >= most:
            raise RequestRefused(
                f"{caller.running} of your requests are being answered, and that is as many as may be at once",
                CODE,
                status=429,
                retry_seconds=1,
            )
        if rate is not None:
            caller.level = min(rate, caller.level + (now - caller.at) * rate / _MINUTE)
        caller.at = now
        if rate is not None:
            if caller.level < 1:
                seconds = (1 - caller.level) * _MINUTE / rate
                raise RequestRefused(
                    f"more than {rate} requests a minute; try again in {math.ceil(seconds)} s",
                    CODE,
                    status=429,
                    retry_seconds=math.ceil(seconds),
                )
            caller.level -= 1
        caller.running += 1
        return self.headers(name, allowance)

    def leave(self, name: str) -> None:
        self._callers[name].running -= 1

    def headers(self, name: str, allowance: Allowance) -> dict[str, str]:
        """In OpenAI's spelling; none where there is no limit of requests a minute."""
        rate, caller = allowance.requests_per_minute, self._callers.get(name)
        if rate is None or caller is None:
            return {}
        return {
            "x-ratelimit-limit-requests": str(rate),
            "x-ratelimit-remaining-requests": str(int(caller.level)),
            "x-ratelimit-reset-requests": f"{(rate - caller.level) * _MINUTE / rate:.3f}s",
        }

    def _make_room(self) -> None:
        """Forgets the callers that have asked nothing for longest; those whose requests are being answered stay, as they ask last."""
        tried = 0
        while len(self._callers) >= _KEPT and tried < _TRIED:
            name, caller = self._callers.popitem(last=False)
            if caller.running:
                self._callers[name] = caller
            tried += 1
