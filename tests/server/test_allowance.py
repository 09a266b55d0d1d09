"""How much a caller may ask: a minute's requests in a burst, then as they come back; and so many at a time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from server import allowance
from server.allowance import Allowance, Allowances
from server.callers import caller_of
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
    used, may = Allowances(Clock()), Allowance(requests_per_minute=2)
    for name in "abc":
        used.enter(name, may)
    used.leave("b")
    used.leave("c")
    used.enter("b", may)
    used.leave("b")
    used.enter("d", may)
    assert set(used._callers) == {"a", "b", "d"}  # a still runs; c has asked nothing for longest
    used.leave("a")


def test_many_callers_cost_no_more_than_few(monkeypatch):
    """In the time that a request takes on the event loop: none looks at all of the others."""
    monkeypatch.setattr(allowance, "_KEPT", 1000)
    used, may = Allowances(Clock()), Allowance(requests_per_minute=1)
    looked_at = 0

    class Counting(OrderedDict):
        def popitem(self, last: bool = True) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().popitem(last)

        def items(self) -> Any:
            raise AssertionError("all of them")

    used._callers = Counting()
    for number in range(3000):
        used.enter(str(number), may)  # and none leaves
    assert looked_at <= allowance._TRIED * 2000
    for number in range(3000):
        used.leave(str(number))
    for number in range(3000, 6000):
        used.enter(str(number), may)
        used.leave(str(number))
    assert len(used._callers) <= 1000 + 1


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_counts_with_those_that_its_owner_has_too(address, caller):
    assert caller_of({"client": (address, 1)}) == caller
