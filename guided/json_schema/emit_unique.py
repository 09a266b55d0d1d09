"""The rules of arrays without repetitions: what is left to write is one rule for each set of values written so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Goal
from guided.json_schema.number_spelling import NumberSpelling, Prefix, spellings
from guided.json_schema.number_text import BELOW, START
from guided.json_schema.numbers import NumberShape
from guided.json_schema.strings import StringShape
from guided.json_schema.unique import Fingerprints, Printing, Values, Written, can_fill, values_of, without
from guided.json_schema.unique_text import PrintedText
from guided.json_schema.whitespace import Style

if TYPE_CHECKING:
    from guided.json_schema.emit import Emitter

_QUOTE = 1 << ord('"')
_DIGITS_AT_A_TIME = 2  # and one more
_LITERALS = {None: "null", True: "true", False: "false"}
Continue = Callable[[tuple], int]  # key of the value that was written -> the state after it


class UniqueItems:
    """The rules of one array shape whose items are distinct."""

    def __init__(self, emitter: Emitter, shape: ArrayShape) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self.normal_form = emitter.normal_form
        self.shape = shape
        self._tails: dict[tuple[int, Written, Style], int] = {}
        self._closings: dict[Style, int] = {}
        self._values: dict[Goal, Values] = {}
        goals = [self._goal(position) for position in range(shape.regular_from + 1)]
        strings = [other for goal in goals for other in self._values_of(goal).others if isinstance(other, StringShape)]
        self._printing = Printing.of(strings)
        self._key_of = self._printing.key_of if strings else lambda key: key

    def emit(self, start: int, style: Style) -> None:
        """The whole array, brackets included, from `start` to the emitter's end."""
        opened = self.network.state()
        self.network.edge(start, 1 << ord("["), opened)
        if not self.shape.min_items:
            before = self.network.state()
            self.emitter.whitespace.empty(opened, style, before)
            self.network.edge(before, 1 << ord("]"), self.emitter.end)
        if not self._may_follow(0, frozenset()):
            return
        for inner in self.emitter.whitespace.inner_styles(style):
            before = self.network.state()
            self.emitter.whitespace.opened(opened, inner, before)
            self.network.call(before, self._item_rule(0, frozenset(), inner), self.emitter.end)

    # --- what may come ------------------------------------------------------------------------------------------------

    def _values_of(self, goal: Goal) -> Values:
        values = self._values.get(goal)
        if values is None:
            values = self._values[goal] = values_of(goal, self.normal_form)
        return values

    def _goal(self, position: int) -> Goal:
        return self.normal_form.formulas.goal(self.shape.formulas_at(position))

    def _may_follow(self, position: int, written: Written) -> bool:
        """Can one more item be written, and enough others after it?"""
        if self.shape.max_items is not None and position >= self.shape.max_items:
            return False
        return self._can_fill(position, max(position + 1, self.shape.min_items), written)

    def _can_fill(self, position: int, needed: int, written: Written) -> bool:
        """Can the items from a position up to the needed number be written?"""
        if not self.shape.regular_from:  # all items have one goal, so only their number counts
            values = self._values_of(self._goal(0))
            return bool(values.others) or len(self._keys) - len(written) >= needed - position
        goals = [self._goal(at) for at in range(position, needed)]
        return can_fill(goals, written, self.normal_form, self._key_of)

    @cached_property
    def _keys(self) -> frozenset[tuple]:
        """The keys of all values, where all items have one goal."""
        return frozenset(map(self._key_of, self._values_of(self._goal(0)).listed))

    # --- after an item ------------------------------------------------------------------------------------------------

    def _tail(self, position: int, written: Written, inner: Style) -> int:
        """The state after an item: a comma and more, or the closing bracket. The next item is worked out behind the comma."""
        key = (position, written, inner)
        known = self._tails.get(key)
        if known is None:
            known = self._tails[key] = self.network.state()
            if position >= self.shape.min_items:
                self.network.epsilon(known, self._closing(inner))
            if self._may_follow(position, written):
                following = self.network.state()
                self.emitter.whitespace.comma(known, inner, following)
                self.network.call(following, self._item_rule(position, written, inner), self.emitter.end)
        return known

    def _closing(self, inner: Style) -> int:
        """The state before the closing bracket."""
        known = self._closings.get(inner)
        if known is None:
            known, before = self.network.state(), self.network.state()
            self._closings[inner] = known
            self.emitter.whitespace.closing(known, inner, before)
            self.network.edge(before, 1 << ord("]"), self.emitter.end)
        return known

    # --- one item -------------------------------------------------------------------------------------------------------

    def _item_rule(self, position: int, written: Written, inner: Style) -> int:
        """A rule that reads one item that is none of the values written before, and what is left after it."""
        return self.emitter.late(lambda: self._item(position, written, inner))

    def _item(self, position: int, written: Written, inner: Style) -> int:
        values = self._values_of(self._goal(position))
        tail = lambda key: self._tail(position + 1, written | {key}, inner)  # noqa: E731
        start, opened = self.network.state(), self.network.state()
        left = [value for value in values.listed if self._may_write(self._key_of(value), position, written)]
        for kind, value in left:
            after = tail(self._key_of((kind, value)))
            if kind == "word":
                self.network.call(opened, self.emitter.name_rule(value), after)
                continue
            texts = {_LITERALS[value]} if kind == "literal" else spellings(value)
            for text in sorted(texts):
                self.network.literal(start, text.encode(), after)
        for shape in values.others:
            if isinstance(shape, NumberShape):
                self._number(start, shape, written, tail)
            else:
                prints = Fingerprints(self.normal_form.languages.counted(shape), self._printing, written)
                strings, emitter = self.emitter.strings, self.emitter
                PrintedText(self.network, strings.encoder, prints, tail, emitter.late, emitter.end).begin(opened)
        if self.network.first_edge[opened] >= 0:
            self.network.edge(start, _QUOTE, opened)
        return start

    def _may_write(self, key: tuple, position: int, written: Written) -> bool:
        """Was the value not written before, and can the items that are still needed be written after it?"""
        return key not in written and self._can_fill(position + 1, self.shape.min_items, written | {key})

    def _number(self, source: int, shape: NumberShape, written: Written, tail: Continue) -> None:
        left = without(shape, written)
        if left is None:
            return
        text = _DistinctNumbers(self.emitter, NumberSpelling(left, exponents=False), tail)
        text.add_moves(source, START)
        minus = self.network.state()
        if text.add_moves(minus, BELOW):
            self.network.edge(source, 1 << ord("-"), minus)


class _DistinctNumbers:
    """Numbers digit by digit, each with a state of its own after it; laid out three digits at a time, as tokens have them."""

    def __init__(self, emitter: Emitter, spelling: NumberSpelling, tail: Continue) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self.spelling = spelling
        self.tail = tail

    def add_moves(self, source: int, prefix: Prefix) -> bool:
        """What may follow a prefix; is there anything?"""
        waiting = [(source, prefix, 0)]
        for state, before, depth in waiting:  # grows as prefixes are found
            for character, following in self.spelling.moves(before):
                after = self.network.state()
                self.network.edge(state, 1 << ord(character), after)
                if self.spelling.ends(following):
                    self.network.epsilon(after, self.tail(("number", self.spelling.value(following))))
                if depth < _DIGITS_AT_A_TIME:
                    waiting.append((after, following, depth + 1))
                elif self.spelling.moves(following):
                    self.network.call(after, self._later(following), self.emitter.end)
        return len(waiting) > 1

    def _later(self, prefix: Prefix) -> int:
        def build() -> int:
            state = self.network.state()
            self.add_moves(state, prefix)
            return state

        return self.emitter.late(build)
