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

from guided.automaton.kernels import expand, intern_tops, step
from guided.automaton.machine import ASKS, CONFIGS, DEAD, DONE, ESCAPES, FULL, OPEN_ENDED
from guided.automaton.machine import UNKNOWN as NOT_KNOWN  # a transition; UNKNOWN is a row here
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
    add_row,
    intern_row,
)
from guided.index.slices import BYTE, DEPTH, LONG, NUM_SLICED, NUM_SLICES, PLAIN_UNICODE, SUBTREE_END, TOKEN_START

FEW_NODES = 4096  # that are walked sooner than new tops are filled
RANGES = NUM_SLICED  # column of Rows.notes: where in `lists` the nodes begin that only the whole stack decides, -1 = there are none


@njit(cache=True)
def _walk(network, machine, slices, rows, ranges, state, row):
    """Sets the bits of the tokens that survive from a state, among nodes ranges[0]..ranges[1] - 1, ranges[2]..ranges[3] - 1, ...

    Goes on at `rows.progress[NODE]`, if that is a node of the ranges.
    """
    path, nodes, token_ids = rows.path, slices.nodes, slices.token_ids
    delta, class_of = machine.delta, machine.class_of
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
            byte_class = class_of[nodes[node, BYTE]]
            target = delta[source, byte_class]
            if target == NOT_KNOWN:
                status = step(network, machine, source, byte_class)  # mostly few bytes of a state are asked for
                if status != DONE:
                    rows.progress[NODE] = node
                    return status
                target = delta[source, byte_class]
            if target == DEAD:
                node = np.int64(nodes[node, SUBTREE_END])
                continue
            path[nodes[node, DEPTH] + 1] = target
            for i in range(nodes[node, TOKEN_START], nodes[node + 1, TOKEN_START]):  # a view costs as much as the rest
                token = token_ids[i]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            node += 1
    rows.progress[NODE] = -1
    return DONE


@njit(cache=True)
def _open_ranges(machine, slices, path, walked, state, ranges):
    """Of walked ranges, the nodes that the walk from a state does not decide, for it escaped on the way: how many numbers were written.

    Written as `_walk` takes them, with the nodes above. -1 where they do not fit. To be called after that walk.
    """
    nodes, delta, class_of, flags = slices.nodes, machine.delta, machine.class_of, machine.flags
    above = np.empty(path.size, np.int32)  # the nodes of the current branch
    escaped = np.empty(path.size, np.bool_)
    path[0] = state
    escaped[0] = flags[state, ESCAPES] or flags[state, ASKS]
    size = 0
    written = 0  # so many nodes of the branch are in the ranges
    for place in range(0, walked.size, 2):
        node = walked[place]
        while node < walked[place + 1]:
            depth = nodes[node, DEPTH]
            written = min(written, depth)
            target = delta[path[depth], class_of[nodes[node, BYTE]]]
            if target != DEAD:
                above[depth] = node
                path[depth + 1] = target
                escaped[depth + 1] = escaped[depth] or flags[target, ESCAPES] or flags[target, ASKS]
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
def _live_ranges(network, machine, slices, slice_, state, ranges):
    """The nodes of a slice below first bytes that a state reads, all where it escapes: (status, how many numbers were written)."""
    if machine.flags[state, ESCAPES] or machine.flags[state, ASKS]:
        return DONE, _add_range(ranges, 0, slices.begin[slice_], slices.begin[slice_ + 1])
    size = 0
    for place in range(slices.first_begin[slice_], slices.first_begin[slice_ + 1]):
        byte_class = machine.class_of[slices.first[place, 1]]
        if machine.delta[state, byte_class] == NOT_KNOWN:
            status = step(network, machine, state, byte_class)
            if status != DONE:
                return status, 0
        if machine.delta[state, byte_class] != DEAD:
            node = slices.first[place, 0]
            size = _add_range(ranges, size, node, slices.nodes[node, SUBTREE_END])
    return DONE, size


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
    status, size = _live_ranges(network, machine, slices, slice_, state, rows.live)
    if status != DONE:
        return status
    walked = rows.live[:size]
    status = _walk(network, machine, slices, rows, walked, state, row)
    if status == DONE and machine.counts[OPEN_ENDED]:
        begin = first + rows.progress[OPEN]
        size = _open_ranges(machine, slices, rows.path, walked, state, rows.lists[begin:])
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
def look_at_tops(whole, network, tops_machine, slices, steps, tops_rows, state):
    """The tops of a state of the machine `whole`, with their row: (status, tops; DEAD if they are all that there is).

    First with nothing known of the stacks that the innermost rule was called with; only if that leaves much open, with their tops.
    """
    tops = np.int64(DEAD)
    for without_base in (True, False):
        status, tops = intern_tops(whole, state, without_base, tops_machine)
        if status != DONE or tops == DEAD:
            break
        status = fill_row(network, tops_machine, slices, steps, tops_rows, tops)
        if status != DONE or not _leaves_much_open(tops_rows, tops):
            break
    return status, tops


@njit(cache=True)
def _leaves_much_open(rows, tops):
    """Are there more nodes to walk than new tops cost?"""
    ranges = _ranges_of(rows, tops)
    nodes = 0
    for place in range(0, ranges.size, 2):
        nodes += ranges[place + 1] - ranges[place]
    return nodes > FEW_NODES


@njit(cache=True)
def _ranges_of(rows, tops):
    """What the row of a state leaves open, as `_walk` takes it."""
    begin = max(rows.notes[tops, RANGES], 0)
    size = 0 if rows.notes[tops, RANGES] == UNKNOWN else rows.lists[begin]
    return rows.lists[begin + 1 : begin + 1 + size]


@njit(cache=True)
def fill_by_tops(whole, rows, network, tops_machine, slices, steps, tops_rows, state):
    """Computes the row of a state of the machine `whole` by its tops, if there is more to its stacks: (status, is it of the tops?)."""
    status, tops = look_at_tops(whole, network, tops_machine, slices, steps, tops_rows, state)
    if status != DONE:
        return status, True
    if tops == DEAD:
        return fill_row(network, whole, slices, steps, rows, state), False
    if not _free_row(rows):
        return FULL, False
    row = _begun_row(rows, state)
    add_row(tops_rows, tops_rows.row_of[tops], row)
    status = _walk(network, whole, slices, rows, _ranges_of(tops_rows, tops), state, row)
    return (_enter_row(rows, state, row) if status == DONE else status), False


@njit(cache=True)
def _enter_row(rows, state, row):
    rows.progress[STATE] = -1
    found = intern_row(rows, row)
    if found < 0:
        return FULL
    rows.row_of[state] = found
    return DONE


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
