"""Lookarounds, anchors and word boundaries nested in any way, on every short text over a small alphabet."""

import itertools
import re

import hypothesis.strategies as st
import pytest
import regex
from hypothesis import assume, given, settings

from guided.errors import LimitExceeded
from guided.limits import Budget, Limits
from guided.regex import pattern_dfa, pattern_nfa

TEXTS = ["".join(letters) for n in range(5) for letters in itertools.product("ab\n", repeat=n)]
COMMON = ["a", "b", "ab", ".", "a*", "[ab]", "b?", "^", r"\Z", r"\A", "(?:)", "a{2}", r"\n", "aba"]


def patterns(*more):
    def larger(inner):
        look = st.builds(
            lambda form, body: form.format(body), st.sampled_from(["(?={})", "(?!{})", "(?<={})", "(?<!{})"]), inner
        )
        return st.one_of(
            look,
            look,
            st.lists(inner, min_size=2, max_size=4).map("".join),
            st.builds(lambda a, b: f"(?:{a}|{b})", inner, inner),
            st.builds(lambda a, q: f"(?:{a}){q}", inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])),
        )

    return st.recursive(st.sampled_from([*COMMON, *more]), larger, max_leaves=10)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["", "(?m)", "(?s)"]), patterns("$", r"\b", r"\B"))
def test_as_python_has_them(flags, body):
    try:
        expected = re.compile(flags + body)
    except re.error:
        assume(False)
    whole, anywhere = pattern_dfa(flags + body), pattern_dfa(flags + body, search=True)
    for text in TEXTS:
        assert whole.contains(text) == (expected.fullmatch(text) is not None), text
        assert anywhere.contains(text) == (expected.search(text) is not None), text


@settings(max_examples=60, deadline=None)
@given(patterns("a+b?", "(?<=a*b)", "(?<!ab*)"))
def test_lookbehind_of_any_width(pattern):
    """ECMA-262 has it, `re` does not; the `regex` package does."""
    expected = regex.compile(pattern)
    anywhere = pattern_dfa(pattern, dialect="ecma", search=True)
    for text in TEXTS:
        assert anywhere.contains(text) == (expected.search(text) is not None), text


def test_quiet_states_are_copied_as_they_are():
    """Only the neighbourhood of an assertion is multiplied."""
    plain = pattern_nfa(r"[a-z]{500}-[a-z ]{500}").num_states
    assert pattern_nfa(r"[a-z]{500}-\b[a-z ]{500}").num_states < plain + 20


def test_conjunctions_multiply_and_are_limited():
    words = "".join(f"(?=.*{c}.*{c})" for c in "abcdefgh")
    with pytest.raises(LimitExceeded, match="lookarounds"):
        pattern_nfa(words + ".{1,100}", budget=Budget(Limits(states=20_000)))
