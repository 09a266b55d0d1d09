"""An object shape laid out for generation: known names in order, goals of their values, the other names in cells.

A *cell* is a set of names that is not told apart by any condition of the shape, with the goal for the values under such
names. Goes from shapes to goals and automata over names; knows no bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from guided.json_schema.formulas import Goal
from guided.json_schema.names import NameTest, name_tests, own_tests
from guided.json_schema.objects import Names, ObjectShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm


MOST_LISTED = 100  # names of a pattern or formula that are told apart one by one


@dataclass(frozen=True, slots=True)
class Cell:
    """Unknown names with equal conditions.

    Attributes:
        tests: which patterns and formulas these names satisfy and which they do not; none: all names but the known ones.
        goal: what their values satisfy.
        memberships: for each set of names in `ObjectLayout.name_sets`, whether these names are in it.
    """

    tests: tuple[tuple[NameTest, bool], ...]
    goal: Goal
    memberships: tuple[bool, ...]


class ObjectLayout:
    """What generation needs to know of one object shape; worked out when asked."""

    def __init__(self, shape: ObjectShape, normal_form: NormalForm) -> None:
        self.shape = shape
        self.normal_form = normal_form
        self._goals: dict[str, Goal] = {}

    @cached_property
    def name_sets(self) -> tuple[Names, ...]:
        """The sets of names that conditions of the shape speak of, without repetition."""
        sets = [names for names, _ in self.shape.general]
        sets.extend(atom.names for clause in self.shape.clauses for atom in clause if atom.names is not None)
        return tuple(dict.fromkeys(sets))

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Every name that the shape mentions: the listed ones first, in order, then those that the schema speaks of otherwise."""
        names = dict.fromkeys(self.shape.named)
        names.update(self.shape.required)
        for clause in self.shape.clauses:
            names.update(dict.fromkeys(sorted(atom.name for atom in clause if atom.name is not None)))
        for name_set in self.name_sets:
            names.update(dict.fromkeys(sorted(_listed(name_set))))
        mentions = self.normal_form.mentions
        if mentions:  # branches that were merged speak of them in another order than the document does
            names = dict.fromkeys(sorted(names, key=lambda name: mentions.get(name, -1)))
        if self._tells_names_apart and not self.closed:
            names.update(dict.fromkeys(self._few_names()))
        return tuple(names)

    @property
    def _tells_names_apart(self) -> bool:
        """Does it count how many different names there are? Names that are not known may repeat, so that one of them counts."""
        shape = self.shape
        return bool(shape.clauses or shape.min_count > len(shape.required) or shape.max_count is not None)

    def _few_names(self) -> Iterator[str]:
        """All names that satisfy patterns or formulas which few names do: they may as well be listed."""
        for flags in self._split(frozenset()):
            if True in flags.values():
                language = self.normal_form.names.satisfying(tuple(flags.items()))
                words = list(language.words(MOST_LISTED + 1)) if language.is_finite() else []
                yield from words if len(words) <= MOST_LISTED else ()

    def goal(self, name: str) -> Goal:
        """What the value under a known name satisfies."""
        known = self._goals.get(name)
        if known is None:
            formulas = list(self.shape.named.get(name, ()))
            formulas.extend(formula for names, formula in self.shape.general if self.contains(names, name))
            known = self._goals[name] = self.normal_form.formulas.goal(formulas)
        return known

    def contains(self, names: Names, name: str) -> bool:
        """Is the name in the set?"""
        passes = self.normal_form.names.passes
        inside = (
            name in names.listed
            or any(passes(test, name) for test in own_tests(names))
            or any(self.contains(part, name) for part in names.within)
        )
        return inside != names.outside

    # --- names that are not known -------------------------------------------------------------------------------------

    @cached_property
    def closed(self) -> bool:
        """Only known names are generated, since the schema lists its properties and is silent about others."""
        return self.normal_form.declared_only and self.shape.declares and not self.shape.opens

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The unknown names; cells without names, and those whose goal is refuted, are left out."""
        cells = (self._cell(flags) for flags in self._split(frozenset(self.known)))
        return tuple(cell for cell in cells if not self.normal_form.refuted(cell.goal))

    def _cell(self, flags: dict[NameTest, bool]) -> Cell:
        memberships = tuple(_inside(names, flags) is True for names in self.name_sets)
        return Cell(tuple(flags.items()), self._cell_goal(memberships), memberships)

    def _cell_goal(self, memberships: tuple[bool, ...]) -> Goal:
        inside = dict(zip(self.name_sets, memberships, strict=True))
        return self.normal_form.formulas.goal(formula for names, formula in self.shape.general if inside[names])

    def _split(self, known: frozenset[str]) -> list[dict[NameTest, bool]]:
        """The answers to all tests that some unknown name gives; answers after which no value is left are dropped early."""
        tests = dict.fromkeys(test for names in self.name_sets for test in name_tests(names))
        parts: list[dict[NameTest, bool]] = [{}]
        for test in tests:
            halves = [{**flags, test: answer} for flags in parts for answer in (True, False)]
            parts = [flags for flags in halves if not self._is_hopeless(flags) and self._has_names(flags, known)]
        return parts

    def _is_hopeless(self, flags: dict[NameTest, bool]) -> bool:
        memberships = tuple(_inside(names, flags) is True for names in self.name_sets)
        return self.normal_form.refuted(self._cell_goal(memberships))

    def _has_names(self, flags: dict[NameTest, bool], known: frozenset[str]) -> bool:
        """Does an unknown name give these answers?"""
        language = self.normal_form.names.satisfying(tuple(flags.items()))
        if language.is_empty():
            return False
        if not any(language.contains(name) for name in known):
            return True
        return any(word not in known for word in language.words(len(known) + 1))


def _inside(names: Names, flags: dict[NameTest, bool]) -> bool | None:
    """Are unknown names that answer like this in the set? None: that depends on tests without an answer."""
    answers = [flags.get(test) for test in own_tests(names)]
    answers.extend(_inside(part, flags) for part in names.within)
    within = True if True in answers else None if None in answers else False
    return within if within is None else within != names.outside


def _listed(names: Names) -> set[str]:
    found = set(names.listed)
    for part in names.within:
        found |= _listed(part)
    return found
