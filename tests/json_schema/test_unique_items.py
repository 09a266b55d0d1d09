"""`uniqueItems`: exact for what can be listed and for numbers, by fingerprint for strings, refused for containers."""

from __future__ import annotations

import pytest

from guided.errors import Unsatisfiable, UnsupportedKeyword

INTEGERS = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 3}
STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
LISTED = {"type": "array", "items": {"enum": ["a", "b", 1, None]}, "uniqueItems": True, "minItems": 4}
MIXED = {
    "type": "array",
    "items": {"anyOf": [{"enum": ["a", "b"]}, {"type": "string"}, {"type": "boolean"}]},
    "uniqueItems": True,
}


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (INTEGERS, ["[]", "[1, 2]", "[3, 1, 2]", "[12, 1, 123]", "[-1, 1]"]),
        (STRINGS, ["[]", '["foo", "bar", "baz"]', '["a", "b"]']),
        (LISTED, ['["a", "b", 1, null]', '[null, 1, "b", "a"]']),
        (MIXED, ['["a", "b"]', '["a", true, false]', '["c", "a"]']),
    ],
)
def test_distinct_items_are_accepted(accept, schema, texts):
    acceptor = accept(schema)
    assert [text for text in texts if not acceptor.text(text)] == []


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (INTEGERS, ["[1, 1]", "[1, 1.0]", "[2, 1, 2]", "[0, -0]"]),
        (STRINGS, ['["a", "a"]', '["a", "\\u0061"]', '["x", "a", "x"]']),
        (LISTED, ['["a", "b", 1]', '["a", "b", 1, 1]', '["a", "b", 1, 1.0]']),
        (MIXED, ['["a", "a"]', "[true, true]", '["c", "c"]']),
    ],
)
def test_equal_items_are_rejected(accept, schema, texts):
    acceptor = accept(schema)
    assert [text for text in texts if acceptor.text(text)] == []


def test_more_items_than_values(accept):
    with pytest.raises(Unsatisfiable):
        accept({**LISTED, "minItems": 5})


@pytest.mark.parametrize("items", [True, {"type": "object"}, {"items": {"type": "string"}}])
def test_containers_are_refused_by_name(accept, items):
    with pytest.raises(UnsupportedKeyword) as refusal:
        accept({"properties": {"a": {"items": items, "uniqueItems": True}}})
    assert refusal.value.keyword == "uniqueItems"
    assert refusal.value.pointer == "/properties/a/uniqueItems"
