"""Objects: counts, clauses and unknown names, also when those repeat."""

from __future__ import annotations

import json

import jsonschema
import pytest

from guided.errors import UnsupportedKeyword

CASES = [
    ({"minProperties": 1}, ['{"a": 1}', '{"a": 1, "a": 2}'], ["{}"]),
    ({"properties": {"a": {}}, "minProperties": 2}, ['{"a": 1, "b": 1}'], ['{"b": 1, "b": 2}', '{"a": 1}']),
    ({"maxProperties": 1}, ["{}", '{"a": 1}'], ['{"a": 1, "b": 1}']),
    (
        {"not": {"additionalProperties": {"type": "string"}}},
        ['{"a": 1}', '{"b": "x", "a": 1}'],
        ['{"a": 1, "a": "x"}', "{}"],
    ),
    ({"dependentRequired": {"a": ["b"]}}, ["{}", '{"b": 1}', '{"a": 1, "b": 1}'], ['{"a": 1}', '{"a": 1, "c": 1}']),
    (
        {
            "properties": {"a": {"type": "integer"}},
            "patternProperties": {"^s_": {"type": "string"}},
            "additionalProperties": False,
        },
        ['{"a": 1, "s_x": "y"}', '{"s_": ""}'],
        ['{"s_x": 1}', '{"b": 1}', '{"a": "1"}'],
    ),
    (
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ['{"a": 1}', '{"b": 1}', '{"b": 1, "c": 1}'],
        ['{"a": 1, "b": 1}', "{}", '{"c": 1}'],
    ),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_object(accept, schema, valid, invalid):
    schema = {"type": "object", **schema}
    acceptor = accept(schema, additional_properties="allow", property_order="any")
    assert [text for text in valid if not acceptor.text(text)] == []
    assert [text for text in invalid if acceptor.text(text)] == []
    validator = jsonschema.Draft202012Validator(schema)
    assert all(validator.is_valid(json.loads(text)) for text in valid)
    assert not any(validator.is_valid(json.loads(text)) for text in invalid)


def test_counts_beyond_what_can_be_told_apart_are_refused(accept):
    with pytest.raises(UnsupportedKeyword) as refusal:
        accept({"type": "object", "minProperties": 3})
    assert refusal.value.pointer == "/minProperties"


def test_names_of_which_there_are_few_are_told_apart(accept):
    """Two properties are needed, one for each clause, and neither is listed under `properties`."""
    schema = {
        "patternProperties": {"^[0-9]$": {"type": "integer"}},
        "additionalProperties": False,
        "not": {
            "anyOf": [{"propertyNames": {"not": {"enum": ["1", "3"]}}}, {"propertyNames": {"not": {"const": "2"}}}]
        },
        "maxProperties": 2,
    }
    acceptor = accept({"type": "object", **schema}, property_order="any")
    assert all(map(acceptor.value, [{"1": 0, "2": 0}, {"2": 5, "3": 6}]))
    assert not any(map(acceptor.value, [{"1": 0}, {"1": 0, "3": 0}, {"2": 0, "4": 0}, {"1": 0, "2": 0, "3": 0}]))


def test_names_that_no_properties_list_come_in_the_order_of_the_document(accept):
    """Whichever branch a name was merged from: here the branch for "c" or "b" comes before the schema that requires "a"."""
    dependencies = {"a": {"anyOf": [{"required": ["c"]}, {"required": ["b"]}]}, "b": {"not": {"required": ["c"]}}}
    schema = {
        "type": "object",
        "additionalProperties": {"type": "null"},
        "allOf": [{"dependentSchemas": dependencies}, {"required": ["a"]}],
    }
    acceptor = accept(schema, additional_properties="allow")
    assert all(map(acceptor.value, [{"a": None, "b": None}, {"a": None, "c": None}]))
    assert not any(map(acceptor.value, [{"a": None}, {"b": None, "a": None}, {"a": None, "b": None, "c": None}]))


def test_a_number_of_many_properties_is_met_by_any_of_them(accept):
    """Whether it can be met is told from the next properties that are left, not by search: there are too many for that."""
    names = {f"p{number:04}": {"type": "integer"} for number in range(1_000)}
    acceptor = accept(
        {"type": "object", "properties": {**names, "p0998": False}, "minProperties": 3, "maxProperties": 4}
    )
    assert all(
        map(acceptor.value, [{"p0000": 1, "p0500": 2, "p0999": 3}, {"p0995": 1, "p0996": 1, "p0997": 1, "p0999": 1}])
    )
    assert not any(map(acceptor.value, [{"p0000": 1, "p0001": 2}, {"p0997": 1, "p0998": 1, "p0999": 1}]))
    assert not acceptor.text('{"p0997"')
