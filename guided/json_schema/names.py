"""Property names as automata: patterns and formulas that sets of names are made of, and conjunctions of them; knows no bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from guided.automaton.char_dfa import CharDfa
from guided.json_schema.formulas import Formula
from guided.json_schema.objects import Names
from guided.json_schema.strings import StringShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm

NameTest = str | Formula  # a pattern, or a formula that the name satisfies as a string
Answers = tuple[tuple[NameTest, bool], ...]


def own_tests(names: Names) -> Iterator[NameTest]:
    """The tests of a set, those of the sets within it left out."""
    yield from sorted(names.patterns)
    yield from sorted(names.formulas, key=lambda formula: formula.number)


def name_tests(names: Names) -> Iterator[NameTest]:
    """All tests that decide on whether a name that is not listed is in the set."""
    yield from own_tests(names)
    for part in names.within:
        yield from name_tests(part)


class NameLanguages:
    """Automata of names, each built once for the whole schema."""

    def __init__(self, normal_form: NormalForm) -> None:
        self.normal_form = normal_form
        self._known: dict[Answers, CharDfa] = {(): CharDfa.everything()}

    def passes(self, test: NameTest, name: str) -> bool:
        """Does one name satisfy a test?"""
        if isinstance(test, str):
            return self.normal_form.languages.test("pattern", test).contains(name)
        return self.normal_form.admits(test, name)

    def satisfying(self, answers: Answers) -> CharDfa:
        """The names that give these answers; names for which readings of a pattern differ give neither answer."""
        known = self._known.get(answers)
        if known is None:
            before, (test, answer) = self.satisfying(answers[:-1]), answers[-1]
            budget = self.normal_form.budget
            if answer:
                known = self._all(test) if len(answers) == 1 else before.intersect(self._all(test), budget)
            else:
                known = before.difference(self._excluded(test), budget)
            self._known[answers] = known
        return known

    def _all(self, test: NameTest) -> CharDfa:
        """The names that surely satisfy a test."""
        if isinstance(test, str):
            return self.normal_form.languages.test("pattern", test)
        return self._union(test)

    def _excluded(self, test: NameTest) -> CharDfa:
        """The names that may satisfy a test."""
        if isinstance(test, str):
            return self.normal_form.languages.excluded("pattern", test)
        return self._union(self.normal_form.formulas.negation(test)).complement()

    def _union(self, formula: Formula) -> CharDfa:
        normal_form = self.normal_form
        parts = [
            normal_form.languages.shape(shape)
            for shape in normal_form.expand(formula, "string")
            if isinstance(shape, StringShape)
        ]
        return reduce(lambda one, other: one.union(other, normal_form.budget), parts) if parts else CharDfa.empty()
