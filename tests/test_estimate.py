"""How long answers are: what nests without a bound is not followed up to a limit."""

from __future__ import annotations

import pytest

import guided
from guided.errors import LimitExceeded
from guided.estimate import estimate_tokens
from guided.limits import Budget

VOCABULARY = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(245)])
NESTED = {"type": "array", "maxItems": 1, "items": {"type": "array", "maxItems": 1, "items": {"enum": [1, 22]}}}


def test_an_index_without_an_end_is_left_alone():
    index = guided.compile(guided.Constraint.json_schema(True), VOCABULARY)
    with pytest.raises(LimitExceeded, match="no end"):
        index.close(Budget(), endless=False)
    assert index.num_states < 20_000


def test_an_index_with_an_end_is_closed():
    estimate = estimate_tokens(guided.Constraint.json_schema(NESTED, whitespace="compact"), VOCABULARY)
    assert (estimate.fewest, estimate.most, estimate.is_exact) == (2, 8, True)  # [] and [[22.0]]


def test_an_answer_without_an_end_is_estimated():
    estimate = estimate_tokens(guided.Constraint.json_schema(True), VOCABULARY)
    assert estimate.most is None and not estimate.is_exact and 0 < estimate.fewest <= estimate.typical


def test_only_answers_to_schemas_are_estimated():
    with pytest.raises(TypeError, match="not those of a regex"):
        estimate_tokens(guided.Constraint.regex("[0-9]{3}"), VOCABULARY)
