"""Schemas that are wrong or that nothing satisfies: the error says what and where."""

from __future__ import annotations

import pytest

from guided.errors import InvalidConstraint, Unsatisfiable


@pytest.mark.parametrize("keyword", ["$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions", "$ref"])
def test_keywords_of_the_core_have_their_types(accept, keyword):
    with pytest.raises(InvalidConstraint) as refusal:
        accept({"properties": {"a": {keyword: 5}}})
    assert refusal.value.pointer == f"/properties/a/{keyword}"


@pytest.mark.parametrize(
    ("schema", "words", "pointer"),
    [
        (
            {"properties": {"a": {"enum": []}}, "required": ["a"], "type": "object"},
            "enum of the property 'a'",
            "/properties/a/enum",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"enum": []}}}, "enum of the value", "/$defs/a/enum"),
        (
            {"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"},
            "property 'a' would have to contain",
            "",
        ),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "item 0 would have to contain", ""),
        ({"type": "object", "minProperties": 5, "maxProperties": 2}, "contradict each other", ""),
    ],
)
def test_what_nothing_satisfies(accept, schema, words, pointer):
    with pytest.raises(Unsatisfiable, match=words) as refusal:
        accept(schema)
    assert refusal.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
            "/$defs/a",
        ),
    ],
)
def test_a_reference_that_reads_nothing(accept, schema, pointer):
    with pytest.raises(InvalidConstraint, match="leads back to itself") as refusal:
        accept(schema)
    assert refusal.value.pointer == pointer
