"""How much a caller may ask: a minute's requests in a burst, then as they come back; and so many at a time."""

from __future__ import annotations

import pytest

from server import allowance
from server.allowance import Allowance, Allowances
from server.errors import RequestRefused


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_and_then_what_comes_back():
    clock = Clock()
    used, may = Allowances(clock), Allowance(requests_per_minute=6)
    left = [int(used.enter("a", may)["x-ratelimit-remaining-requests"]) for _ in range(6)]
    assert left == [5, 4, 3, 2, 1, 0]
    with pytest.raises(RequestRefused) as refused:
        used.enter("a", may)
    assert (refused.value.status, refused.value.code, refused.value.retry_seconds) == (429, "rate_limit_exceeded", 10)
    assert used.headers("a", may)["x-ratelimit-reset-requests"] == "60.000s"
    clock.now += 10
    assert used.enter("a", may)["x-ratelimit-limit-requests"] == "6"
    clock.now += 3600
    assert used.enter("a", may)["x-ratelimit-remaining-requests"] == "5"


def test_callers_do_not_share():
    used, may = Allowances(Clock()), Allowance(requests_per_minute=1)
    used.enter("a", may)
    used.enter("b", may)


def test_at_a_time():
    used, may = Allowances(Clock()), Allowance(concurrent_requests=2)
    assert used.enter("a", may) == {}
    used.enter("a", may)
    with pytest.raises(RequestRefused) as refused:
        used.enter("a", may)
    assert (refused.value.status, refused.value.retry_seconds) == (429, 1)
    used.leave("a")
    used.enter("a", may)


def test_a_refused_request_uses_nothing():
    clock = Clock()
    used, may = Allowances(clock), Allowance(requests_per_minute=2, concurrent_requests=1)
    used.enter("a", may)
    for _ in range(5):
        with pytest.raises(RequestRefused):
            used.enter("a", may)
    used.leave("a")
    used.enter("a", may)


def test_callers_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(allowance, "_KEPT", 3)
    clock = Clock()
    used, may = Allowances(clock), Allowance(requests_per_minute=1)
    for name in "abc":
        used.enter(name, may)
    used.leave("a")
    clock.now += 61
    used.enter("d", may)
    assert set(used._callers) == {"b", "c", "d"}  # a is gone; b and c still run
