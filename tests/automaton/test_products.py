"""Strings kept out of a constraint, and constraints that begin after a marker: against what they say, text by text."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import guided
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.compiler import build_network
from guided.errors import InvalidConstraint, LimitExceeded, Unsatisfiable
from guided.limits import Budget

PATTERNS = [r"(a|b|c){0,5}", r"(ab)*c?", r"a+b+", r"(a|bc)*", r"[^c]*c"]
strings = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3)


def automaton(constraint: guided.Constraint) -> LazyDfa:
    return LazyDfa(build_network(constraint, Budget()), Budget())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PATTERNS), strings)
@example("[^c]*c", ["a", "bc"])  # what follows b is none of these letters
def test_what_is_left_contains_none_of_the_strings_and_nothing_else_is_gone(pattern, avoided):
    def left(text: str) -> bool:
        return re.fullmatch(pattern, text) is not None and not any(string in text for string in avoided)

    texts = ["".join(letters) for size in range(6) for letters in itertools.product("abc", repeat=size)]
    try:
        dfa = automaton(guided.Constraint.regex(pattern).avoiding(avoided))
    except Unsatisfiable:
        assert not any(map(left, texts))
        return
    for text in texts:
        assert dfa.matches(text.encode()) == left(text), text
    begun = [text for text in texts if len(text) < 3 and dfa.advance(dfa.start, text.encode()) != DEAD]
    for text in begun:  # nothing that has begun is stuck
        assert any(dfa.matches((text + way + end).encode()) for way in ("", "x") for end in texts), text


def test_strings_beyond_ascii_and_where_nothing_is_left():
    dfa = automaton(guided.Constraint.regex("[äöü]{2}").avoiding(["öü", "üü"]))
    assert dfa.matches("äö".encode())
    assert not dfa.matches("öü".encode())
    assert dfa.advance(dfa.start, "ü".encode()) != DEAD
    with pytest.raises(Unsatisfiable, match="'b'"):
        automaton(guided.Constraint.regex("a+b").avoiding(["b"]))


def test_a_recursive_constraint_is_refused():
    with pytest.raises(LimitExceeded, match="recursive"):
        automaton(guided.Constraint.grammar('start: "(" start ")" | "x"').avoiding(["y"]))


@pytest.mark.parametrize("marker", ["</think>", "aab", "ä"])
def test_anything_and_then_the_marker_and_then_the_answer(marker):
    dfa = automaton(guided.Constraint.regex("[0-9]+").after(marker))
    for before in (
        "",
        "any thing\n",
        "aa",
        "a" * 9,
        "</think",
        "日本 ä"[: -1 if marker == "ä" else None],
        "\U0001f600",
    ):
        assert dfa.matches(f"{before}{marker}12".encode()), before
        assert not dfa.matches(f"{before}{marker}".encode())
        assert not dfa.matches(f"{before}{marker}12{marker}1".encode()), "only the first marker counts"
        assert dfa.advance(dfa.start, f"{before}{marker}x".encode()) == DEAD
    assert dfa.advance(dfa.start, b"\xc3\xc3") == DEAD
    assert dfa.matches(b"x\xff" + marker.encode() + b"\xff7"), "a special token of this name"


def test_text_that_is_optional_begins_with_its_marker():
    dfa = automaton(guided.Constraint.regex("[0-9]+|<[a-z]+").after("</t>", opening="<t>"))
    for output in ("12", "<tea", "<t>text</t>12", "<t></t>1", "<t><t></t>1", "\xff<t>\xffä</t>1", "<t>a\xff</t>\xff1"):
        data = output.encode().replace("\xff".encode(), b"\xff")  # byte 0xFF stands for special tokens
        assert dfa.matches(data), output
    for output in (
        "",
        "<t>",
        "<t>12",
        "</t>12",
        "text</t>12",
        "12</t>12",
        " <t>a</t>1",
        "<t>a</t>",
        "<t>a</t><t>b</t>1",
    ):
        assert not dfa.matches(output.encode()), output


def test_late_rules_come_after_a_marker_too():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    dfa = automaton(guided.Constraint.json_schema(schema, whitespace="compact").after("!").avoiding(["7"]))
    assert dfa.matches(b'thinking!{"a":12}')
    assert not dfa.matches(b'thinking!{"a":17}')
    assert not dfa.matches(b'thinking 7!{"a":1}')


def test_options_of_a_constraint_are_part_of_its_digest():
    plain = guided.Constraint.regex("a")
    assert plain.avoiding([]) == plain
    assert plain.avoiding(["c", "b", "b"]) == plain.avoiding(["b", "c"]) != plain
    assert plain.avoiding(["b"]).avoiding(["c"]) == plain.avoiding(["b", "c"])
    others = plain.after("x"), plain.after("y"), plain.after("x", opening="y"), plain.avoiding(["x"])
    assert len({plain.digest, *(other.digest for other in others)}) == 5
    for wrong in (
        lambda: plain.after(""),
        lambda: plain.avoiding([""]),
        lambda: plain.after("\ud800"),
        lambda: plain.after("x").after("y"),
        lambda: plain.after("x", opening=""),
    ):
        with pytest.raises(InvalidConstraint):
            wrong()
