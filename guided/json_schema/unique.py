"""Arrays without repetitions: the rules carry which values were written; knows no schema.

Literals, words and numbers are carried exactly. Strings of too many to list are carried as a *fingerprint*, and a string whose
fingerprint was written before is not generated: of two different strings one in 1021; where items have a pattern or format one in
101; where they have a greatest length one in 31 of those of the same length. To carry the strings themselves would give every
token of the vocabulary a successor of its own.
Items that may be arrays or objects are refused by name (`refuse_containers`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from guided.automaton.charset import CharSet
from guided.errors import UnsupportedKeyword
from guided.json_schema.arrays import ArrayShape
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.formulas import Goal
from guided.json_schema.literals import Literals
from guided.json_schema.numbers import NumberShape
from guided.json_schema.strings import StringShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm

Written = frozenset[Hashable]  # keys of values: ("literal", v), ("number", v), ("word", w) or ("fingerprint", h)
MOST_LISTED = 500  # values of one goal that are told apart one by one
PRINTABLE = 32  # classes of printable ASCII, by its last five bits; then what JSON escapes, and everything beyond ASCII
_PLAIN = CharSet.range(0x20, 0x7F) - CharSet.of('"\\')
_CLASSES = [_PLAIN & CharSet.of(*(chr(code) for code in range(128) if code & 31 == low)) for low in range(PRINTABLE)]
_CLASSES += [CharSet.range(0, 127) - _PLAIN, ~CharSet.range(0, 127)]


@lru_cache(maxsize=4096)
def _by_class(characters: CharSet) -> tuple[tuple[CharSet, int], ...]:
    """(part of a set in one class, number of the class)."""
    parts = ((characters & members, position) for position, members in enumerate(_CLASSES))
    return tuple(part for part in parts if part[0])


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one goal: those that can be listed, and the shapes with more than that."""

    listed: tuple[tuple, ...]
    others: tuple[NumberShape | StringShape, ...]


def values_of(goal: Goal, normal_form: NormalForm) -> Values:
    """What items of a goal can be, arrays and objects aside."""
    listed: dict[tuple, None] = {}
    others: list[NumberShape | StringShape] = []
    for kind in ("null", "boolean", "number", "string"):
        for shape in normal_form.alternatives(goal, kind):
            keys = _list(shape, normal_form)
            if keys is None:
                assert isinstance(shape, (NumberShape, StringShape))
                others.append(shape)
            else:
                listed.update(dict.fromkeys(keys))
    return Values(tuple(listed), tuple(others))


def _list(shape, normal_form: NormalForm) -> list[tuple] | None:
    """The keys of all values of a shape, or None if there are too many."""
    match shape:
        case Literals():
            return [("literal", value) for value in sorted(shape.values, key=str)]
        case NumberShape():
            numbers = shape.finite_values(MOST_LISTED)
            return None if numbers is None else [("number", value) for value in sorted(numbers)]
        case StringShape() if shape.words is not None:
            return [("word", word) for word in sorted(normal_form.languages.matching(shape))]
        case StringShape() if shape.tests and normal_form.languages.untested(shape).is_finite():
            words = list(normal_form.languages.shape(shape).words(MOST_LISTED + 1))
            return [("word", word) for word in words] if len(words) <= MOST_LISTED else None
    return None


@dataclass(frozen=True, slots=True)
class Printing:
    """How the strings of one array are told apart: a polynomial modulo a prime over the classes of the characters.

    Attributes:
        counted: the number of characters is part of the fingerprint; the automata of these strings count them anyway.
        modulus, factor: of the polynomial; the factor is a primitive root. The larger the automaton of the strings, the smaller.
    """

    counted: bool
    modulus: int
    factor: int

    @classmethod
    def of(cls, shapes: list[StringShape]) -> Printing:
        """For an array whose strings have these shapes."""
        if any(shape.max_length is not None for shape in shapes):
            return cls(True, 31, 3)
        return cls(False, 101, 2) if any(shape.tests for shape in shapes) else cls(False, 1021, 10)

    def changed(self, hashed: int, position: int) -> int:
        """The polynomial after one more character of a class."""
        return (hashed * self.factor + position + 1) % self.modulus

    def key(self, count: int, hashed: int) -> tuple:
        """The key of a string of so many characters."""
        return ("fingerprint", count, hashed) if self.counted else ("fingerprint", hashed)

    def key_of(self, key: tuple) -> tuple:
        """The key of a listed value in an array that carries fingerprints of strings."""
        if key[0] != "word":
            return key
        hashed = 0
        for character in key[1]:
            position = next(position for position, members in enumerate(_CLASSES) if character in members)
            hashed = self.changed(hashed, position)
        return self.key(len(key[1]), hashed)


def can_fill(
    goals: list[Goal], written: Written, normal_form: NormalForm, key_of: Callable[[tuple], tuple] = lambda key: key
) -> bool:
    """Are there distinct values for items of these goals, none of them written before?

    Goals of too many values to list are no obstacle; for the others, a matching of items and values (Kuhn's algorithm).
    """
    if len(set(goals)) == 1:  # as nearly always
        values = values_of(goals[0], normal_form)
        return bool(values.others) or len({key_of(key) for key in values.listed} - written) >= len(goals)
    assigned: dict[Hashable, int] = {}
    choices = []
    for goal in goals:
        values = values_of(goal, normal_form)
        if not values.others:
            keys = dict.fromkeys(key_of(key) for key in values.listed)
            choices.append([key for key in keys if key not in written])

    def place(item: int, tried: set[Hashable]) -> bool:
        for key in choices[item]:
            if key not in tried:
                tried.add(key)
                if key not in assigned or place(assigned[key], tried):
                    assigned[key] = item
                    return True
        return False

    return all(place(item, set()) for item in range(len(choices)))


def refuse_containers(shape: ArrayShape, normal_form: NormalForm, pointer: str) -> None:
    """Raises UnsupportedKeyword where uniqueness of the items of an array cannot be enforced."""
    if not shape.unique or (shape.max_items is not None and shape.max_items <= 1):
        return
    hint = "Uniqueness is enforced for strings, numbers, true, false and null."
    if shape.counts:
        message = "uniqueItems beside contains cannot be enforced"
        raise UnsupportedKeyword(message, keyword="uniqueItems", pointer=pointer)
    for position in range(shape.regular_from + 1):
        goal = normal_form.formulas.goal(shape.formulas_at(position))
        if any(
            normal_form.has_value(item) for kind in ("array", "object") for item in normal_form.alternatives(goal, kind)
        ):
            message = "uniqueItems cannot be enforced where items may be arrays or objects"
            raise UnsupportedKeyword(message, keyword="uniqueItems", pointer=pointer, hint=hint)
        for item in values_of(goal, normal_form).others:
            if isinstance(item, StringShape) and item.tests and (item.min_length or item.max_length is not None):
                message = "uniqueItems cannot be enforced where items have a pattern or format and bounds of the length"
                raise UnsupportedKeyword(message, keyword="uniqueItems", pointer=pointer)


class Fingerprints:
    """Strings with their fingerprints: an automaton over (state of a language, characters so far, polynomial so far)."""

    def __init__(self, language: CountedLanguage, printing: Printing, written: Written) -> None:
        self.language = language
        self.printing = printing
        self.written = written
        self._arcs: dict[int, list[tuple[CharSet, int, int]]] = {}

    def may_end(self, state: int, count: int, hashed: int) -> bool:
        return self.language.accepts(state, count) and self.printing.key(count, hashed) not in self.written

    def place_key(self, state: int, count: int, hashed: int) -> tuple[int, int, int]:
        """Equal for places from which everything goes on in the same way."""
        return state, count if self.printing.counted else self.language.key(state, count), hashed

    def arcs(self, state: int) -> list[tuple[CharSet, int, int]]:
        """(characters, their class, next state of the language)."""
        known = self._arcs.get(state)
        if known is None:
            known = self._arcs[state] = [
                (characters, position, target)
                for target, moved in self.language.dfa.out(state)
                for characters, position in _by_class(moved)
            ]
        return known

    def can_end(self, state: int, count: int, hashed: int) -> bool:
        """Is there a way to the end? Breadth first; nearly always a step or two."""
        seen, frontier = {(state, hashed)}, [(state, count, hashed)]
        while frontier:
            following = []
            for place in frontier:
                if self.may_end(*place):
                    return True
                for _, position, target in self.arcs(place[0]):
                    changed = self.printing.changed(place[2], position)
                    if (target, changed) not in seen and self.language.can_end(target, place[1] + 1):
                        seen.add((target, changed))
                        following.append((target, place[1] + 1, changed))
            frontier = following
        return False


def without(shape: NumberShape, written: Written) -> NumberShape | None:
    """The numbers of a shape that were not written before; None: there are none."""
    numbers = {key[1] for key in written if isinstance(key, tuple) and key[0] == "number"}
    excluded = frozenset(value for value in numbers if isinstance(value, Fraction) and value in shape)
    return replace(shape, excluded=shape.excluded | excluded).tidy()
