"""Values of a goal that are told apart from some that are given: to rules of a schema's network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.emit_containers import ContainersApart, Given, members
from guided.json_schema.emit_distinct import DistinctItems
from guided.json_schema.formulas import Goal
from guided.json_schema.literals import Literals
from guided.json_schema.number_spelling import spellings
from guided.json_schema.number_text import MOST_LISTED as MOST_SPELT
from guided.json_schema.numbers import NumberShape
from guided.json_schema.objects import ObjectShape
from guided.json_schema.reading import Shape
from guided.json_schema.strings import StringShape
from guided.json_schema.told_apart import NumbersApart, StringsApart
from guided.json_schema.unique import MOST_LISTED, Key, Values, Written, values_of
from guided.json_schema.whitespace import LINE, Style

if TYPE_CHECKING:
    from guided.json_schema.emit import Emitter

_QUOTE = 1 << ord('"')
_LITERALS = {None: b"null", True: b"true", False: b"false"}

Targets = Mapping[Key, int | None]  # the network's state after a given value; None: it is not written


class Apart:
    """Adds the values of goals to the rules of one emitter."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self._numbers: dict[NumberShape, NumbersApart] = {}
        self._strings: dict[StringShape, StringsApart] = {}
        self._containers: dict[tuple, ContainersApart | DistinctItems] = {}
        self._values: dict[Goal, Values] = {}
        self._rules: dict[tuple[Goal, Written, Style], int] = {}

    def rule(self, goal: Goal, written: Written, style: Style, is_quoted: bool) -> int:
        """A rule that reads one value of a goal that is none of those written; a string after its first quote, if that is read."""
        if not written and not is_quoted:
            return self.emitter.value_rule(goal, style)
        known = self._rules.get((goal, written, style))
        if known is None:

            def build() -> int:
                start = self.network.state()
                self.add(start, goal, style, dict.fromkeys(written), self.emitter.end, is_quoted)
                return start

            known = self._rules[(goal, written, style)] = self.emitter.late(build)
        return known

    def values_of(self, goal: Goal) -> Values:
        """See `unique.values_of`."""
        known = self._values.get(goal)
        if known is None:
            known = self._values[goal] = values_of(goal, self.emitter.normal_form)
        return known

    def add(self, source: int, goal: Goal, style: Style, given: Targets, other: int, is_quoted: bool = False) -> None:
        """From source over the values of a goal to the states of those that are given, and to `other`.

        Args:
            is_quoted: the values are strings, and their first quote is read already.
        """
        opened = source if is_quoted else self.network.state()
        for shape in self.emitter.shapes(goal):
            match shape:
                case Literals():
                    for value in sorted(shape.values, key=str):
                        self._text(source, _LITERALS[value], given.get((value,), other))
                case NumberShape():
                    self._number(source, shape, given, other)
                case StringShape():
                    self._string(opened, shape, given, other)
                case ArrayShape():
                    arrays = members(given.items(), "array")
                    self._containers_of(shape, style, arrays).add(source, arrays, other)
                case ObjectShape():
                    objects = members(given.items(), "object")
                    self._containers_of(shape, style, objects).add(source, objects, other)
        if self.network.first_edge[opened] >= 0 and not is_quoted:
            self.network.edge(source, _QUOTE, opened)

    def has_other(self, goal: Goal, written: Written) -> bool:
        """Has a goal a value that is none of those written?"""
        values = self.values_of(goal)
        if not values.others:
            return not written.issuperset(values.listed)
        if len(written) <= MOST_LISTED:
            return True
        return any(self._shape_has_other(shape, written) for shape in self.emitter.shapes(goal))

    def _shape_has_other(self, shape: Shape, written: Written) -> bool:
        match shape:
            case Literals():
                return any((value,) not in written for value in shape.values)
            case NumberShape():
                values = shape.finite_values(MOST_SPELT)
                if values is not None:
                    return not values <= written
                return self._numbers_of(shape).has_other(key for key in written if isinstance(key, Fraction))
            case StringShape() if shape.words is not None:
                return not self.emitter.normal_form.languages.matching(shape) <= written
            case StringShape():
                return self._strings_of(shape).has_other(key for key in written if isinstance(key, str))
            case ArrayShape():
                arrays = members(((key, None) for key in written), "array")
                return self._containers_of(shape, LINE, arrays).has_other(arrays)
            case ObjectShape():
                objects = members(((key, None) for key in written), "object")
                return self._containers_of(shape, LINE, objects).has_other(objects)

    def _containers_of(
        self, shape: ArrayShape | ObjectShape, style: Style, given: Given
    ) -> ContainersApart | DistinctItems:
        if isinstance(shape, ObjectShape):
            return self._objects_of(shape, style, given)
        known = self._containers.get((shape, style))
        if known is None:
            is_distinct = shape.unique and shape.max_items not in (0, 1)
            made = DistinctItems if is_distinct else ContainersApart
            known = self._containers[(shape, style)] = made(self.emitter, shape, style)
        return known

    def _objects_of(self, shape: ObjectShape, style: Style, given: Given) -> ContainersApart | DistinctItems:
        """The names of the given objects are listed, so that none of them is written twice: of two values the last would count."""
        names = {name for rest, _ in given for name, _ in rest} - shape.named.keys()
        key = shape.key(), frozenset(names), style
        known = self._containers.get(key)
        if known is None:
            listed = replace(shape, named={**shape.named, **dict.fromkeys(sorted(names), ())})
            known = self._containers[key] = ContainersApart(self.emitter, listed, style)
        return known

    def _text(self, source: int, text: bytes, target: int | None) -> None:
        if target is not None:
            self.network.literal(source, text, target)

    def _number(self, source: int, shape: NumberShape, given: Targets, other: int) -> None:
        values = shape.finite_values(MOST_SPELT)
        if values is None:
            numbers = ((key, target) for key, target in given.items() if isinstance(key, Fraction))
            self._numbers_of(shape).add(source, numbers, other)
            return
        for value in sorted(values):
            for text in sorted({str(value)} if shape.plain else spellings(value)):
                self._text(source, text.encode(), given.get(value, other))

    def _string(self, opened: int, shape: StringShape, given: Targets, other: int) -> None:
        if shape.words is None:
            strings = ((key, target) for key, target in given.items() if isinstance(key, str))
            self._strings_of(shape).add(opened, strings, other)
            return
        for word in sorted(self.emitter.normal_form.languages.matching(shape)):
            target = given.get(word, other)
            if target is not None:
                self.network.call(opened, self.emitter.name_rule(word), target)

    def _numbers_of(self, shape: NumberShape) -> NumbersApart:
        known = self._numbers.get(shape)
        if known is None:
            known = self._numbers[shape] = NumbersApart(self.network, shape, self.emitter.late, self.emitter.end)
        return known

    def _strings_of(self, shape: StringShape) -> StringsApart:
        known = self._strings.get(shape)
        if known is None:
            emitter = self.emitter
            language = emitter.normal_form.languages.counted(shape)
            known = self._strings[shape] = StringsApart(emitter.strings, language, emitter.late, emitter.end)
        return known
