"""An automaton in, the graph of its character edges out, minimal where all of it is known; knows no coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet, partition
from guided.errors import LimitExceeded
from guided.explain.characters import CharacterView
from guided.explain.labels import set_label, text_label
from guided.plot.expression import Expression

EXPLORED = 4_000  # states that are looked at for one picture
_BEGINNING = 600  # of an automaton that is larger only so many are kept

Edges = dict[int, Expression]


@dataclass(slots=True)
class Graph:
    """States and labelled edges, changed in place while it is made smaller.

    Attributes:
        start: the start state.
        edges: state -> target -> label; every state has an entry.
        accepting: states where the output may end.
        open: states whose edges are not known or not drawn: something follows them.
        num_states: states between characters that were found in the automaton (of its minimal form, where all is known).
        is_whole: everything of the automaton was found.
        num_cut: states left out because the picture would be too large.
    """

    start: int
    edges: dict[int, Edges]
    accepting: set[int]
    open: set[int]
    num_states: int
    is_whole: bool
    num_cut: int = field(default=0)

    def sources(self) -> dict[int, list[int]]:
        """state -> the states with an edge to it, itself among them."""
        found: dict[int, list[int]] = {state: [] for state in self.edges}
        for state, edges in self.edges.items():
            for target in edges:
                found[target].append(state)
        return found

    def add(self, source: int, target: int, label: Expression) -> None:
        """An edge; beside one that is there its label becomes an alternative."""
        known = self.edges[source].get(target)
        self.edges[source][target] = label if known is None else known.either(label)

    def cut(self, max_states: int) -> None:
        """Keeps the states that are nearest to the start; what follows a kept state beyond them becomes one open state."""
        kept = self._nearest(max_states)
        self.num_cut = len(self.edges) - len(kept)
        if not self.num_cut:
            return
        fresh = max(self.edges) + 1
        for state in list(kept):
            beyond = [target for target in self.edges[state] if target not in kept]
            if beyond:
                labels = [self.edges[state].pop(target) for target in beyond]
                self.edges[fresh] = {}
                for label in labels:
                    self.add(state, fresh, label)
                self.open.add(fresh)
                kept[fresh] = None
                fresh += 1
        self.edges = {state: self.edges[state] for state in kept}
        self.accepting &= kept.keys()
        self.open &= kept.keys()

    def _nearest(self, max_states: int) -> dict[int, None]:
        """At most so many states, breadth first."""
        order = {self.start: None}
        queue = [self.start]
        for state in queue:
            for target in self.edges[state]:
                if target not in order and len(order) < max_states:
                    order[target] = None
                    queue.append(target)
        return order


def read_graph(view: CharacterView, explored: int = EXPLORED) -> Graph:
    """The graph of an automaton, minimal if it has at most `explored` states and names no special tokens.

    Where the automaton outgrows its limits the graph shows what was found until then.
    """
    known, visited = _explore(view, explored)
    whole = len(visited) == len(known)
    if whole and not any(view.moves(state).special for state in visited):
        return _minimal(view, visited)
    if not whole:
        visited = visited[:_BEGINNING]
    edges: dict[int, Edges] = {state: _edges(view, state) for state in visited}
    beyond = {target for found in edges.values() for target in found} - edges.keys()
    edges.update((state, {}) for state in beyond)
    accepting = {state for state in edges if view.is_accepting(state)}
    return Graph(view.start, edges, accepting, beyond, len(known), whole)


def _explore(view: CharacterView, explored: int) -> tuple[dict[int, None], list[int]]:
    """(states that were found, those of them whose edges are known), breadth first."""
    known: dict[int, None] = {view.start: None}
    visited: list[int] = []
    queue = [view.start]
    for state in queue:
        if len(visited) == explored:
            break
        try:
            targets = view.moves(state).targets
        except LimitExceeded:
            break
        visited.append(state)
        fresh = [target for target in targets if target not in known]
        known.update(dict.fromkeys(fresh))
        queue += fresh
    return known, visited


def _edges(view: CharacterView, state: int) -> Edges:
    moves = view.moves(state)
    edges = {target: _label(characters) for characters, target in moves.characters}
    for name, target in moves.special:
        label = Expression.group(name)
        edges[target] = edges[target].either(label) if target in edges else label
    return edges


def _label(characters: CharSet) -> Expression:
    if len(characters) == 1:
        return Expression.literal(text_label(chr(characters.bounds[0])))
    return Expression.group(set_label(characters))


def _minimal(view: CharacterView, states: list[int]) -> Graph:
    dfa = _char_dfa(view, states).minimise()
    edges: dict[int, Edges] = {state: {} for state in range(dfa.num_states)}
    for source, characters, target in dfa.edges():
        edges[source][target] = _label(characters)
    accepting = set(np.flatnonzero(dfa.accepting).tolist())
    return Graph(0, edges, accepting, set(), dfa.num_states, True)


def _char_dfa(view: CharacterView, states: list[int]) -> CharDfa:
    """The states as an automaton over classes of characters."""
    number = {state: index for index, state in enumerate(states)}
    sets = list({characters: None for state in states for characters, _ in view.moves(state).characters})
    blocks, members = partition(sets)
    row_of = {characters: row for row, characters in enumerate(sets)}
    delta = np.full((len(states), len(blocks)), -1, np.int32)
    for state, index in number.items():
        for characters, target in view.moves(state).characters:
            delta[index, members[row_of[characters]]] = number[target]
    accepting = np.array([view.is_accepting(state) for state in states])
    return CharDfa(tuple(blocks), delta, accepting)
