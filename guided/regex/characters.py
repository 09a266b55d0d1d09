"""Which characters `\\w`, `\\p{Lu}` or `(?i)k` stand for: names and sets in, sets of characters out; knows no syntax.

The engines that define these sets are asked, instead of copying their tables: Python's `re` for its own categories and
its own idea of case (with its special cases ſ, K and ı), the `regex` package for Unicode properties. Every answer
is remembered; `warm` computes the slow ones (tens of milliseconds) ahead of the first request.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import numpy as np
import regex

from guided.automaton.charset import ASCII, CharSet

ASCII_SETS = {
    "d": CharSet.range("0", "9"),
    "w": CharSet.from_ranges([(48, 57), (65, 90), (95, 95), (97, 122)]),
    "s": CharSet.of(" \t\n\r\f\v"),
}
# ECMA-262, WhiteSpace and LineTerminator: TAB VT FF ZWNBSP, category Zs, LF CR LS PS.
ECMA_SPACE = CharSet.of("\t\n\v\f\r \xa0\u1680\u202f\u205f\u3000\ufeff\u2028\u2029") | CharSet.range("\u2000", "\u200a")
ECMA_LINE_ENDS = CharSet.of("\n\r\u2028\u2029")


@cache
def _all_characters() -> str:
    """Every code point in order, surrogates included, so that offsets are code points."""
    return np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def python_category(letter: str) -> CharSet:
    """The full Unicode meaning of `\\d`, `\\w` or `\\s` in `re`."""
    return CharSet.from_ranges((m.start(), m.end() - 1) for m in re.finditer(f"\\{letter}+", _all_characters()))


@lru_cache(maxsize=256)
def unicode_property(name: str) -> CharSet | None:
    """The characters of `\\p{name}`: general category, script or binary property; None if there is no such property."""
    if not re.fullmatch(r"[A-Za-z0-9_ -]+(=[A-Za-z0-9_ -]+)?", name):
        return None
    try:
        runs = regex.compile(f"\\p{{{name}}}+")
    except regex.error:
        return None
    return CharSet.from_ranges((m.start(), m.end() - 1) for m in runs.finditer(_all_characters()))


@cache
def _cased() -> CharSet:
    """The characters that have a lower, upper or title case other than themselves: only these can match ignoring case."""
    candidates = regex.findall(r"\p{Cased}", _all_characters())  # newer tables than Python's, so more of them
    return CharSet.of(*[c for c in candidates if c.lower() != c or c.upper() != c or c.title() != c])


@cache
def _cased_text() -> str:
    return "".join(map(chr, _cased()))


@lru_cache(maxsize=4096)
def ignoring_case(characters: CharSet, ascii_only: bool) -> CharSet:
    """What `re.IGNORECASE` lets a literal, or the literals and ranges of a class, match. Only cased characters can change."""
    cased = characters & _cased()
    if not cased:
        return characters
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    inside = "".join(f"\\U{lo:08x}-\\U{hi:08x}" if lo != hi else f"\\U{lo:08x}" for lo, hi in cased.ranges)
    return (characters - cased) | CharSet.of("".join(re.findall(f"[{inside}]", _cased_text(), flags)))


class Categories:
    """What `\\d \\w \\s` and their complements mean in one dialect.

    `letter` is one of d, w, s, D, W, S. Three answers, since generated text keeps to a subset that is easy to
    defend: `inner` is what is generated for the escape itself, `outer` what a negated class leaves out, and `exact` what
    an assertion tests. inner <= exact <= outer.
    """

    def inner(self, letter: str) -> CharSet:
        return self._bound(letter, outer=False)

    def outer(self, letter: str) -> CharSet:
        return self._bound(letter, outer=True)

    def exact(self, letter: str) -> CharSet:
        raise AssertionError("a dialect defines this")

    def _bound(self, letter: str, outer: bool) -> CharSet:
        raise AssertionError("a dialect defines this")


class PythonCategories(Categories):
    """Unicode as `re` has it; `\\d \\w \\s` themselves are generated in ASCII."""

    def exact(self, letter: str) -> CharSet:
        full = python_category(letter.lower())
        return full if letter.islower() else ~full

    def _bound(self, letter: str, outer: bool) -> CharSet:
        return ASCII_SETS[letter] if letter.islower() and not outer else self.exact(letter)


class AsciiCategories(Categories):
    """`re.ASCII`."""

    def exact(self, letter: str) -> CharSet:
        return ASCII_SETS[letter] if letter.islower() else ~ASCII_SETS[letter.lower()]

    def _bound(self, letter: str, outer: bool) -> CharSet:
        return self.exact(letter)


class EcmaCategories(Categories):
    """ECMA-262. What is generated satisfies Python's reading as well, since many validators use `re` on such patterns."""

    def exact(self, letter: str) -> CharSet:
        full = ECMA_SPACE if letter.lower() == "s" else ASCII_SETS[letter.lower()]
        return full if letter.islower() else ~full

    def _bound(self, letter: str, outer: bool) -> CharSet:
        if letter.isupper():
            return ~self._bound(letter.lower(), not outer)
        if outer:
            return self.exact(letter) | python_category(letter)
        return self.exact(letter) & python_category(letter) if letter == "s" else ASCII_SETS[letter]


class WideEcmaCategories(EcmaCategories):
    """What matches under either reading: for a pattern that must not match."""

    def inner(self, letter: str) -> CharSet:
        return super().outer(letter)

    def outer(self, letter: str) -> CharSet:
        return super().inner(letter)


def warm() -> None:
    """Computes what the first pattern with `\\W`, `\\b` or `(?i)` would otherwise wait for."""
    for letter in "dws":
        python_category(letter)
    ignoring_case(ASCII, False)
