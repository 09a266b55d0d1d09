"""Numbers: every combination of bounds and multiples against exact arithmetic."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.errors import Unsatisfiable
from guided.json_schema import build_network
from guided.limits import Budget, Limits


def _exact(value):
    return Fraction(repr(value))


def _valid(schema: dict, value) -> bool:
    number = _exact(value)
    checks = {
        "type": lambda kind: kind == "number" or number.denominator == 1,
        "minimum": lambda bound: number >= _exact(bound),
        "maximum": lambda bound: number <= _exact(bound),
        "exclusiveMinimum": lambda bound: number > _exact(bound),
        "exclusiveMaximum": lambda bound: number < _exact(bound),
        "multipleOf": lambda step: (number / _exact(step)).denominator == 1,
        "enum": lambda values: number in map(_exact, values),
        "not": lambda inner: not _valid(inner, value),
    }
    return all(checks[keyword](argument) for keyword, argument in schema.items())


def _schema(rng: random.Random) -> dict:
    def number():
        return rng.choice(
            [rng.randint(-30, 30), rng.randint(-2000, 2000), round(rng.uniform(-20, 20), rng.randint(1, 3)), 0]
        )

    schema = {"type": rng.choice(["integer", "number"])}
    if rng.random() < 0.5:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = number()
    if rng.random() < 0.5:
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = number()
    if rng.random() < 0.4:
        schema["multipleOf"] = rng.choice([1, 2, 3, 7, 0.5, 0.01, 0.25, 12, 100, 1.5])
    if rng.random() < 0.3:
        schema["not"] = rng.choice(
            [{"enum": [number(), number()]}, {"multipleOf": 3}, {"minimum": number()}, {"type": "integer"}]
        )
    return schema


def _value(rng: random.Random, schema: dict):
    bounds = [
        schema.get(name, 0) for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ]
    return rng.choice(
        [
            rng.randint(-40, 40),
            rng.randint(-3000, 3000),
            round(rng.uniform(-30, 30), rng.randint(1, 4)),
            rng.uniform(-1e3, 1e3),
        ]
        + [float(rng.randint(-50, 50)), rng.choice(bounds)]
    )


@pytest.mark.parametrize("seed", range(40))
def test_against_exact_arithmetic(seed):
    rng = random.Random(seed)
    schema = _schema(rng)
    values = [_value(rng, schema) for _ in range(60)]
    try:
        machine = LazyDfa(build_network(schema, {}, Budget()), Budget(Limits(seconds=120)))
    except Unsatisfiable:
        assert not any(_valid(schema, value) for value in values)
        return
    wrong = [value for value in values if machine.matches(json.dumps(value).encode()) != _valid(schema, value)]
    assert not wrong, schema


@pytest.mark.parametrize("text", ["1e+16", "1.5e+300", "-3e-07", "1E5", "12e3", "-0", "-0.0", "0.0001"])
def test_usual_spellings_of_any_number(accept, text):
    assert accept({"type": "number"}).text(text)


@pytest.mark.parametrize("text", ["01", "1.", ".5", "+1", "1e", "NaN", "--1", "1e999", "9" * 70])
def test_what_is_no_number_or_runs_on(accept, text):
    assert not accept({"type": "number"}).text(text)


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"type": "integer", "minimum": -5}, {"multipleOf": 25}])
def test_integers_are_what_clients_read_as_integers(accept, schema):
    assert accept(schema).text("100.0")
    assert accept(schema).text("9" * 14 + "00.0")
    assert accept(schema).text("12345678901234567890123456789000")
    for text in ["1.5", "1.5e+17", "100e1", "9" * 15 + "00.0"]:
        assert not accept(schema).text(text)


def test_integers_of_draft_4_have_no_point(accept):
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    assert not accept(draft4).text("1.0")
    assert not accept({**draft4, "minimum": 0}).text("1.0")
    assert accept(draft4).text("10")


@pytest.mark.parametrize(
    ("text", "fits"), [("1e+308", True), ("1.5e+308", True), ("1.9e+308", False), ("2e+308", False), ("9e+307", False)]
)
def test_numbers_up_to_the_largest_double(accept, text, fits):
    assert accept({"type": "number", "minimum": 1e308}).text(text) == fits
