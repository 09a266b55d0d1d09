"""Samples are in the language, and the shortest text is the shortest."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest

from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.explain.escapes import EscapeFreeView
from guided.explain.samples import random_text, shortest_text
from tests.explain.automata import automaton

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "next": {"$ref": "#"}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("pattern", "shortest"),
    [("a*", ""), ("a{3,}b|cc", "cc"), ("[^a]é", "bé"), (r"\d{4}-\d\d", "0000-00"), ("(?=.*x)[a-z]{2}", "ax")],
)
def test_the_shortest_text(pattern, shortest):
    assert shortest_text(CharacterView(automaton(pattern))) == shortest


@pytest.mark.parametrize("pattern", ["[a-z]{2,5}@(foo|bar)\\.com", "(.*\n){3}", "[^a-z]+", "é+(日本|x)*"])
def test_random_texts_match(pattern):
    view = CharacterView(automaton(pattern))
    source = random.Random(7)
    texts = [random_text(view, source) for _ in range(30)]
    assert all(text is not None and re.fullmatch(pattern, text) for text in texts)
    assert len(set(texts)) > 5


def test_random_documents_of_a_recursive_schema_are_complete():
    view = EscapeFreeView(automaton(Constraint.json_schema(SCHEMA)))
    source = random.Random(3)
    for _ in range(10):
        text = random_text(view, source)
        assert text is not None
        jsonschema.validate(json.loads(text), SCHEMA)
        assert "\\" not in text
