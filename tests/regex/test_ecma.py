"""The ECMA-262 dialect: expected answers by the standard, and agreement with Python where both read a pattern alike."""

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings

from guided.errors import InvalidConstraint, UnsupportedKeyword
from guided.regex import pattern_dfa
from tests.regex.patterns import TEXTS, patient
from tests.regex.test_regex import PATTERNS


def found(pattern, text):
    return pattern_dfa(pattern, dialect="ecma", search=True).contains(text)


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        (r"^ab|cd$", ["abx", "xcd"], ["xab", "cdx", "cd\n"]),
        (r"^\d+$", ["0", "42"], ["٣", "", "1\n"]),
        (r"^\w$", ["a", "_"], ["é", "-"]),
        (r"^\s$", [" ", "\t", "\u2003", "\u00a0"], ["\x1c", "\x85", "a"]),
        (r"^[\w-]+$", ["a-b"], ["a b"]),
        (r"^[\w-.]+$", ["a-b.c"], ["a b"]),
        (r"^\/\-\#\@$", ["/-#@"], ["\\/"]),
        (r"^\cJ\x41\u0042\u{43}\u{1F600}$", ["\nABC😀"], ["ABC"]),
        (r"^\ud83d\ude00$", ["😀"], ["\U0001f601"]),
        (r"^[\ud83d\ude00-\ud83d\ude02]$", ["😁"], ["\U0001f603"]),
        (r"^(?<year>\d{4})(?:-\d\d)?$", ["2024", "2024-05"], ["24"]),
        (r"^[^]$", ["\n", "a"], ["", "ab"]),
        (r"[]", [], ["", "]", "a"]),
        (r"^a.c$", ["abc", "a\x85c"], ["a\nc", "a\u2028c", "a\rc"]),
        (r"^\p{Lu}\p{Script=Greek}+\P{L}$", ["Éαβ1"], ["éαβ1", "Éab1", "Éαβγ"]),
        (r"^[\p{L}\p{Nd}]+$", ["aé٣"], ["-", ""]),
        (r"(?<=\$)\d+(?!\.)$", ["$42"], ["42"]),
        (r"(?<=a+)b", ["aab"], ["b", "cb"]),
        (r"^\bfoo\b", ["foo bar", "foo"], ["food"]),
        (r"^a{,2}$", ["a{,2}"], ["aa"]),
        (r"^{}]$", ["{}]"], ["]"]),
        (r"\A(?P<n>ab)\Z", ["ab"], ["xab"]),
        (r"(?i)^abc$", ["aBC"], ["ab"]),
        (r"^(?i:a)b$", ["Ab"], ["AB"]),
        (r"", ["", "anything\n"], []),
        (r"^\0$", ["\0"], ["0"]),
        (r"^$|^a", ["", "ab"], ["ba"]),
        (r"^(^a$)$", ["a"], ["aa"]),
        (r"a*", ["b"], []),
    ],
)
def test_constructs(pattern, accepted, rejected):
    for text in accepted:
        assert found(pattern, text), text
    for text in rejected:
        assert not found(pattern, text), text


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "a**",
        "*",
        "\\",
        r"\u{110000}",
        r"\p{Nonsense}",
        r"\p",
        "(?<1>a)",
        "[b-a]",
        r"\x4",
        "a{2,1}",
        r"\q",
        "(?z)a",
    ],
)
def test_bad_patterns(pattern):
    with pytest.raises(InvalidConstraint) as refusal:
        found(pattern, "")
    assert refusal.value.column is not None


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<n>a)\k<n>", "a*+", "(?>a)"])
def test_what_is_not_regular(pattern):
    with pytest.raises((UnsupportedKeyword, InvalidConstraint)):
        found(pattern, "")


# Where the dialects differ in what they match, not only in what they refuse.
DIFFERENT = re.compile(r"\\Z|\$|\\b|\\B|\\[sSwWdD]|\.|\(\?[a-zA-Z-]*[amx]|\{,|\\N|\[\^?\]|\(\?#|\[\]|\(\?P=")


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(PATTERNS, TEXTS)
def test_agrees_with_python_on_what_both_have(pattern, text):
    assume(not DIFFERENT.search(pattern))
    try:
        expected = patient(re.search)(pattern, text) is not None
    except re.error:
        assume(False)
    assert found(pattern, text) == expected


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(PATTERNS, TEXTS)
def test_what_is_generated_satisfies_python_too(pattern, text):
    """JSON Schema validators in Python run ECMA patterns through `re`: outside of assertions both must agree."""
    assume(not re.search(r"\(\?[=!<]|\\[bBZ]|\(\?[a-zA-Z-]*[amx]|\{,|\\N|\(\?#", pattern))
    try:
        finds = re.compile(pattern).search
    except re.error:
        assume(False)
    dfa = pattern_dfa(pattern, dialect="ecma", search=True)
    for word in [text, *([] if dfa.is_empty() else dfa.words(5))]:
        if dfa.contains(word):
            assert finds(word), (pattern, word)
