"""The rules of arrays without repetitions: what is left to write is one rule for each set of values written so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Goal
from guided.json_schema.number_spelling import NumberSpelling, Prefix, spellings
from guided.json_schema.number_text import BELOW, START
from guided.json_schema.numbers import NumberShape
from guided.json_schema.strings import StringShape
from guided.json_schema.unique import Fingerprints, Values, Written, can_fill, coarse_key, values_of, without
from guided.json_schema.whitespace import Style

if TYPE_CHECKING:
    from guided.json_schema.emit import Emitter

_QUOTE = 1 << ord('"')
_LITERALS = {None: "null", True: "true", False: "false"}
Continue = Callable[[tuple], int]  # key of the value that was written -> rule that reads what is left


class UniqueItems:
    """The rules of one array shape whose items are distinct."""

    def __init__(self, emitter: Emitter, shape: ArrayShape) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self.normal_form = emitter.normal_form
        self.shape = shape
        self._rests: dict[tuple[int, Written, Style], int] = {}
        self._values: dict[Goal, Values] = {}
        goals = [self._goal(position) for position in range(shape.regular_from + 1)]
        prints = any(isinstance(other, StringShape) for goal in goals for other in self._values_of(goal).others)
        self._key_of = coarse_key if prints else lambda key: key

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
            first = self.emitter.late(lambda inner=inner: self._first(inner))
            self.network.call(before, first, self.emitter.end)

    def _first(self, inner: Style) -> int:
        start = self.network.state()
        self._item(start, 0, frozenset(), inner)
        return start

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
        needed = max(position + 1, self.shape.min_items)
        return can_fill([self._goal(at) for at in range(position, needed)], written, self.normal_form, self._key_of)

    def _leaves_enough(self, position: int, written: Written) -> bool:
        """After these values, can the items that are still needed be written?"""
        goals = [self._goal(at) for at in range(position, self.shape.min_items)]
        return can_fill(goals, written, self.normal_form, self._key_of)

    def _rest(self, position: int, written: Written, inner: Style) -> int:
        key = (position, written, inner)
        known = self._rests.get(key)
        if known is None:
            known = self._rests[key] = self.emitter.late(lambda: self._build_rest(position, written, inner))
        return known

    def _build_rest(self, position: int, written: Written, inner: Style) -> int:
        start = self.network.state()
        if position >= self.shape.min_items:
            before = self.network.state()
            self.emitter.whitespace.closing(start, inner, before)
            self.network.edge(before, 1 << ord("]"), self.emitter.end)
        if self._may_follow(position, written):
            following = self.network.state()
            self.emitter.whitespace.comma(start, inner, following)
            self._item(following, position, written, inner)
        return start

    # --- one item -------------------------------------------------------------------------------------------------------

    def _item(self, source: int, position: int, written: Written, inner: Style) -> None:
        """One item that is none of the values written before, and what is left after it."""
        goal = self._goal(position)
        values = self._values_of(goal)

        def rest(key: tuple) -> int:
            return self._rest(position + 1, written | {key}, inner)

        for value in values.listed:
            key = self._key_of(value)
            if key not in written and self._leaves_enough(position + 1, written | {key}):
                self._listed(source, value, rest(key))
        for shape in values.others:
            if isinstance(shape, NumberShape):
                self._number(source, shape, written, rest)
            else:
                self._string(source, shape, written, rest)

    def _listed(self, source: int, listed: tuple, rest: int) -> None:
        kind, value = listed
        after = self.network.state()
        if kind == "word":
            opened = self.network.state()
            self.network.edge(source, _QUOTE, opened)
            self.network.call(opened, self.emitter.name_rule(value), after)
        else:
            texts = {_LITERALS[value]} if kind == "literal" else spellings(value)
            for text in sorted(texts):
                self.network.literal(source, text.encode(), after)
        self.network.call(after, rest, self.emitter.end)

    def _number(self, source: int, shape: NumberShape, written: Written, rest: Continue) -> None:
        left = without(shape, written)
        if left is None:
            return
        spelling = NumberSpelling(left)
        rules: dict[Prefix, int] = {}

        def rule(prefix: Prefix) -> int:
            known = rules.get(prefix)
            if known is None:
                known = rules[prefix] = self.emitter.late(lambda: build(prefix))
            return known

        def build(prefix: Prefix) -> int:
            state = self.network.state()
            if spelling.ends(prefix):
                self.network.call(state, rest(("number", spelling.value(prefix))), self.emitter.end)
            add_moves(state, prefix)
            return state

        def add_moves(origin: int, prefix: Prefix) -> bool:
            moves = spelling.moves(prefix)
            for character, following in moves:
                after = self.network.state()
                self.network.edge(origin, 1 << ord(character), after)
                self.network.call(after, rule(following), self.emitter.end)
            return bool(moves)

        add_moves(source, START)
        minus = self.network.state()
        if add_moves(minus, BELOW):
            self.network.edge(source, 1 << ord("-"), minus)

    def _string(self, source: int, shape: StringShape, written: Written, rest: Continue) -> None:
        prints = Fingerprints(self.normal_form.languages.counted(shape), written)
        rules: dict[tuple[int, int, int], int] = {}

        def rule(state: int, count: int, fingerprint: int) -> int:
            key = (state, prints.language.key(state, count), fingerprint)
            known = rules.get(key)
            if known is None:
                known = rules[key] = self.emitter.late(lambda: build(state, count, fingerprint))
            return known

        def build(state: int, count: int, fingerprint: int) -> int:
            start = self.network.state()
            if prints.may_end(state, count, fingerprint):
                closed = self.network.state()
                self.network.edge(start, _QUOTE, closed)
                self.network.call(closed, rest(("fingerprint", fingerprint)), self.emitter.end)
            for characters, target, changed in prints.steps(state, fingerprint):
                if prints.can_end(target, count + 1, changed):
                    after = self.network.state()
                    self.emitter.strings.encoder.char(start, characters, after)
                    self.network.call(after, rule(target, count + 1, changed), self.emitter.end)
            return start

        opened = self.network.state()
        self.network.edge(source, _QUOTE, opened)
        if prints.can_end(0, 0, 0):
            self.network.call(opened, rule(0, 0, 0), self.emitter.end)
