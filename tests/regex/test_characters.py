"""Sets of characters against the engines that define them, character by character."""

import re
import sys

import pytest
import regex

from guided.automaton.charset import ANY, CharSet
from guided.regex.characters import (
    ECMA_LINE_ENDS,
    AsciiCategories,
    EcmaCategories,
    PythonCategories,
    _cased,
    ignoring_case,
    python_category,
    unicode_property,
)

ALL = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]


@pytest.mark.parametrize("letter", "dws")
def test_categories_are_those_of_re(letter):
    matches = re.compile(f"\\{letter}").fullmatch
    assert python_category(letter) == CharSet.of("".join(c for c in ALL if matches(c)))


def test_every_cased_character_is_known():
    assert _cased() == CharSet.of("".join(c for c in ALL if c.lower() != c or c.upper() != c or c.title() != c))


@pytest.mark.parametrize("flags", [re.I, re.I | re.A])
@pytest.mark.parametrize(
    "inside",
    ["k", "s", "i", "İ", "ß", "ẞ", "ßa", "ß1", "µ", "Σ", "a-z", "A-Zé", "À-ž", "\U00010400-\U0001044f", "中", "ﬅ"],
)
def test_case_is_ignored_as_re_does(inside, flags):
    matches = re.compile(f"[{inside}]", flags).fullmatch
    pieces = re.findall(r"(.)-(.)|(.)", inside)
    literals = CharSet.from_ranges((ord(lo or one), ord(hi or one)) for lo, hi, one in pieces)
    assert ignoring_case(literals, bool(flags & re.A)) == CharSet.of("".join(c for c in ALL if matches(c)))


@pytest.mark.parametrize(
    "name", ["Lu", "L", "Script=Greek", "Alphabetic", "General_Category=Decimal_Number", "ASCII", "Any"]
)
def test_properties_are_those_of_the_regex_package(name):
    matches = regex.compile(f"\\p{{{name}}}").fullmatch
    found = unicode_property(name)
    assert all((ord(c) in found) == (matches(c) is not None) for c in ALL[::7])


@pytest.mark.parametrize("name", ["", "Nonsense", "L}a{", "Script=Klingonese", "^L", "Lu}|."])
def test_unknown_properties(name):
    assert unicode_property(name) is None


@pytest.mark.parametrize("categories", [PythonCategories(), AsciiCategories(), EcmaCategories()])
@pytest.mark.parametrize("letter", "dDwWsS")
def test_bounds_enclose_the_exact_set(categories, letter):
    assert categories.inner(letter) <= categories.exact(letter) <= categories.outer(letter)


@pytest.mark.parametrize("letter", "dDwWsS")
def test_ecma_text_also_satisfies_python(letter):
    """`\\D` of ECMA matches Arabic digits, that of `re` does not: what both match is generated."""
    python = PythonCategories().exact(letter)
    assert EcmaCategories().inner(letter) <= python
    assert ANY - EcmaCategories().outer(letter) <= ANY - python
    assert "\n" in ECMA_LINE_ENDS
