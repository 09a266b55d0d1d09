"""The rules of arrays without repetitions whose items have few values: what is left to write is a rule for each set of them.

So such an array has finitely many states; for others see `guided.json_schema.emit_distinct`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Goal
from guided.json_schema.number_spelling import spellings
from guided.json_schema.unique import Key, Values, Written, can_fill, values_of
from guided.json_schema.whitespace import Style

if TYPE_CHECKING:
    from guided.json_schema.emit import Emitter

_QUOTE = 1 << ord('"')
_LITERALS = {None: "null", True: "true", False: "false"}


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
        return can_fill([self._goal(at) for at in range(position, needed)], written, self._values_of)

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
        start, opened = self.network.state(), self.network.state()
        for key in self._values_of(self._goal(position)).listed:
            if self._may_write(key, position, written):
                self._value(start, opened, key, self._tail(position + 1, written | {key}, inner))
        if self.network.first_edge[opened] >= 0:
            self.network.edge(start, _QUOTE, opened)
        return start

    def _may_write(self, key: Key, position: int, written: Written) -> bool:
        """Was the value not written before, and can the items that are still needed be written after it?"""
        return key not in written and self._can_fill(position + 1, self.shape.min_items, written | {key})

    def _value(self, start: int, opened: int, key: Key, after: int) -> None:
        """One value from a state, a string from the state after its first quote."""
        if isinstance(key, str):
            self.network.call(opened, self.emitter.name_rule(key), after)
            return
        assert isinstance(key, (tuple, Fraction)), "arrays and objects are many"
        texts = {_LITERALS[key[0]]} if isinstance(key, tuple) else spellings(key)
        for text in sorted(texts):
            self.network.literal(start, text.encode(), after)
