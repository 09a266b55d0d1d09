"""A network and some strings go in, a network of the same texts without those that contain one of the strings comes out.

The product of two automata: the network's own, which has to have finitely many states, and the one that finds the strings. States
from which no answer is left are taken out, so nothing ends in a dead end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guided.automaton import kernels
from guided.automaton.finder import Finder
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.network import Network
from guided.errors import LimitExceeded, Unsatisfiable
from guided.limits import Budget

_MOST_STATES = 20_000  # of the network's automaton, and of the product
_FOUND = -1  # a string is complete


def avoiding(network: Network, strings: Sequence[str], budget: Budget) -> Network:
    """The texts of `network` that contain none of the `strings`, none of which is empty.

    Raises:
        Unsatisfiable: there are none.
        LimitExceeded: the network has too many states, or infinitely many: it is recursive.
    """
    dfa = LazyDfa(network, budget)
    _expand_all(dfa, budget)
    delta, class_of, accepting = dfa.tables()
    finder = _finder([string.encode() for string in strings])
    _, byte_of, kind_of = np.unique(np.vstack([class_of[None], finder]), axis=1, return_index=True, return_inverse=True)
    pairs, moves = _product(delta[:, class_of[byte_of]], finder[:, byte_of], budget)
    ends = [bool(accepting[state]) for state, _ in pairs]
    alive = _alive(moves, ends)
    if not alive[0]:
        listed = ", ".join(repr(string) for string in strings)
        raise Unsatisfiable(f"nothing satisfies the constraint without containing {listed}")
    bytes_of = [sum(1 << int(byte) for byte in np.flatnonzero(kind_of == kind)) for kind in range(len(byte_of))]
    return _network(moves, ends, alive, bytes_of)


def _expand_all(dfa: LazyDfa, budget: Budget) -> None:
    state = 0
    while state < dfa.num_states:
        dfa.run(lambda: kernels.expand(dfa.network, dfa.machine, state))  # noqa: B023 - called at once
        state += 1
        if dfa.num_states > _MOST_STATES:
            raise LimitExceeded(
                f"strings cannot be kept out of a constraint with more than {_MOST_STATES:,} states, such as a recursive one",
                limit="states",
            )
        if state % 512 == 0:
            budget.check("keeping strings out")


def _finder(strings: Sequence[bytes]) -> np.ndarray:
    """int32[nodes, 256]: the longest suffix of what was read that begins one of the strings; _FOUND once one is complete."""
    finder = Finder(strings)
    return np.where(finder.complete[finder.table], _FOUND, finder.table).astype(np.int32)


def _product(delta: np.ndarray, finder: np.ndarray, budget: Budget) -> tuple[list[tuple[int, int]], list[np.ndarray]]:
    """The reachable pairs of states, the start first, and int64[kinds of bytes] for each: the following pairs, -1 = none."""
    numbers: dict[tuple[int, int], int] = {(0, 0): 0}
    pairs = [(0, 0)]
    moves: list[np.ndarray] = []
    while len(moves) < len(pairs):
        state, node = pairs[len(moves)]
        row = np.full(delta.shape[1], -1, np.int64)
        for kind in np.flatnonzero((delta[state] >= 0) & (finder[node] >= 0)).tolist():
            pair = int(delta[state, kind]), int(finder[node, kind])
            if pair not in numbers:
                numbers[pair] = len(pairs)
                pairs.append(pair)
            row[kind] = numbers[pair]
        moves.append(row)
        if len(moves) % 512 == 0:
            budget.check("keeping strings out", states=len(pairs))
    return pairs, moves


def _alive(moves: Sequence[np.ndarray], ends: Sequence[bool]) -> list[bool]:
    """From which states an end can be reached."""
    sources: list[list[int]] = [[] for _ in moves]
    for state, row in enumerate(moves):
        for target in np.unique(row[row >= 0]).tolist():
            sources[target].append(state)
    alive = list(ends)
    waiting = [state for state, end in enumerate(ends) if end]
    while waiting:
        for source in sources[waiting.pop()]:
            if not alive[source]:
                alive[source] = True
                waiting.append(source)
    return alive


def _network(
    moves: Sequence[np.ndarray], ends: Sequence[bool], alive: Sequence[bool], bytes_of: Sequence[int]
) -> Network:
    network = Network()
    network.root = network.rule()
    numbers = {state: network.state(final=ends[state]) for state in range(len(moves)) if alive[state]}
    for state, number in numbers.items():
        symbols: dict[int, int] = {}
        for kind, target in enumerate(moves[state].tolist()):
            if target >= 0 and alive[target]:
                symbols[target] = symbols.get(target, 0) | bytes_of[kind]
        for target, byte_set in symbols.items():
            network.edge(number, byte_set, numbers[target])
    network.define(network.root, numbers[0])
    return network
