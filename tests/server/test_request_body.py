"""Bytes of a request that are no JSON, or say one thing twice."""

from __future__ import annotations

import pytest

from server.errors import RequestRefused
from server.request_body import parse_body


@pytest.mark.parametrize(
    "raw",
    [
        b'{"guided_choice": ["a"], "prompt": "x", "guided_choice": null}',
        b'{"guided_json": {"type": "string", "type": "boolean"}}',
        b'{"tools": [{"a": 1, "\\u0061": 1}]}',
    ],
)
def test_a_name_that_is_there_twice_is_refused(raw):
    """Only the last would count: a constraint could be dropped without a word."""
    with pytest.raises(RequestRefused, match="twice in one object") as refused:
        parse_body(raw)
    assert refused.value.code == "invalid_json"


def test_a_name_may_be_in_several_objects():
    assert parse_body(b'{"a": {"a": [{"a": 1}, {"a": 2}]}}') == {"a": {"a": [{"a": 1}, {"a": 2}]}}
