"""Compiled inner loops of `TokenIndex`: which tokens a state allows, slice by slice.

The slow truth is one sentence: token t is allowed in state s if the automaton survives t's bytes from s. Here that
is decided for all tokens at once, slice by slice (see `guided.index.slices`).

A state with deep stacks is decided in two parts (see `guided.index.stack_tops`): its tops alone settle nearly all tokens, once for
all states that have them; the others are kept as ranges of nodes and walked with the whole stack.

A kernel that stops, for room or for a rule, notes how far it came and goes on there when it is called again for the same state.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton import kernels as automaton
from guided.automaton.kernels import ASKS, CONFIGS, DEAD, DONE, ESCAPES, FULL, expand, step
from guided.index.reach import ENDLESS, MIXED, reach
from guided.index.rows import (
    DENSE_COUNT,
    DENSE_ROWS,
    FILLED,
    LISTED,
    LISTS,
    NODE,
    OPEN,
    PART,
    STATE,
    TEXT,
    UNKNOWN,
    WANTED,
    intern_row,
)
from guided.index.slices import BYTE, DEPTH, LONG, NUM_SLICED, NUM_SLICES, PLAIN_UNICODE, SUBTREE_END, TOKEN_START

RANGES = NUM_SLICED  # column of Rows.notes: where in `lists` the nodes begin that only the whole stack decides, -1 = there are none


@njit(cache=True)
def _walk(network, machine, slices, rows, ranges, state, row):
    """Sets the bits of the tokens that survive from a state, among nodes ranges[0]..ranges[1] - 1, ranges[2]..ranges[3] - 1, ...

    Goes on at `rows.progress[NODE]`, if that is a node of the ranges.
    """
    path, nodes = rows.path, slices.nodes
    path[0] = state
    begun = rows.progress[NODE]
    for place in range(0, ranges.size, 2):
        node = np.int64(ranges[place])
        if begun >= 0:
            if begun >= ranges[place + 1]:
                continue
            node, begun = begun, np.int64(-1)
        while node < ranges[place + 1]:
            source = path[nodes[node, DEPTH]]
            byte_class = machine.class_of[nodes[node, BYTE]]
            target = machine.delta[source, byte_class]
            if target == automaton.UNKNOWN:
                status = step(network, machine, source, byte_class)  # mostly few bytes of a state are asked for
                if status != DONE:
                    rows.progress[NODE] = node
                    return status
                target = machine.delta[source, byte_class]
            if target == DEAD:
                node = np.int64(nodes[node, SUBTREE_END])
                continue
            path[nodes[node, DEPTH] + 1] = target
            for i in range(nodes[node, TOKEN_START], nodes[node + 1, TOKEN_START]):  # a view costs as much as the rest
                token = slices.token_ids[i]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            node += 1
    rows.progress[NODE] = -1
    return DONE


@njit(cache=True)
def _open_ranges(machine, slices, path, slice_, state, ranges):
    """The nodes of a slice that a walk from a state does not decide, for it escaped on the way: how many numbers were written.

    Written as `_walk` takes them, with the nodes above. -1 where they do not fit. To be called after that walk.
    """
    nodes = slices.nodes
    above = np.empty(path.size, np.int32)  # the nodes of the current branch
    escaped = np.empty(path.size, np.bool_)
    path[0] = state
    escaped[0] = machine.flags[state, ESCAPES] or machine.flags[state, ASKS]
    size = 0
    written = 0  # so many nodes of the branch are in the ranges
    node = slices.begin[slice_]
    while node < slices.begin[slice_ + 1]:
        depth = nodes[node, DEPTH]
        written = min(written, depth)
        target = machine.delta[path[depth], machine.class_of[nodes[node, BYTE]]]
        if target != DEAD:
            above[depth] = node
            path[depth + 1] = target
            escaped[depth + 1] = escaped[depth] or machine.flags[target, ESCAPES] or machine.flags[target, ASKS]
            node += 1
            continue
        if escaped[depth]:
            if size + 2 * (depth - written + 1) > ranges.size:
                return -1
            while written < depth:
                size = _add_range(ranges, size, above[written], above[written] + 1)
                written += 1
            size = _add_range(ranges, size, node, nodes[node, SUBTREE_END])
        node = nodes[node, SUBTREE_END]
    return size


@njit(cache=True)
def _add_range(ranges, size, begin, end):
    if size > 0 and ranges[size - 1] == begin:
        ranges[size - 1] = end
        return size
    ranges[size] = begin
    ranges[size + 1] = end
    return size + 2


@njit(cache=True)
def _free_row(rows):
    """Room for one more dense row is there; else what is wanted is noted."""
    if rows.counts[DENSE_COUNT] >= rows.dense.shape[0]:
        rows.counts[WANTED] = DENSE_ROWS
        return False
    return True


@njit(cache=True)
def _begun_row(rows, state):
    """The row of the state, which may be begun already, behind the last dense one; it begins anew where another was begun since."""
    row = rows.dense[rows.counts[DENSE_COUNT]]
    if rows.progress[STATE] != state:
        row[:] = 0
        rows.progress[STATE] = state
        rows.progress[PART] = 0
        rows.progress[NODE] = -1
        rows.progress[OPEN] = 0
        rows.progress[TEXT] = 0
    return row


@njit(cache=True)
def fill_row(network, machine, slices, steps, rows, state):
    """Computes and interns the row of a state, and the ranges that it leaves open; a status."""
    if rows.row_of[state] != UNKNOWN:
        return DONE
    if not _free_row(rows):
        return FULL
    row = _begun_row(rows, state)
    first = rows.counts[LISTED] + 1
    while rows.progress[PART] < NUM_SLICES:
        status = _fill_slice(network, machine, slices, steps, rows, rows.progress[PART], state, first, row)
        if status != DONE:
            return status
        rows.progress[PART] += 1
    open_size = rows.progress[OPEN]
    if open_size > 0:
        rows.lists[first - 1] = open_size
        rows.notes[state, RANGES] = first - 1
        rows.counts[LISTED] = first + open_size
    status = _enter_row(rows, state, row)
    if status != DONE:
        rows.counts[LISTED] = first - 1
    return status


@njit(cache=True)
def _fill_slice(network, machine, slices, steps, rows, slice_, state, first, row):
    """Sets the bits of a slice's tokens; writes what is left open behind the ranges at `first` in the lists. A status."""
    if rows.progress[NODE] < 0:
        if slice_ < NUM_SLICED:
            status, length = reach(network, machine, slices, steps, rows, slice_, state)
            if status != DONE:
                return status
            if slice_ == PLAIN_UNICODE:
                rows.progress[TEXT] = length == ENDLESS
            if length != MIXED:
                row |= slices.up_to[slice_, min(length, slices.longest[slice_])]
                return DONE
        elif slice_ == LONG and rows.progress[TEXT]:
            row |= slices.long
            return DONE
    status = _walk(network, machine, slices, rows, slices.begin[slice_ : slice_ + 2], state, row)
    if status == DONE and machine.counts[automaton.OPEN_ENDED]:
        begin = first + rows.progress[OPEN]
        size = _open_ranges(machine, slices, rows.path, slice_, state, rows.lists[begin:])
        if size < 0:
            rows.counts[WANTED] = LISTS
            rows.progress[STATE] = -1  # what was left open is lost when the lists move
            return FULL
        rows.progress[OPEN] += size
    return status


@njit(cache=True)
def complete_row(network, machine, slices, rows, state, known, ranges):
    """The row of a state whose tops allow the `known` tokens and leave `ranges` of nodes open; a status."""
    if not _free_row(rows):
        return FULL
    row = _begun_row(rows, state)
    row |= known
    status = _walk(network, machine, slices, rows, ranges, state, row)
    return _enter_row(rows, state, row) if status == DONE else status


@njit(cache=True)
def _enter_row(rows, state, row):
    rows.progress[STATE] = -1
    found = intern_row(rows, row)
    if found < 0:
        return FULL
    rows.row_of[state] = found
    return DONE


@njit(cache=True)
def set_bits(tokens, row):
    """Sets the bits of the tokens."""
    for token in tokens:
        row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)


@njit(cache=True)
def fill_all(network, machine, slices, steps, rows, limit):
    """Fills the rows of all states in order, discovering states on the way, up to state `limit`; a status."""
    while rows.counts[FILLED] < min(machine.counts[CONFIGS], limit):
        state = rows.counts[FILLED]
        status = expand(network, machine, state)
        if status == DONE:
            status = fill_row(network, machine, slices, steps, rows, state)
        if status != DONE:
            return status
        rows.counts[FILLED] += 1
    return DONE
