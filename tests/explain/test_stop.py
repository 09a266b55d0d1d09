"""Where a text leaves the language, and what could come there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.explain.stop import continuations, find_stop
from tests.explain.automata import automaton


def stop_of(constraint: Constraint | str, text: str | bytes):
    view = CharacterView(automaton(constraint))
    return view, find_stop(view, text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("text", "character", "byte"),
    [("", 0, 0), ("x", 0, 0), ("é1", 1, 2), ("éé", 2, 4), ("ééx", 2, 4), ("éè", 1, 3), ("éé12", 4, 6), ("éé1€", 3, 5)],
)
def test_offsets_count_characters_and_bytes(text, character, byte):
    _, stop = stop_of("éé[0-9]{3}", text)
    assert (stop.matches, stop.character, stop.byte) == (False, character, byte)


def test_a_beginning_is_told_from_a_mistake():
    assert stop_of("abc", "ab")[1].is_prefix
    assert not stop_of("abc", "abx")[1].is_prefix
    assert stop_of("abc", "abc")[1].matches
    assert stop_of("é", b"\xc3")[1].is_prefix


def test_a_cut_character_is_not_counted():
    view, stop = stop_of("a(é|è)", b"a\xc3")
    assert (stop.character, stop.character_byte) == (1, 1)
    assert sorted(way.label for way in continuations(view, stop.state)) == ["[èé]"]


def test_bytes_that_are_no_text_stop_where_they_are():
    _, stop = stop_of(".*", b"ab\xffc")
    assert (stop.matches, stop.character, stop.byte) == (False, 2, 2)


def test_continuations_follow_what_is_forced():
    view, stop = stop_of(Constraint.choice(["red", "redder", "green"]), "")
    assert sorted(way.label for way in continuations(view, stop.state)) == ["green", "red"]
    view, stop = stop_of(r"v[0-9]\.", "v1")
    assert [way.label for way in continuations(view, stop.state)] == ["."]


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab01é", max_size=7))
def test_the_stop_agrees_with_re(text):
    pattern = "(ab?|é0)*1?"
    _, stop = stop_of(pattern, text)
    assert stop.matches == (re.fullmatch(pattern, text) is not None)
    kept = text[: stop.character]
    assert len(kept.encode()) == stop.character_byte
    if not stop.is_prefix:  # one character more is too much, these are not
        assert stop_of(pattern, kept)[1].is_prefix
        assert not stop_of(pattern, text[: stop.character + 1])[1].is_prefix
