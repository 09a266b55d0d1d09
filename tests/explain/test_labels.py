"""Labels: short, readable, and where nothing was left out, regexes of exactly their set."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automaton.charset import ANY, CharSet
from guided.explain.labels import cells, set_label, text_label


@pytest.mark.parametrize(
    ("characters", "label"),
    [
        (CharSet.of("a"), "a"),
        (CharSet.of("ab"), "[ab]"),
        (CharSet.range("a", "z"), "[a-z]"),
        (
            CharSet.range("a", "z") | CharSet.range("0", "9") | CharSet.range("A", "Z") | CharSet.of("_-."),
            "[a-zA-Z0-9._-]",
        ),
        (~CharSet.of('"\\'), '[^"\\\\]'),
        (~CharSet.of("\n"), r"[^\n]"),
        (ANY, "any"),
        (CharSet.of("\x00"), r"\x00"),
        (CharSet.range("а", "я"), "[а-я]"),
    ],
)
def test_labels(characters, label):
    assert set_label(characters) == label


def test_many_ranges_beyond_ascii_are_counted():
    digits = CharSet.of(*[chr(point) for point in range(0x3000) if chr(point).isdecimal()])
    assert set_label(digits) == f"[0-9… {len(digits) - 10} more]"


@settings(max_examples=200, deadline=None)
@given(st.sets(st.characters(max_codepoint=0x7F), min_size=2, max_size=9))
def test_a_label_is_a_regex_of_its_set(members):
    label = set_label(CharSet.of(*members))
    assert {c for c in map(chr, range(0x80)) if re.fullmatch(label, c)} == members


def test_text_and_its_width():
    assert text_label("a\tb\n\x1b") == r"a\tb\n\x1b"
    assert cells("日本") == 4
    assert cells("e\u0301") == 1
