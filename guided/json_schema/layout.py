"""An object shape laid out for generation: known names in order, goals of their values, the other names in cells.

A *cell* is a set of names that is not told apart by any condition of the shape, with the goal for the values under such
names. Goes from shapes to goals and automata over names; knows no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from guided.automaton.char_dfa import CharDfa
from guided.json_schema.formulas import Formula, Goal
from guided.json_schema.objects import Names, ObjectShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm


@dataclass(frozen=True, slots=True)
class Cell:
    """Unknown names with equal conditions.

    Attributes:
        names: the automaton of the names, or None for all names but the known ones.
        goal: what their values satisfy.
        memberships: for each set of names in `ObjectLayout.name_sets`, whether these names are in it.
    """

    names: CharDfa | None
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
        """Every name that the shape mentions: the listed ones first, in order."""
        names = dict.fromkeys(self.shape.named)
        names.update(self.shape.required)
        for clause in self.shape.clauses:
            names.update(dict.fromkeys(sorted(atom.name for atom in clause if atom.name is not None)))
        for name_set in self.name_sets:
            names.update(dict.fromkeys(sorted(_listed(name_set))))
        return tuple(names)

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
        languages = self.normal_form.languages
        inside = (
            name in names.listed
            or any(languages.test("pattern", pattern).contains(name) for pattern in names.patterns)
            or any(self.normal_form.admits(formula, name) for formula in names.formulas)
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
        """The unknown names; cells whose goal is refuted are left out."""
        if all(_is_plain(names) for names in self.name_sets):
            memberships = tuple(names.outside for names in self.name_sets)
            found = [Cell(None, self._cell_goal(memberships), memberships)]
        else:
            found = [Cell(names, self._cell_goal(flags), flags) for names, flags in self._split()]
        return tuple(cell for cell in found if not self.normal_form.refuted(cell.goal))

    def _cell_goal(self, memberships: tuple[bool, ...]) -> Goal:
        inside = dict(zip(self.name_sets, memberships, strict=True))
        return self.normal_form.formulas.goal(formula for names, formula in self.shape.general if inside[names])

    def _split(self) -> list[tuple[CharDfa, tuple[bool, ...]]]:
        """The unknown names, split by every set that is spoken of; empty parts and parts without values are left out."""
        budget, refuted = self.normal_form.budget, self.normal_form.refuted
        parts: list[tuple[CharDfa, tuple[bool, ...]]] = [(self.unknown_names, ())]
        for names in self.name_sets:
            inside, outside = self.language(names), self.language(names, negated=True)
            halves = [
                half
                for dfa, flags in parts
                for half in (
                    (dfa.intersect(inside, budget), (*flags, True)),
                    (dfa.intersect(outside, budget), (*flags, False)),
                )
            ]
            parts = [
                (dfa, flags)
                for dfa, flags in halves
                if not dfa.is_empty()
                and not refuted(self._cell_goal(flags + (False,) * (len(self.name_sets) - len(flags))))
            ]
        return parts

    @cached_property
    def unknown_names(self) -> CharDfa:
        """Every string that is not a known name."""
        return self.normal_form.languages.words(frozenset(self.known)).complement()

    def language(self, names: Names, negated: bool = False) -> CharDfa:
        """A set of names, or its complement, as an automaton; names that are a matter of reading are in neither."""
        normal_form, budget = self.normal_form, self.normal_form.budget
        languages = normal_form.languages
        if names.outside == negated:
            test = languages.test
        else:
            test = languages.excluded
        parts = [languages.words(names.listed)] if names.listed else []
        parts.extend(test("pattern", pattern) for pattern in sorted(names.patterns))
        for formula in names.formulas:
            parts.extend(self._satisfying(formula, names.outside == negated))
        for part in names.within:
            parts.append(
                self.language(part) if names.outside == negated else self.language(part, negated=True).complement()
            )
        merged = reduce(lambda one, other: one.union(other, budget), parts) if parts else CharDfa.empty()
        return merged if names.outside == negated else merged.complement()

    def _satisfying(self, formula: Formula, positive: bool) -> list[CharDfa]:
        """Automata whose union is the names that satisfy a formula; if not positive: that do not surely violate it."""
        normal_form = self.normal_form
        if positive:
            return [normal_form.languages.shape(shape) for shape in normal_form.expand(formula, "string")]
        violating = normal_form.expand(normal_form.formulas.negation(formula), "string")
        languages = [normal_form.languages.shape(shape) for shape in violating]
        merged = (
            reduce(lambda one, other: one.union(other, normal_form.budget), languages) if languages else CharDfa.empty()
        )
        return [merged.complement()]


def _listed(names: Names) -> set[str]:
    found = set(names.listed)
    for part in names.within:
        found |= _listed(part)
    return found


def _is_plain(names: Names) -> bool:
    """The set and its complement are told apart by listed names alone."""
    return not (names.patterns or names.formulas or names.within)
