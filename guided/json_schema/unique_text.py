"""Strings of an array without repetitions: a language and the fingerprints that are taken go in, rules over bytes come out.

A place in such a string is (state of the language, characters so far, polynomial so far). Places are laid out as they are reached, many at
a time, since every string of the array has hundreds of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from guided.automaton.encoding import JsonStringEncoder
from guided.automaton.network import BYTES, CALL, Network
from guided.json_schema.unique import PRINTABLE, Fingerprints

_QUOTE = 1 << ord('"')
_PLACES = 1100  # that are laid out at a time

Place = tuple[int, int, int]
Arc = tuple[
    int, int, int, int
]  # byte set or -1, rule of the other spellings or -1, class of the characters, next state


class PrintedText:
    """The rules of the strings of one shape whose fingerprint is not taken.

    Args:
        closed: key of the string -> the network's state after the closing quote.
        end: where calls in last position lead.
    """

    def __init__(
        self,
        network: Network,
        encoder: JsonStringEncoder,
        prints: Fingerprints,
        closed: Callable[[tuple], int],
        late: Callable[[Callable[[], int]], int],
        end: int,
    ) -> None:
        self.network = network
        self.encoder = encoder
        self.prints = prints
        self.closed = closed
        self.late = late
        self.end = end
        self._arcs: dict[int, list[Arc]] = {}
        self._states: dict[Place, int] = {}  # of places that are laid out, or that call a rule which will be

    def begin(self, opened: int) -> None:
        """Adds the strings after their first quote. What comes after their first character is worked out once that is read."""
        if not self.prints.can_end(0, 0, 0):
            return
        if self.prints.may_end(0, 0, 0):
            self.network.edge(opened, _QUOTE, self.closed(self.prints.printing.key(0, 0)))
        seconds: dict[Place, tuple[Place, int]] = {}  # key -> place, the state that goes on there
        for symbols, rule, position, target in self._arcs_of(0):
            place = (target, 1, self.prints.printing.changed(0, position))
            if self.prints.can_end(*place):
                state = seconds.setdefault(self.prints.place_key(*place), (place, self.network.state()))[1]
                if symbols >= 0:
                    self.network.edge(opened, self.network.byte_sets[symbols], state)
                if rule >= 0:
                    self.network.call(opened, rule, state)
        self._go_on(list(seconds.values()))

    def _go_on(self, later: list[tuple[Place, int]]) -> None:
        """From each of the states with its place: rules that are built together, when the first of them is needed."""
        rules: list[int] = []

        def build(number: int) -> int:
            base = self._lay_out([place for place, _ in later])
            for at, rule in enumerate(rules):
                if at != number:
                    self.network.define(rule, base + at)
            return base + number

        for number, (_, state) in enumerate(later):
            rules.append(self.late(partial(build, number)))
            self.network.call(state, rules[number], self.end)

    def _lay_out(self, first: list[Place]) -> int:
        """The states of some places and of those next to them; returns the state of the first."""
        local = {self.prints.place_key(*place): number for number, place in enumerate(first)}
        waiting = list(first)
        beyond: list[tuple[Place, int]] = []
        inner: list[
            int
        ] = []  # source, kind, label, target of edges among these places, sources and targets counted from the first
        outer: list[int] = []  # of edges that lead elsewhere
        for source, place in enumerate(waiting):  # grows as places are found
            state, count, hashed = place
            if self.prints.may_end(*place):
                outer += (
                    source,
                    BYTES,
                    self.network.byte_set_id(_QUOTE),
                    self.closed(self.prints.printing.key(count, hashed)),
                )
            for symbols, rule, position, target in self._arcs_of(state):
                following = (target, count + 1, self.prints.printing.changed(hashed, position))
                key = self.prints.place_key(*following)
                edges, number = inner, local.get(key)
                if number is None and key in self._states:
                    edges, number = outer, self._states[key]
                elif number is None:
                    if not self.prints.can_end(*following):
                        continue
                    if len(waiting) < _PLACES:
                        number = local[key] = len(waiting)
                        waiting.append(following)
                    else:
                        edges, number = outer, self.network.state()
                        self._states[key] = number
                        beyond.append((following, number))
                if symbols >= 0:
                    edges += (source, BYTES, symbols, number)
                if rule >= 0:
                    edges += (source, CALL, rule, number)
        self._go_on(beyond)
        base = self._add(len(waiting), inner, outer)
        self._states.update((key, base + number) for key, number in local.items())
        return base

    def _add(self, count: int, inner: list[int], outer: list[int]) -> int:
        base = len(self.network.final)
        edges = np.array(inner, dtype=np.int32).reshape(-1, 4)
        edges[:, 3] += base
        edges = np.concatenate([edges, np.array(outer, dtype=np.int32).reshape(-1, 4)])
        return self.network.extend(np.zeros(count, dtype=bool), *edges.T)

    def _arcs_of(self, state: int) -> list[Arc]:
        known = self._arcs.get(state)
        if known is None:
            known = self._arcs[state] = []
            for characters, position, target in self.prints.arcs(state):
                single, rule = self.encoder.plan(characters)
                rule = rule if position >= PRINTABLE else -1  # printable ASCII is spelt as it is
                known.append((self.network.byte_set_id(single) if single else -1, rule, position, target))
        return known
