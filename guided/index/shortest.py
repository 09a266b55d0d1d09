"""Where one token leads from a state, and for all states of a closed index the fewest tokens to an accepting one; knows no network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from guided.automaton.kernels import step
from guided.automaton.machine import ACCEPTING, CONFIGS, DEAD, DONE, UNKNOWN
from guided.index.reach import FRONTIER, MIXED, after_character, insert
from guided.index.slices import BYTE, DEPTH, NUM_SLICED, NUM_SLICES, SUBTREE_END, TOKEN_START

UNREACHABLE = np.iinfo(np.int32).max
_CHUNK = 512  # states between two looks at the clock


def shortest_completions(network, machine, slices, steps, rows, check: Callable[[int], None]) -> np.ndarray:
    """int32[states]: fewest tokens to an accepting state, 0 in one, UNREACHABLE where the vocabulary cannot spell an end.

    Breadth first from the accepting states over reversed token transitions. Arguments as for `token_graph`.
    """
    begin, successors = token_graph(network, machine, slices, steps, rows, check)
    return _breadth_first(begin, successors, machine.flags[: len(begin) - 1, ACCEPTING].copy())


def token_graph(network, machine, slices, steps, rows, check: Callable[[int], None]) -> tuple[np.ndarray, np.ndarray]:
    """(int64[states + 1] begin, int32[] successors): one token leads from s to successors[begin[s]:begin[s + 1]], to no other state.

    Moves to dead ends are among them, which the rows may leave out.

    Arguments as for `guided.index.kernels.fill_row`; `check` is called with the bytes in use now and then, and may raise.
    """
    states = int(machine.counts[CONFIGS])
    begin = np.zeros(states + 1, np.int64)
    successors = np.empty(4 * states, np.int32)
    seen = np.full(states, -1, np.int32)
    done = 0
    while done < states:
        check(successors.nbytes)
        limit = min(done + _CHUNK, states)
        done = _successors(network, machine, slices, steps, rows, begin, successors, seen, done, limit)
        if done < limit:
            successors = np.concatenate([successors, np.empty_like(successors)])
    return begin, successors


@njit(cache=True)
def _successors(network, machine, slices, steps, rows, begin, successors, seen, state, limit):
    """Appends the distinct successors of state, ..., limit - 1 while there is room; the first state not done."""
    states = seen.size
    while state < limit and begin[state] + states <= successors.size:
        _, count = add_successors(
            network, machine, slices, steps, rows, state, True, successors, seen, state, begin[state]
        )
        state += 1
        begin[state] = count
    return state


@njit(cache=True)
def add_successors(network, machine, slices, steps, rows, state, exact, successors, seen, stamp, count):
    """Appends the distinct states after one token from a state whose row was filled: (status, how many there are now).

    A slice whose characters all lead on is not walked: its tokens count by their length.

    Args:
        exact: where strings of one length lead to different states, the slice is walked, for its tokens may spell none of those to
            some of them. Else all of these states are appended: soon found, never too few.
        successors: int32[] with room for every state.
        seen: int32[states]: `stamp` where a state was appended.
    """
    for slice_ in range(NUM_SLICES):
        status, found = DONE, MIXED
        if slice_ < NUM_SLICED:
            status, found = _slice_successors(
                network, machine, slices, steps, rows, slice_, state, exact, successors, seen, stamp, count
            )
        if status != DONE:
            return status, count
        if found == MIXED:
            ranges = slices.begin[slice_ : slice_ + 2]
            status, found = add_range_successors(
                network, machine, slices, rows.path, ranges, state, successors, seen, stamp, count
            )
            if status != DONE:
                return status, count
        count = found
    return DONE, count


@njit(cache=True)
def _slice_successors(network, machine, slices, steps, rows, slice_, state, exact, successors, seen, stamp, count):
    """Where the tokens of a slice lead, length by length: (status, how many there are now, MIXED if it must be walked)."""
    here = np.empty(FRONTIER, np.int32)
    there = np.empty(FRONTIER, np.int32)
    following = np.empty(FRONTIER, np.int32)
    here[0] = state
    size = 1
    first = count
    for length in range(1, slices.longest[slice_] + 1):
        grown = dying = 0
        for i in range(size):
            status, found = after_character(network, machine, slices, steps, rows, slice_, here[i], following)
            if status != DONE:
                return status, MIXED
            dying += found == 0
            for j in range(found):
                grown = insert(there, grown, following[j])
                if grown == MIXED:
                    return DONE, _take_back(successors, seen, first, count)
            if found == MIXED or (dying > 0 and grown > 0):
                return DONE, _take_back(successors, seen, first, count)
        if grown == 0:
            break
        here, there, size = there, here, grown
        if slices.has_length[slice_, length]:
            if exact and size > 1:
                return DONE, _take_back(successors, seen, first, count)
            for i in range(size):
                count = _add(successors, seen, stamp, count, here[i])
    return DONE, count


@njit(cache=True)
def _take_back(successors, seen, first, count):
    """Forgets the states appended from `first` on, so that the walk may append them; MIXED."""
    for i in range(first, count):
        seen[successors[i]] = -1
    return MIXED


@njit(cache=True)
def _add(successors, seen, stamp, count, target):
    if seen[target] != stamp:
        seen[target] = stamp
        successors[count] = target
        count += 1
    return count


@njit(cache=True)
def add_range_successors(network, machine, slices, path, ranges, state, successors, seen, stamp, count):
    """`add_successors` for the tokens of ranges of nodes, as `kernels._walk` takes them."""
    nodes = slices.nodes
    path[0] = state
    for place in range(0, ranges.size, 2):
        node = ranges[place]
        while node < ranges[place + 1]:
            source, byte_class = path[nodes[node, DEPTH]], machine.class_of[nodes[node, BYTE]]
            if (
                machine.delta[source, byte_class] == UNKNOWN
            ):  # a row whose state reads any text was found without a walk
                status = step(network, machine, source, byte_class)
                if status != DONE:
                    return status, count
            target = machine.delta[source, byte_class]
            if target == DEAD:
                node = nodes[node, SUBTREE_END]
                continue
            path[nodes[node, DEPTH] + 1] = target
            if nodes[node, TOKEN_START] < nodes[node + 1, TOKEN_START]:
                count = _add(successors, seen, stamp, count, target)
            node += 1
    return DONE, count


@njit(cache=True)
def _breadth_first(begin, successors, accepting):
    """Distances by relaxing whole levels: level k + 1 is every state with a successor in level k."""
    states = accepting.size
    distance = np.full(states, UNREACHABLE, np.int32)
    for state in range(states):
        if accepting[state]:
            distance[state] = 0
    predecessors_begin, predecessors = _reverse(begin, successors, states)
    queue = np.empty(states, np.int32)
    head = tail = 0
    for state in range(states):
        if accepting[state]:
            queue[tail] = state
            tail += 1
    while head < tail:
        state = queue[head]
        head += 1
        for i in range(predecessors_begin[state], predecessors_begin[state + 1]):
            source = predecessors[i]
            if distance[source] == UNREACHABLE:
                distance[source] = distance[state] + 1
                queue[tail] = source
                tail += 1
    return distance


@njit(cache=True)
def _reverse(begin, successors, states):
    """The reversed graph in the same form."""
    reversed_begin = np.zeros(states + 1, np.int64)
    for i in range(begin[states]):
        reversed_begin[successors[i] + 1] += 1
    for state in range(states):
        reversed_begin[state + 1] += reversed_begin[state]
    fill = reversed_begin[:-1].copy()
    predecessors = np.empty(begin[states], np.int32)
    for state in range(states):
        for i in range(begin[state], begin[state + 1]):
            target = successors[i]
            predecessors[fill[target]] = state
            fill[target] += 1
    return reversed_begin, predecessors
