"""Lint: which places are warned about, and which are left alone."""

from __future__ import annotations

import json

import pytest

import guided
from guided.errors import ConstraintError
from guided.json_schema.prepare import prepare
from guided.json_schema.typical import typical_value
from guided.limits import Budget


def places(schema, **options) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in guided.lint(schema, **options)]


def required(**properties) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    "value",
    [
        {"type": "integer"},
        {"type": "boolean"},
        {"enum": ["red", "green"]},
        {"type": "string", "format": "date"},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "string", "maxLength": 3},
        {"$ref": "#/$defs/number"},
    ],
)
def test_a_required_field_that_must_be_made_up(value):
    schema = {**required(field=value), "$defs": {"number": {"type": "number"}}}
    assert places(schema) == [("no-unknown", "/properties/field")]


@pytest.mark.parametrize(
    "value",
    [
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        {"enum": ["red", "green", "Unknown"]},
        {"enum": ["red", "not specified"]},
        {"type": "string"},
        {"type": "array", "items": {"type": "number"}},
        {"const": 3},
        {},
    ],
)
def test_a_required_field_that_can_say_unknown(value):
    assert places(required(field=value)) == []


def test_a_condition_is_not_written_by_the_model():
    schema = {**required(kind={"type": "string"}), "if": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    assert places(schema) == []


@pytest.mark.parametrize("name", ["reasoning", "explanation", "chainOfThought", "short_rationale"])
@pytest.mark.parametrize("answer", ["answer", "final_score", "isValid", "sentiment"])
def test_reasoning_after_the_answer(name, answer):
    text = {"type": "string"}
    late = [("late-reasoning", f"/properties/{name}")]
    assert places(required(**{answer: text, name: text})) == late
    assert places(required(**{name: text, answer: text})) == []
    assert places(required(**{answer: text, name: text}), property_order="any") == []


def test_optional_fields():
    (warning,) = guided.lint({"properties": {"a": {}, "b~/": {}, "c": {}}, "required": ["a"]})
    assert (warning.code, warning.pointer) == ("optional", "/properties")
    assert "'b~/', 'c'" in warning.message


def test_what_is_not_enforced():
    schema = required(**{"a/b": {"type": "string", "format": "phone", "contentEncoding": "base64", "minlength": 3}})
    assert sorted(places(schema)) == [
        ("annotation", "/properties/a~1b/contentEncoding"),
        ("format-annotation", "/properties/a~1b/format"),
        ("unknown-keyword", "/properties/a~1b/minlength"),
    ]


def test_an_enum_of_one():
    assert places(required(kind={"enum": ["circle"]})) == [("enum-of-one", "/properties/kind/enum")]


def test_a_place_reached_twice_is_named_once():
    part = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {**required(a={"$ref": "#/$defs/part"}, b={"$ref": "#/$defs/part"}), "$defs": {"part": part}}
    assert places(schema) == [("no-unknown", "/$defs/part/properties/n")]


@pytest.mark.parametrize("schema", ['{"type": 3}', {"allOf": [{"type": "string"}, {"type": "null"}]}, "[]"])
def test_what_is_refused_has_no_warnings_but_an_error(schema):
    with pytest.raises(ConstraintError):
        guided.lint(schema)


# --- the typical answer ---------------------------------------------------------------------------------------------

TREE = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "children": {"items": {"$ref": "#"}, "type": "array"}},
    "required": ["name"],
}
VALUES = {
    "date": {"type": "string", "format": "date"},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
    "length": {"type": "string", "minLength": 100, "maxLength": 120},
    "both": {"type": "string", "pattern": "^[a-z]*$", "minLength": 30},
    "number": {"type": "number", "exclusiveMinimum": 1000, "maximum": 1000.5},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 1000},
    "others": {"type": "object", "additionalProperties": {"type": "boolean"}},
    "names": {"type": "object", "patternProperties": {"^x-[a-z]+$": {"type": "null"}}, "additionalProperties": False},
    "tree": TREE,
    "anything": {},
}


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("name", list(VALUES))
def test_the_typical_value_is_valid(accept, name, bare):
    schema = VALUES[name]
    value = typical_value(prepare(schema, {}, Budget()), bare)
    assert accept(schema).value(value), value


def test_the_typical_value_shows_everything_once_or_twice():
    value = typical_value(prepare(TREE, {}, Budget()))
    assert value["children"][0]["children"] != [] or value["children"] != []
    assert typical_value(prepare(TREE, {}, Budget()), bare=True) == {"name": ""}
    assert len(json.dumps(value)) < 10_000
