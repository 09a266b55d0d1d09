"""`uniqueItems`: exact for all values, arrays and objects among them, whichever way they are written."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
from jsonschema import Draft202012Validator

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.errors import Unsatisfiable, UnsupportedKeyword
from guided.json_schema import build_network
from guided.limits import Budget, Limits

UNIQUE = {"type": "array", "uniqueItems": True}
INTEGERS = {**UNIQUE, "items": {"type": "integer"}, "maxItems": 3}
STRINGS = {**UNIQUE, "items": {"type": "string"}}
LISTED = {**UNIQUE, "items": {"enum": ["a", "b", 1, None]}, "minItems": 4}
MANY_LISTED = {**UNIQUE, "items": {"enum": [*range(20), "a", True]}, "minItems": 2}
MIXED = {
    **UNIQUE,
    "items": {"anyOf": [{"enum": ["a", "b"]}, {"type": "string"}, {"type": "boolean"}]},
}
TUPLES = {
    **UNIQUE,
    "items": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
}
PEOPLE = {
    **UNIQUE,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    },
}
SETS = {**UNIQUE, "items": {**UNIQUE, "items": {"type": "integer"}}}
ANYTHING = {"uniqueItems": True, "type": "array"}
SCARCE = {
    **UNIQUE,
    "prefixItems": [{"type": "string"}, {"enum": ["a", "b"]}],
    "items": {"enum": ["a", "b"]},
    "minItems": 2,
}
COUNTED = {**UNIQUE, "items": {"type": "integer"}, "contains": {"minimum": 10}, "minContains": 2}


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (INTEGERS, ["[]", "[1, 2]", "[3, 1, 2]", "[12, 1, 123]", "[-1, 1]", "[1, 12, 2]", "[12, 120, 1.0]"]),
        (
            STRINGS,
            [
                "[]",
                '["foo", "bar", "baz"]',
                '["a", "b"]',
                '["a", "A", "ab", ""]',
                '["红", "蓝", "红蓝"]',
                '["\\"", "\\\\"]',
            ],
        ),
        (LISTED, ['["a", "b", 1, null]', '[null, 1, "b", "a"]']),
        (MANY_LISTED, ['[1, 11, "a", true]', f'[{", ".join(map(str, range(20)))}, true, "a"]']),
        (MIXED, ['["a", "b"]', '["a", true, false]', '["c", "a"]']),
        (TUPLES, ["[]", '[[1, "a"], [1, "b"], [], [1]]', '[[1, "a"], [2, "a"]]']),
        (PEOPLE, ['[{"name": "x"}, {"name": "x", "age": 1}, {"name": "y", "age": 1}]']),
        (SETS, ["[[], [1], [2], [1, 2], [2, 1]]"]),
        (ANYTHING, ['[1, "1", [1], {"1": 1}, null, [[]], [], {}, {"a": {}}]']),
        (SCARCE, ['["a", "b"]', '["c", "a", "b"]', '["c", "b", "a"]']),
        (COUNTED, ["[10, 11]", "[1, 10, 2, 100]"]),
    ],
)
def test_distinct_items_are_accepted(accept, schema, texts):
    acceptor = accept(schema)
    assert [text for text in texts if not acceptor.text(text)] == []


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (INTEGERS, ["[1, 1]", "[1, 1.0]", "[2, 1, 2]", "[0, -0]", "[12, 1, 12]", "[1.0, 1]"]),
        (
            STRINGS,
            [
                '["a", "a"]',
                '["a", "\\u0061"]',
                '["x", "a", "x"]',
                '["红", "\\u7ea2"]',
                '["😀", "\\ud83d\\ude00"]',
                '["", ""]',
            ],
        ),
        (LISTED, ['["a", "b", 1]', '["a", "b", 1, 1]', '["a", "b", 1, 1.0]']),
        (MANY_LISTED, ["[1]", "[1, 1]", "[1, 2, 1.0]", '["a", 3, "a"]']),
        (MIXED, ['["a", "a"]', "[true, true]", '["c", "c"]']),
        (TUPLES, ['[[1, "a"], [1, "a"]]', "[[], []]", "[[1], [2], [1.0]]"]),
        (PEOPLE, ['[{"name": "x", "age": 1}, {"name": "x", "age": 1}]', '[{"name": "x"}, {"name": "x"}]']),
        (SETS, ["[[1], [1]]", "[[1, 1]]", "[[], []]", "[[1, 2], [3], [1, 2]]"]),
        (
            ANYTHING,
            ["[1, 1]", "[[1], [1.0]]", '[{"a": 1}, {"a": 1}]', '[{"a": [null]}, {"a": [null]}]', "[true, true]"],
        ),
        (SCARCE, ['["a", "a"]', '["c", "a", "a"]', '["c"]', '["a", "b", "a"]']),
        (COUNTED, ["[10, 10]", "[10, 1]", "[10, 11, 1, 1]"]),
    ],
)
def test_equal_items_are_rejected(accept, schema, texts):
    acceptor = accept(schema)
    assert [text for text in texts if acceptor.text(text)] == []


def test_more_items_than_values(accept):
    with pytest.raises(Unsatisfiable):
        accept({**LISTED, "minItems": 5})


def test_objects_are_equal_in_any_order(accept):
    people = accept(PEOPLE, property_order="any")
    assert people.text('[{"age": 1, "name": "x"}, {"name": "x", "age": 2}]')
    assert not people.text('[{"age": 1, "name": "x"}, {"name": "x", "age": 1}]')


def test_names_that_are_written_twice_do_not_hide_a_repetition(accept):
    open_objects = accept({**UNIQUE, "items": {"type": "object"}}, additional_properties="allow")
    assert open_objects.text('[{"a": 1, "b": 2}, {"a": 1, "b": 3}]')
    assert not open_objects.text('[{"a": 1}, {"a": 2, "a": 1}]')


WALKED = {
    "integers": INTEGERS,
    "small numbers": {
        **UNIQUE,
        "items": {"type": "number", "minimum": 0, "maximum": 2, "multipleOf": 0.25},
        "minItems": 5,
    },
    "strings": STRINGS,
    "short strings": {**UNIQUE, "items": {"type": "string", "maxLength": 1, "pattern": "^[ab]*$"}},
    "pattern and length": {
        **UNIQUE,
        "items": {"type": "string", "maxLength": 3, "minLength": 2, "pattern": "^[a-f]+$"},
    },
    "bits": {**UNIQUE, "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, "minItems": 6},
    "people": PEOPLE,
    "tuples": TUPLES,
    "sets": {**UNIQUE, "items": {**UNIQUE, "items": {"type": "integer", "minimum": 0, "maximum": 20}, "minItems": 1}},
    "counted": COUNTED,
    "scarce": SCARCE,
    "inside": {"type": "object", "properties": {"tags": STRINGS, "ids": INTEGERS}, "required": ["tags", "ids"]},
}


@pytest.mark.parametrize("name", WALKED)
def test_random_answers_are_valid_and_end(name):
    """Bytes that are chosen at random, likely ones more often, never lead into a dead end nor to what is not valid."""
    validator = Draft202012Validator(WALKED[name])
    budget = Budget(Limits(seconds=600))
    dfa = LazyDfa(build_network(WALKED[name], {"whitespace": "compact", "escapes": "needed"}, budget), budget)
    rng = random.Random(name)
    ended = 0
    for _ in range(25):
        text, state = b"", dfa.start
        while not (dfa.is_accepting(state) and rng.random() < 0.5) and len(text) < 400:
            likely = rng.choice([b"]}", b'12,"', b'ab[]{}:,"', bytes(range(0x20, 0x7F))])
            for byte in (*rng.sample(likely, len(likely)), *range(0x20, 0xF5)):
                following = dfa.step(state, byte)
                if following != DEAD:
                    break
            else:
                assert dfa.is_accepting(state), f"a dead end after {text!r}"
                break
            text, state = text + bytes((byte,)), following
        if dfa.is_accepting(state):
            value = json.loads(text, parse_float=lambda number: float(Fraction(number)))
            validator.validate(value)
            ended += 1
    assert ended > 5


def test_equal_items_that_a_negation_asks_for_are_not_generated(accept):
    repeated = {"not": {"uniqueItems": True}}
    union = accept({"anyOf": [repeated, {"type": "string"}]})
    assert union.text('"a"') and not union.text("[1, 2]") and not union.text("[1, 1]")
    with pytest.raises(UnsupportedKeyword) as caught:
        accept(repeated)
    assert caught.value.pointer == "/not/uniqueItems"


def test_equal_items_that_are_not_generated_are_told_apart(accept):
    pairs = {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}
    for wrap in (
        lambda schema: schema,
        lambda schema: {"type": "object", "properties": {"a": schema}, "required": ["a"]},
    ):
        either = accept({"oneOf": [wrap({"not": {"uniqueItems": True}}), wrap(pairs)]})
        text = "{}" if wrap(pairs) is pairs else '{{"a": {}}}'
        assert either.text(text.format("[1, 2]"))
        assert not either.text(text.format("[1, 1]")), "both branches hold"
