"""How a request that cannot go on is told of: as an error, unless it goes on elsewhere."""

from __future__ import annotations

import logging

import pytest

from guided.masking.slot import BrokenOff, Slot


@pytest.mark.parametrize(
    ("cause", "levels", "failure"),
    [
        (BrokenOff("not here", limit="seconds"), [logging.DEBUG], "BrokenOff: not here"),
        (ValueError("a bug"), [logging.ERROR], "ValueError: a bug"),
        ("nothing left", [logging.ERROR], "nothing left"),
    ],
)
def test_only_failures_are_errors(caplog, cause, levels, failure):
    slot = Slot(0, None, None, (), frozenset({1}), "r")
    with caplog.at_level(logging.DEBUG, logger="guided.masking.slot"):
        slot.fail(cause)
    assert [record.levelno for record in caplog.records] == levels
    assert slot.failure is not None and slot.failure.startswith(failure)
