"""A small fuzz of the whole application, without a model; `python -m loadtests.fuzz` sends as many as one likes to a real server."""

from __future__ import annotations

import asyncio

from loadtests.fuzz import fuzz, request_of

CALLS = 200


def test_hostile_requests_get_an_answer_that_is_no_5xx(gateway):
    seen = asyncio.run(fuzz(gateway, CALLS, seed=11, parallel=8))
    assert sum(seen.values()) == CALLS
    assert not seen[0] and not [status for status in seen if status >= 500], seen
    assert seen[200] > CALLS / 50 and seen[400] > CALLS / 2, "neither all good nor all bad"


def test_a_call_is_the_same_every_time():
    assert request_of(1, 2, "m") == request_of(1, 2, "m") != request_of(1, 3, "m")
