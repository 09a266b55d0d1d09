"""Arrays and objects that are told apart from some that are given: to rules of a schema's network.

Of the given ones those are carried along that agree with all members written so far; once none is left, what comes is what comes in
any such container. Two objects are equal in whatever order their properties stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from guided.json_schema.layout import Cell
from guided.json_schema.objects import ObjectShape
from guided.json_schema.progress import Step
from guided.json_schema.unique import Key
from guided.json_schema.whitespace import Style

if TYPE_CHECKING:
    from guided.json_schema.arrays import ArrayShape
    from guided.json_schema.emit import Emitter

Rest = Any  # members that are still to come: of an array a tuple of keys, of an object a set of (name, key)
Given = frozenset[
    tuple[Rest, int | None]
]  # what is left of given containers, the state after each; None: it is not written


def members(given: Iterable[tuple[Key, int | None]], kind: str) -> Given:
    """The members of those of some given values that are an "array", or an "object"."""
    found = ((key, target) for key, target in given if isinstance(key, tuple) and key[0] == kind)
    return frozenset((key[1] if kind == "object" else key[1:], target) for key, target in found)


def ended(given: Given, other: int | None) -> int | None:
    """Where it goes on if the container ends here."""
    return next((target for rest, target in given if not rest), other)


def first_items(given: Given) -> dict[Key, Given]:
    """What is left of given arrays by their next item."""
    found: dict[Key, set] = {}
    for rest, target in given:
        if rest:
            found.setdefault(rest[0], set()).add((rest[1:], target))
    return {key: frozenset(rests) for key, rests in found.items()}


class ContainersApart:
    """The containers of one shape, in one style around them."""

    def __init__(self, emitter: Emitter, shape: ArrayShape | ObjectShape, style: Style) -> None:
        self.emitter = emitter
        self.network = emitter.network
        self.shape = shape
        self.style = style
        self.brackets = b"{}" if isinstance(shape, ObjectShape) else b"[]"
        self.writer = emitter.writer(shape)
        self.progress: Any = self.writer.progress  # of an array or of an object
        self._tails: dict[tuple, int] = {}
        self._leading: dict[tuple, bool] = {}

    def add(self, source: int, given: Given, other: int) -> None:
        """From source over the containers to the states of the given ones, and to `other`."""
        network, first = self.network, self.progress.start
        opened = network.state()
        network.edge(source, 1 << self.brackets[0], opened)
        target = ended(given, other)
        if self.progress.may_end(first) and target is not None:
            before = network.state()
            self.emitter.whitespace.empty(opened, self.style, before)
            network.edge(before, 1 << self.brackets[1], target)
        if self._goes_on(first, given):
            for inner in self.emitter.whitespace.inner_styles(self.style):
                before = network.state()
                self.emitter.whitespace.opened(opened, inner, before)
                network.call(before, self._member_rule(first, given, inner, other), self.emitter.end)

    def has_other(self, given: Given) -> bool:
        """Is there a container that is none of the given ones?"""
        return self.leads_on(self.progress.start, given)

    def leads_on(self, state: Any, given: Given) -> bool:
        """Is there an end from here that may be written?"""
        if not given:
            return True
        known = self._leading.get((state, given))
        if known is None:
            may_end = self.progress.may_end(state) and ended(given, self.emitter.end) is not None
            known = self._leading[(state, given)] = may_end or self._goes_on(state, given)
        return known

    def _goes_on(self, state: Any, given: Given) -> bool:
        """May one more member be written?"""
        return any(self._may_write(step, given) for step in self.writer.live(self.progress.steps(state)))

    def _may_write(self, step: Step, given: Given) -> bool:
        values = self._values(step, given)
        if not values or self.emitter.apart.has_other(step.goal, frozenset(values)):
            return True
        few = self.emitter.apart.values_of(step.goal)
        agreeing = (rests for key, rests in values.items() if few.others or key in few.listed)
        return any(self.leads_on(step.following, rests) for rests in agreeing)

    def _values(self, step: Step, given: Given) -> dict[Key, Given]:
        """What is left of the given ones that agree with a member, by its value; of objects no property may be out of reach."""
        if not isinstance(self.shape, ObjectShape):
            return first_items(given)
        found: dict[Key, set] = {}
        if not isinstance(step.name, Cell):
            name = self.progress.names[step.name]
            for rest, target in given:
                values = dict(rest)
                if name in values and all(
                    self.progress.may_write(step.following, other) for other in values.keys() - {name}
                ):
                    found.setdefault(values[name], set()).add((rest - {(name, values[name])}, target))
        return {key: frozenset(rests) for key, rests in found.items()}

    # --- rules --------------------------------------------------------------------------------------------------------

    def _member_rule(self, state: Any, given: Given, inner: Style, other: int) -> int:
        """A rule that reads one more member and all that is left after it, and goes on there."""

        def build() -> int:
            start = source = self.network.state()
            if self.writer.opening:
                source = self.network.state()
                self.network.edge(start, self.writer.opening, source)
            for step in self.writer.live(self.progress.steps(state)):
                if self._may_write(step, given):
                    self._member(source, step, given, inner, other)
            return start

        return self.emitter.late(build)

    def _member(self, source: int, step: Step, given: Given, inner: Style, other: int) -> None:
        beside = self.network.state()  # after a member with which none of the given ones agrees
        self.network.call(beside, self.emitter.rest_rule(self.writer, self.brackets, inner, step.following), other)
        values = self._values(step, given)
        if not values:
            self.network.call(source, self.writer.member(step, inner), beside)
            return
        after = {key: self._tail(step.following, rests, inner, other) for key, rests in values.items()}
        if isinstance(self.shape, ObjectShape):
            source = self.emitter.named(source, self.progress.names[step.name], inner)
        self.emitter.apart.add(source, step.goal, inner, after, beside)

    def _tail(self, state: Any, given: Given, inner: Style, other: int) -> int | None:
        """The state after a member with which given ones agree: more members, or the closing bracket; None: nothing may follow."""
        if not self.leads_on(state, given):
            return None
        key = state, given, inner, other
        known = self._tails.get(key)
        if known is None:
            network = self.network
            known = self._tails[key] = network.state()
            target = ended(given, other)
            if self.progress.may_end(state) and target is not None:
                before = network.state()
                self.emitter.whitespace.closing(known, inner, before)
                network.edge(before, 1 << self.brackets[1], target)
            if self._goes_on(state, given):
                following = network.state()
                self.emitter.whitespace.comma(known, inner, following)
                network.call(following, self._member_rule(state, given, inner, other), self.emitter.end)
        return known
