"""Schemas that are hard for their size or shape: an answer, or an error that names a limit and a place."""

from __future__ import annotations

import json

import pytest

import guided
from guided.automaton.lazy_dfa import LazyDfa
from guided.errors import LimitExceeded
from guided.json_schema import build_network
from guided.limits import Budget, Limits

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name"],
}
NULLABLE = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def machine(schema, **options) -> LazyDfa:
    limits = Limits(seconds=300)
    constraint = guided.Constraint.json_schema(schema, **options)
    return LazyDfa(build_network(constraint.value, constraint.options, Budget(limits)), Budget(limits))


def reads(dfa: LazyDfa, value) -> bool:
    return dfa.matches(json.dumps(value).encode())


def test_a_megabyte_of_schema():
    schema = {"type": "object", "properties": {f"property_{number}": PERSON for number in range(6_500)}}
    assert len(json.dumps(schema)) > 1 << 20
    dfa = machine(schema)
    assert reads(dfa, {"property_17": {"name": "a", "age": 3}, "property_6499": {"name": "b"}})
    assert not reads(dfa, {"property_17": {"age": 3}})
    assert not reads(dfa, {"property_6499": {"name": "b"}, "property_17": {"name": "a"}})
    assert dfa.memory_bytes < 500 << 20


def test_five_thousand_strings():
    words = [f"value number {number} of {number * 7919 % 1000}" for number in range(5_000)]
    dfa = machine({"enum": words})
    assert reads(dfa, words[0]) and reads(dfa, words[4_999])
    assert not reads(dfa, "value number 5000 of 0")


@pytest.mark.parametrize("order", ["schema", "any"])
def test_two_hundred_nullable_properties(order):
    schema = {"type": "object", "properties": {f"field_{number}": NULLABLE for number in range(200)}}
    dfa = machine(schema, property_order=order)
    value = {f"field_{number}": None if number % 3 else "x" for number in range(0, 200, 7)}
    assert reads(dfa, value)
    assert reads(dfa, dict(reversed(value.items()))) == (order == "any")
    assert not reads(dfa, {"field_3": 3})


def unions(keyword: str):
    """Each level is the one before it, or an object around it."""
    definitions = {"u0": {"type": "string"}}
    for level in range(1, 15):
        inner = {"$ref": f"#/$defs/u{level - 1}"}
        wrapped = {"type": "object", "properties": {f"k{level}": inner}, "required": [f"k{level}"]}
        definitions[f"u{level}"] = {keyword: [inner, wrapped]}
    return {"$ref": "#/$defs/u14", "$defs": definitions}


def test_fourteen_levels_of_unions():
    dfa = machine(unions("anyOf"))
    assert reads(dfa, "x") and reads(dfa, {"k14": {"k13": {"k2": "x"}}})
    assert not reads(dfa, {"k13": {"k14": "x"}})


def test_fourteen_levels_of_exclusive_unions():
    """With other properties allowed, every pair of levels may hold together."""
    with pytest.raises(LimitExceeded, match="too many ways"):
        machine(unions("oneOf"), additional_properties="allow")


def test_eighteen_branches_that_overlap():
    branches = [{"type": "string", "pattern": f"^[a-z]*{chr(97 + number)}[a-z]*$"} for number in range(18)]
    dfa = machine({"oneOf": branches})
    assert reads(dfa, "zzaz") and reads(dfa, "bb")
    assert not reads(dfa, "ab") and not reads(dfa, "zz")


def test_eighteen_objects_that_overlap():
    branches = [
        {"type": "object", "properties": {f"p{n}": {"type": "integer"}}, "required": [f"p{n}"]} for n in range(18)
    ]
    dfa = machine({"oneOf": branches}, additional_properties="allow")
    assert reads(dfa, {"p3": 1}) and reads(dfa, {"p3": 1, "p4": "no integer"})
    assert not reads(dfa, {"p3": 1, "p4": 2})


# --- nesting ----------------------------------------------------------------------------------------------------------


def nested(kind: str, levels: int):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {
            "object": lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]},
            "array": lambda inner: {"type": "array", "items": inner, "minItems": 1},
            "allOf": lambda inner: {"allOf": [inner]},
            "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}]},
            "not": lambda inner: {"not": inner},
        }[kind](schema)
    return schema


@pytest.mark.parametrize("kind", ["object", "array", "allOf", "anyOf", "not"])
def test_three_hundred_levels(kind):
    dfa = machine(nested(kind, 300))
    texts = {"object": '{"a": ' * 300 + '"x"' + "}" * 300, "array": "[" * 300 + '"x"' + "]" * 300}
    assert dfa.matches(texts.get(kind, '"x"').encode())
    assert not dfa.matches(texts.get(kind, "7").replace('"x"', "7").encode()) or kind == "not"


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(("kind", "levels", "step"), [("object", 2_001, "/properties/a"), ("array", 1_001, "/items")])
def test_a_thousand_levels_are_refused_with_place_and_number(kind, levels, step, as_text):
    schema = nested(kind, 1_000)
    if as_text:  # json.dumps cannot write it either
        before = '{"type": "object", "properties": {"a": ' if kind == "object" else '{"items": '
        schema = before * 1_000 + "{}" + ("}}" if kind == "object" else "}") * 1_000
    with pytest.raises(LimitExceeded) as refusal:
        guided.Constraint.json_schema(schema)
    assert refusal.value.limit == "nesting"
    assert f"{levels:,} levels" in refusal.value.message
    assert refusal.value.pointer == step * (100 // step.count("/"))


def test_a_long_chain_of_references():
    definitions = {
        f"d{n}": {"type": "object", "properties": {"n": {"$ref": f"#/$defs/d{n + 1}"}}, "required": ["n"]}
        for n in range(800)
    }
    dfa = machine({"$ref": "#/$defs/d0", "$defs": {**definitions, "d800": {"type": "null"}}})
    assert dfa.matches(('{"n":' * 800 + "null" + "}" * 800).encode())
    assert not dfa.matches(('{"n":' * 799 + "null" + "}" * 799).encode())
