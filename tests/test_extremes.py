"""What would hold a compilation up beyond its limits is refused by name, and what is no state is no crash."""

from __future__ import annotations

import pytest

import guided
from guided.errors import InvalidConstraint, LimitExceeded

VOCABULARY = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)])


@pytest.mark.parametrize("pattern", ["(){50000000}a", "(a{0}){50000000}a", "(?:){7,}a", "((){3}(){9}){1000000}a"])
def test_nothing_many_times_is_nothing(pattern):
    index = guided.compile(guided.Constraint.regex(pattern), VOCABULARY)
    assert index.accepts("a") and not index.accepts("")


def test_numbers_of_more_digits_than_a_float_has():
    with pytest.raises(LimitExceeded, match="minimum") as caught:
        guided.compile(guided.Constraint.json_schema('{"items": {"minimum": 1' + "0" * 1000 + "}}"), VOCABULARY)
    assert caught.value.pointer == "/items/minimum"
    assert guided.compile(guided.Constraint.json_schema({"minimum": 1e308}), VOCABULARY).accepts("15" + "0" * 307)


def test_long_markers_and_stop_strings():
    constraint = guided.Constraint.regex("x")
    with pytest.raises(LimitExceeded, match="marker"):
        constraint.after("ab" * 500)
    with pytest.raises(LimitExceeded, match="keep out"):
        constraint.avoiding(["a" * 100_000])
    with pytest.raises(InvalidConstraint, match="list"):
        constraint.avoiding("abc")


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("state", [-2, 10**3, 10**12])
def test_what_is_no_state(is_closed, state):
    index = guided.compile(guided.Constraint.grammar('start: "(" start ")" | "a"'), VOCABULARY)
    if is_closed:
        index = guided.compile(guided.Constraint.regex("ab"), VOCABULARY)
        index.close()
    for ask in (index.mask, lambda state: index.advance(state, 97)):
        with pytest.raises(IndexError, match="states"):
            ask(state)
    if not is_closed:
        with pytest.raises(IndexError):
            index.forget_all_but([state])


def test_a_vocabulary_without_quotes_writes_no_objects():
    without = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(256) if byte != ord('"')])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with pytest.raises(guided.Unsatisfiable, match="vocabulary"):
        guided.compile(guided.Constraint.json_schema(schema, whitespace="compact"), without)
