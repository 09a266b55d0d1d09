"""Sets of strings as automata over characters: patterns, formats, string shapes and sets of property names; knows no bytes."""

from __future__ import annotations

import re

from guided.automaton.char_dfa import CharDfa
from guided.automaton.char_nfa import determinise, literal, union
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.formats import format_dfa
from guided.json_schema.strings import StringShape
from guided.limits import Budget
from guided.regex import pattern_dfa


class Languages:
    """Automata that were needed so far, each built once."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._excluded: dict[str, CharDfa] = {}
        self._tests: dict[tuple[str, str], CharDfa] = {}
        self._shapes: dict[StringShape, CharDfa] = {}
        self._counted: dict[StringShape, CountedLanguage] = {}

    def test(self, kind: str, text: str) -> CharDfa:
        """The strings that match a pattern somewhere, or that have a format."""
        known = self._tests.get((kind, text))
        if known is None:
            dfa = (
                format_dfa(text)
                if kind == "format"
                else pattern_dfa(text, dialect="ecma", search=True, budget=self.budget)
            )
            known = self._tests[(kind, text)] = dfa
        return known

    def excluded(self, kind: str, text: str) -> CharDfa:
        """What `not` leaves out for a test: where readings of a pattern differ, everything that matches under one of them."""
        if kind == "format" or not re.search(r"\\[dwsDWS]", text):
            return self.test(kind, text)
        known = self._excluded.get(text)
        if known is None:
            known = self._excluded[text] = pattern_dfa(text, dialect="ecma-wide", search=True, budget=self.budget)
        return known

    def words(self, words: frozenset[str]) -> CharDfa:
        """Exactly these strings."""
        return determinise(union(*map(literal, sorted(words))), self.budget) if words else CharDfa.empty()

    def shape(self, shape: StringShape) -> CharDfa:
        """The strings of a shape."""
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = self._build(shape)
        return known

    def _build(self, shape: StringShape) -> CharDfa:
        if shape.words is not None:
            return self.words(self.matching(shape))
        language = self.untested(shape)
        if shape.min_length or shape.max_length is not None:
            language = language.intersect(CharDfa.lengths(shape.min_length, shape.max_length), self.budget)
        return language

    def untested(self, shape: StringShape) -> CharDfa:
        """The strings of a shape without words, of any length."""
        language = None
        for kind, text, positive in sorted(shape.tests, key=lambda test: (not test[2], test)):
            if positive:
                dfa = self.test(kind, text)
                language = dfa if language is None else language.intersect(dfa, self.budget)
            else:
                language = (language or CharDfa.everything()).difference(self.excluded(kind, text), self.budget)
        language = CharDfa.everything() if language is None else language
        return language.difference(self.words(shape.excluded), self.budget) if shape.excluded else language

    def counted(self, shape: StringShape) -> CountedLanguage:
        """The strings of a shape without words, as an automaton and bounds of the length."""
        known = self._counted.get(shape)
        if known is None:
            language = CountedLanguage(self.untested(shape), shape.min_length, shape.max_length, self.budget)
            known = self._counted[shape] = language
        return known

    def matching(self, shape: StringShape) -> frozenset[str]:
        """The words of a shape that has words."""
        assert shape.words is not None
        return frozenset(word for word in shape.words if self.passes(shape, word))

    def passes(self, shape: StringShape, word: str) -> bool:
        """Do all patterns and formats of the shape hold, or not hold, as they should?"""
        return all(
            self.test(kind, text).contains(word) if positive else not self.excluded(kind, text).contains(word)
            for kind, text, positive in shape.tests
        )

    def has_member(self, shape: StringShape) -> bool:
        """Is there a string of this shape?"""
        if shape.words is not None:
            return any(self.passes(shape, word) for word in shape.words)
        if not shape.tests and not shape.excluded:
            return True
        if len(shape.tests) == 1 and not shape.min_length and shape.max_length is None and not shape.excluded:
            ((kind, text, positive),) = shape.tests
            if positive and kind == "pattern" and plainly_matches(text):
                return True
        return self.counted(shape).can_end(0, 0)


def plainly_matches(pattern: str) -> bool:
    """Does some string match, as can be told at a glance: no assertion inside, no class that may be empty?"""
    inner = pattern.removeprefix("^").removesuffix("$")
    return not any(sign in inner for sign in ("^", "$", "(?", "\\b", "\\B", "[]"))
