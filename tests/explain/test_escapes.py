"""Escapes are left out exactly where they spell what may be written without them."""

from __future__ import annotations

import pytest

from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.explain.escapes import EscapeFreeView
from guided.explain.labels import set_label
from tests.explain.automata import automaton


def labels(view: CharacterView, after: str) -> list[str]:
    moves = view.moves(view.dfa.advance(view.start, after.encode()))
    return sorted(set_label(characters) for characters, _ in moves.characters)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "string", "minLength": 2, "maxLength": 9}])
def test_a_string_body_is_one_class(schema):
    dfa = automaton(Constraint.json_schema(schema))
    assert labels(EscapeFreeView(dfa), '"ab') == ['"', r'[^\x00-\x1f"\\]']
    assert "\\" in labels(CharacterView(dfa), '"ab')


def test_escapes_of_a_pattern_are_left_out_too():
    dfa = automaton(Constraint.json_schema({"type": "string", "pattern": "^[a-c]é$"}))
    assert labels(EscapeFreeView(dfa), '"') == ["[a-c]"]
    assert labels(EscapeFreeView(dfa), '"a') == ["é"]


def test_what_can_only_be_escaped_stays():
    dfa = automaton(Constraint.json_schema({"type": "string", "pattern": "^\n$"}))
    assert labels(EscapeFreeView(dfa), '"') == ["\\"]


def test_a_backslash_of_a_regex_is_no_escape():
    assert labels(EscapeFreeView(automaton(r"\\[xyz]|[ab]1")), "") == ["[ab]", "\\"]
