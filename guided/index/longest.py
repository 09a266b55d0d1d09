"""The token graph of a closed index in, the longest way from a state to an end out. Knows automaton and vocabulary no more."""

from __future__ import annotations

import numpy as np
from numba import njit

_CYCLE = -1


def longest_completion(begin: np.ndarray, successors: np.ndarray, start: int) -> int | None:
    """Most tokens from `start` until nothing may follow, None where there is a way round in circles.

    Every state of an index leads on to an end, so every longest path stops in an accepting state. Kahn's topological order
    over the part that tokens reach.

    Args:
        begin, successors: of `shortest.token_graph`.
    """
    found = int(_longest(begin, successors, start))
    return None if found == _CYCLE else found


@njit(cache=True)
def _longest(begin, successors, start):
    states = begin.size - 1
    waiting = np.zeros(states, np.int64)  # edges from reached states that are not counted yet
    reached = np.zeros(states, np.bool_)
    queue = np.empty(states, np.int64)
    reached[start] = True
    queue[0] = start
    tail = 1
    head = 0
    while head < tail:
        for edge in range(begin[queue[head]], begin[queue[head] + 1]):
            target = successors[edge]
            waiting[target] += 1
            if not reached[target]:
                reached[target] = True
                queue[tail] = target
                tail += 1
        head += 1
    if waiting[start]:
        return _CYCLE
    length = np.zeros(states, np.int64)
    num_reached = tail
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        state = queue[head]
        head += 1
        for edge in range(begin[state], begin[state + 1]):
            target = successors[edge]
            length[target] = max(length[target], length[state] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                queue[tail] = target
                tail += 1
    return length.max() if tail == num_reached else _CYCLE
