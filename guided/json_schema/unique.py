"""Arrays without repetitions: which values there are for their items, and whether enough are left; knows no bytes.

Values are known by their `formulas.value_key`, so that 1 and 1.0 are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Goal
from guided.json_schema.keywords import TYPES
from guided.json_schema.layout import Cell
from guided.json_schema.literals import Literals
from guided.json_schema.numbers import NumberShape
from guided.json_schema.objects import ObjectShape
from guided.json_schema.progress import ArrayProgress, ObjectProgress
from guided.json_schema.reading import Shape
from guided.json_schema.strings import StringShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm

Key = Hashable  # of a value
Written = frozenset[Key]
MOST_LISTED = 500  # values of one shape that are listed
_FEW_VALUES = 10  # have a thousand sets
_MOST_BEGUN = 10  # containers that are begun for each that is listed


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one goal: those that can be listed, and the shapes with more than that."""

    listed: tuple[Key, ...]
    others: tuple[Shape, ...]


def values_of(goal: Goal, normal_form: NormalForm, inside: frozenset[Goal] = frozenset()) -> Values:
    """What items of a goal can be.

    Args:
        inside: goals of the values that such a value is to be part of: what contains itself has no end.
    """
    listed: dict[Key, None] = {}
    others: list[Shape] = []
    for kind in TYPES:
        for shape in filter(normal_form.has_value, normal_form.alternatives(goal, kind)):
            keys = None if goal in inside else _list(shape, normal_form, MOST_LISTED, inside | {goal})
            if keys is None:
                others.append(shape)
            else:
                listed.update(dict.fromkeys(keys))
    return Values(tuple(listed), tuple(others))


def _list(shape: Shape, normal_form: NormalForm, most: int, inside: frozenset[Goal] = frozenset()) -> list[Key] | None:
    """The keys of all values of a shape, or None if there are more than `most`."""
    match shape:
        case Literals():
            return [(value,) for value in sorted(shape.values, key=str)]
        case NumberShape():
            numbers = shape.finite_values(most)
            return None if numbers is None else list[Key](sorted(numbers))
        case StringShape() if shape.words is not None:
            return list[Key](sorted(normal_form.languages.matching(shape)))
        case StringShape():
            words = normal_form.languages.counted(shape).words(most)
            return None if words is None else list[Key](words)
        case ArrayShape():
            return _list_members(ArrayProgress(shape, normal_form), normal_form, most, inside)
        case ObjectShape():
            return _list_members(ObjectProgress(shape, normal_form), normal_form, most, inside)
    return None


def _list_members(
    progress: ArrayProgress | ObjectProgress, normal_form: NormalForm, most: int, inside: frozenset[Goal]
) -> list[Key] | None:
    """The keys of the containers that can be written, or None if there are too many of them, or of ways to begin them."""
    is_array = isinstance(progress, ArrayProgress)
    is_unique = isinstance(progress, ArrayProgress) and progress.shape.unique
    found: dict[Key, None] = {}
    waiting: list[tuple[Any, Any]] = [(progress.start, () if is_array else frozenset())]
    for state, written in waiting:  # grows as members are found
        if progress.may_end(state):
            found[("array", *written) if is_array else ("object", written)] = None
        for step in progress.steps(state):
            if not normal_form.satisfiable(step.goal):
                continue
            values = values_of(step.goal, normal_form, inside)
            if isinstance(step.name, Cell) or values.others:
                return None
            for key in values.listed:
                if is_unique and key in written:
                    continue
                if isinstance(progress, ObjectProgress) and isinstance(step.name, int):
                    waiting.append((step.following, written | {(progress.names[step.name], key)}))
                else:
                    waiting.append((step.following, (*written, key)))
        if len(found) > most or len(waiting) > _MOST_BEGUN * most:
            return None
    return list(found)


def has_more(values: Values, count: int, normal_form: NormalForm) -> bool:
    """Are there more values than so many?"""
    if not values.others:
        return len(values.listed) > count
    return count < MOST_LISTED or any(_list(shape, normal_form, count) is None for shape in values.others)


def can_fill(goals: list[Goal], written: Written, values_of: Callable[[Goal], Values]) -> bool:
    """Are there distinct values for items of these goals, none of them written before?

    Goals of too many values to list are no obstacle; for the others, a matching of items and values (Kuhn's algorithm).
    """
    if len(set(goals)) <= 1:  # as nearly always
        if not goals:
            return True
        values = values_of(goals[0])
        return bool(values.others) or len(set(values.listed) - written) >= len(goals)
    assigned: dict[Key, int] = {}
    choices = []
    for goal in goals:
        values = values_of(goal)
        if not values.others:
            choices.append([key for key in values.listed if key not in written])

    def place(item: int, tried: set[Key]) -> bool:
        for key in choices[item]:
            if key not in tried:
                tried.add(key)
                if key not in assigned or place(assigned[key], tried):
                    assigned[key] = item
                    return True
        return False

    return all(place(item, set()) for item in range(len(choices)))


def has_few_sets(shape: ArrayShape, normal_form: NormalForm) -> bool:
    """Have the items of an array so few values that there may be a rule for each set of them?"""
    goals = [normal_form.formulas.goal(shape.formulas_at(position)) for position in range(shape.regular_from + 1)]
    values = [values_of(goal, normal_form) for goal in goals]
    keys = {key for one in values for key in one.listed}
    if any(isinstance(key, tuple) and len(key) > 1 for key in keys):
        return False  # containers
    return not shape.counts and len(keys) <= _FEW_VALUES and not any(one.others for one in values)
