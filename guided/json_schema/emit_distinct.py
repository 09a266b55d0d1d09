"""The rules of arrays without repetitions whose items have too many values for a rule for each set of them.

A mark is set before each item, and behind the comma it is asked what was written since (see `guided.automaton.network`). So no state
says what was written but those of the items that are really written, and a mask, which looks at what any token would lead to, has
nothing to build.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.emit_containers import Given, ended, first_items
from guided.json_schema.formulas import Goal, value_key
from guided.json_schema.progress import ArrayProgress, ArrayState, Step
from guided.json_schema.strings import StringShape
from guided.json_schema.unique import Key, Written, can_fill, has_more
from guided.json_schema.whitespace import Style

if TYPE_CHECKING:
    from guided.json_schema.emit import Emitter

_READER = json.JSONDecoder(parse_int=Fraction, parse_float=Fraction)
_MOST_WAYS = 1_000  # ways to the end of an array that are looked at
_SLACK = 8  # bytes by which a value that was not written yet may be longer than the shortest


class DistinctItems:
    """The arrays of one shape whose items are distinct, in one style around them."""

    def __init__(self, emitter: Emitter, shape: ArrayShape, style: Style) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self.normal_form = emitter.normal_form
        self.style = style
        self.progress = ArrayProgress(shape, emitter.normal_form)
        self._items: dict[tuple[ArrayState, Written, Given, Style, int], int] = {}
        self._closings: dict[tuple[Style, int], int] = {}
        self._stand_ins: dict[tuple[ArrayState, Style, int], int] = {}
        goals = {self.normal_form.formulas.goal(shape.formulas_at(at)) for at in range(shape.regular_from + 1)}
        self._is_regular = len(goals) == 1 and not shape.counts  # so that it only counts how many values are left
        # Values that may be used up while there are others: what comes after one of them depends on it.
        # Where all items are strings, their first quote is read before it is asked what the last one was: many tokens end there.
        self._is_quoted = all(isinstance(shape, StringShape) for goal in goals for shape in emitter.shapes(goal))
        few = [emitter.apart.values_of(goal) for goal in goals if not self._is_regular]
        self._scarce = frozenset(key for values in few if not values.others for key in values.listed)

    def add(self, source: int, given: Given, other: int) -> None:
        """From source over the arrays to the states of the given ones, and to `other`."""
        opened, first = self.network.state(), self.progress.start
        self.network.edge(source, 1 << ord("["), opened)
        target = ended(given, other)
        if self.progress.may_end(first) and target is not None:
            before = self.network.state()
            self.emitter.whitespace.empty(opened, self.style, before)
            self.network.edge(before, 1 << ord("]"), target)
        if self._goes_on(first, frozenset(), given):
            for inner in self.emitter.whitespace.inner_styles(self.style):
                before = self.network.state()
                self.emitter.whitespace.opened(opened, inner, before)
                items = self.emitter.late(partial(self._item, first, frozenset(), given, inner, other))
                self.network.call(self._quoted(before), items, self.emitter.end)

    def has_other(self, given: Given) -> bool:
        """Is there an array that is none of the given ones?"""
        return self._leads_on(self.progress.start, frozenset(), given)

    # --- what may come ------------------------------------------------------------------------------------------------

    def _leads_on(self, state: ArrayState, written: Written, given: Given) -> bool:
        """Is there an end from here that may be written?"""
        may_end = self.progress.may_end(state) and ended(given, self.emitter.end) is not None
        return may_end or self._goes_on(state, written, given)

    def _goes_on(self, state: ArrayState, written: Written, given: Given) -> bool:
        """May one more item be written?"""
        return any(True for _ in self._steps(state, written, given))

    def _steps(self, state: ArrayState, written: Written, given: Given) -> Iterator[Step[ArrayState]]:
        """What the next item may be: there is a value left for it, and for each item that has to come after it."""
        for step in self.progress.steps(state):
            if self.normal_form.satisfiable(step.goal) and self._may_write(step, written, first_items(given)):
                yield step

    def _may_write(self, step: Step[ArrayState], written: Written, rests: dict[Key, Given]) -> bool:
        apart = self.emitter.apart
        if not any(can_fill([step.goal, *goals], written, apart.values_of) for goals in self._ways(step.following)):
            return False
        if apart.has_other(step.goal, written.union(rests)):
            return True
        return any(
            self._leads_on(step.following, written | {key}, rest) for key, rest in rests.items() if key not in written
        )

    def _ways(self, state: ArrayState) -> Iterator[list[Goal]]:
        """Goals of items after which the array may end, the fewest first."""
        waiting: list[tuple[ArrayState, list[Goal]]] = [(state, [])]
        for following, goals in waiting:  # grows as ways are found
            if self.progress.may_end(following):
                yield goals
            elif len(waiting) < _MOST_WAYS:
                for step in self.progress.steps(following):
                    if self.normal_form.satisfiable(step.goal):
                        waiting.append((step.following, [*goals, step.goal]))

    # --- one item -------------------------------------------------------------------------------------------------------

    def _quoted(self, source: int) -> int:
        """The state where it is worked out what the next item may be."""
        if not self._is_quoted:
            return source
        quoted = self.network.state()
        self.network.edge(source, 1 << ord('"'), quoted)
        return quoted

    def _item(self, state: ArrayState, written: Written, given: Given, inner: Style, other: int) -> int:
        """The state before one more item that is none of the values written before; there is one."""
        key = state, written, given, inner, other
        known = self._items.get(key)
        if known is None:
            known, marked = self.network.state(), self.network.state()
            self._items[key] = known
            self.network.mark(known, marked)
            for step in self._steps(state, written, given):
                self._read(marked, step, written, first_items(given), inner, other)
        return known

    def _read(
        self, marked: int, step: Step, written: Written, rests: dict[Key, Given], inner: Style, other: int
    ) -> None:
        """One item, and what comes after it: that depends on the item where it is scarce, or begins to make a given array."""
        apart, following = self.emitter.apart, step.following
        tails: dict[tuple[Given, bool], int] = {}

        def tail(rest: Given, goes_on: bool) -> int | None:
            may_end = self.progress.may_end(following) and ended(rest, other) is not None
            if not may_end and not goes_on:
                return None
            if (rest, goes_on) not in tails:
                tails[rest, goes_on] = self._tail(following, written, rest, inner, other, goes_on)
            return tails[rest, goes_on]

        left = not self._is_regular or has_more(apart.values_of(step.goal), len(written) + 1, self.normal_form)
        beside = tail(frozenset(), left and self._goes_on(following, written, frozenset()))
        targets: dict[Key, int | None] = dict.fromkeys(written)
        for key in (self._scarce | rests.keys()) - written:
            rest = rests.get(key, frozenset())
            targets[key] = tail(rest, left and self._goes_on(following, written | {key}, rest))
        if beside is None:  # all values of the item are told apart
            beside = self.network.state()
        if targets.keys() == written:
            self.network.call(marked, apart.rule(step.goal, written, inner, self._is_quoted), beside)
        else:
            apart.add(marked, step.goal, inner, targets, beside, self._is_quoted)

    def _tail(self, state: ArrayState, written: Written, given: Given, inner: Style, other: int, goes_on: bool) -> int:
        """The state after an item: a comma and more, or the closing bracket."""
        tail = self.network.state()
        target = ended(given, other)
        if self.progress.may_end(state) and target is not None:
            self.network.epsilon(tail, self._closing(inner, target))
        if goes_on:
            following = self.network.state()
            self.emitter.whitespace.comma(tail, inner, following)
            question = partial(self._after, state, written, given, inner, other)
            self.network.ask(self._quoted(following), question, self._stand_in(state, inner, other))
        return tail

    def _after(self, state: ArrayState, written: Written, given: Given, inner: Style, other: int, text: bytes) -> int:
        """The state before the next item, where the text of the last one, its comma and whitespace is known."""
        value, _ = _READER.raw_decode(('"' if self._is_quoted else "") + text.decode())
        return self._item(state, written | {value_key(value)}, given, inner, other)

    def _closing(self, inner: Style, target: int) -> int:
        """The state before the closing bracket."""
        known = self._closings.get((inner, target))
        if known is None:
            known, before, closed = (self.network.state() for _ in range(3))
            self._closings[(inner, target)] = known
            self.emitter.whitespace.closing(known, inner, before)
            self.network.edge(before, 1 << ord("]"), closed)
            self.network.forget(closed, target)
        return known

    # --- how long it may get --------------------------------------------------------------------------------------------

    def _stand_in(self, state: ArrayState, inner: Style, other: int) -> int:
        """A state from which the fewest items that are still needed, one at least, are as long as any that may come to be."""
        known = self._stand_ins.get((state, inner, other))
        if known is None:
            known = self._stand_ins[(state, inner, other)] = self.network.state()
            build = partial(self._build_stand_in, state, inner, other)
            self.network.call(known, self.emitter.late(build), self.emitter.end)
        return known

    def _build_stand_in(self, state: ArrayState, inner: Style, other: int) -> int:
        steps = (step for step in self.progress.steps(state) if self.normal_form.satisfiable(step.goal))
        ways = ([step.goal, *goals] for step in steps for goals in self._ways(step.following))
        start = place = self.network.state()
        fewest: list[Goal] = min(ways, key=len)
        for number, goal in enumerate(fewest):
            if number:
                following = self.network.state()
                self.emitter.whitespace.comma(place, inner, following)
                place = following
            read, after = self.network.state(), self.network.state()
            self.network.call(place, self.emitter.value_rule(goal, inner), read)
            longest = max((len(str(key)) for key in self.emitter.apart.values_of(goal).listed), default=0)
            self.network.literal(read, b"0" * (_SLACK + longest), after)
            place = after
        self.network.epsilon(place, self._closing(inner, other))
        return start
