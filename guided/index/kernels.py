"""Compiled inner loops of `TokenIndex`: which tokens a state allows, as packed rows, equal rows stored once.

The slow truth is one sentence: token t is allowed in state s if the automaton survives t's bytes from s. Here that
is decided for all tokens at once, slice by slice (see `guided.index.slices`).

A state with deep stacks is decided in two parts (see `guided.index.stack_tops`): its tops alone settle nearly all tokens, once for
all states that have them; the others are kept as ranges of nodes and walked with the whole stack.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton import kernels as automaton
from guided.automaton.kernels import CONFIGS, DEAD, DONE, ESCAPES, EXPANDED, FULL, expand, step
from guided.index.slices import BYTE, DEPTH, NUM_SLICED, SUBTREE_END, TOKEN_START

UNKNOWN = -1
ROW_COUNT, DENSE_COUNT, LISTED, FILLED, WANTED = range(5)  # slots of Rows.counts; FILLED: states done by fill_all
NOTHING, ROWS, DENSE_ROWS, LISTS = range(4)  # Rows.counts[WANTED]: what a kernel that stopped needs more of
LONGEST_LIST = 128  # tokens; a row with more is kept as bits
MIXED = -1  # some characters of a profile lead on, others do not
FRONTIER = 64  # states that one character of a profile may lead to; beyond that the slice is walked
REACHED = 256  # states that strings of a profile may lead to; beyond that the slice is walked
_NOT_READ, _ALL_DIE, _MIXED_CHARS, _SEVERAL = -1, -2, -3, -4  # in Rows.notes
RANGES = NUM_SLICED  # column of Rows.notes: where in `lists` the nodes begin that only the whole stack decides, -1 = there are none


class Rows(NamedTuple):
    """Rows of allowed tokens, interned: short ones as token lists, the others as packed bits."""

    counts: np.ndarray  # int64[5]: ROW_COUNT, DENSE_COUNT, LISTED (used part of lists), FILLED, WANTED
    row_of: np.ndarray  # int32[states]: row of a state, UNKNOWN = not computed yet
    place: np.ndarray  # int64[rows]: number of the dense row, or -1 - (where its list begins)
    dense: np.ndarray  # uint32[dense rows, words]: bit t % 32 of word t // 32 set = token t is allowed
    lists: np.ndarray  # int32[tokens]: each list is its length, then the tokens in ascending order
    row_hash: np.ndarray  # uint64[rows]
    table: np.ndarray  # int32[2^k]: hash table of row ids
    notes: (
        np.ndarray
    )  # int32[states, NUM_SLICED + 1]: the state after any character of each profile, or why none; RANGES


class CharSteps(NamedTuple):
    """How to read one character of a profile, in terms of the automaton's present byte classes."""

    ascii_classes: np.ndarray  # int16[NUM_SLICED, 128]: distinct classes of the profile's ASCII characters
    ascii_count: np.ndarray  # int64[NUM_SLICED]
    range_classes: np.ndarray  # int16[ranges, 128]: distinct classes of the byte ranges of UTF-8
    range_count: np.ndarray  # int64[ranges]


# The well-formed byte sequences beyond ASCII (Unicode standard, table 3-7), as indices into UTF8_RANGES; -1 ends one.
UTF8_RANGES = ((0x80, 0xBF), (0xC2, 0xDF), (0xE0, 0xE0), (0xA0, 0xBF), (0xE1, 0xEC), (0xEE, 0xEF), (0xED, 0xED), (0x80, 0x9F),
               (0xF0, 0xF0), (0x90, 0xBF), (0xF1, 0xF3), (0xF4, 0xF4), (0x80, 0x8F))  # fmt: skip
UTF8_SEQUENCES = np.array(
    [
        [1, 0, -1, -1],
        [2, 3, 0, -1],
        [4, 0, 0, -1],
        [5, 0, 0, -1],
        [6, 7, 0, -1],
        [8, 9, 0, 0],
        [10, 0, 0, 0],
        [11, 12, 0, 0],
    ],
    np.int64,
)


@njit(cache=True)
def char_steps(class_of, profile, ranges):
    """CharSteps for the present byte classes."""
    ascii_classes = np.zeros((NUM_SLICED, 128), np.int16)
    ascii_count = np.zeros(NUM_SLICED, np.int64)
    for slice_ in range(NUM_SLICED):
        seen = np.zeros(256, np.uint8)
        for byte in range(128):
            if profile[slice_, byte] and not seen[class_of[byte]]:
                seen[class_of[byte]] = 1
                ascii_classes[slice_, ascii_count[slice_]] = class_of[byte]
                ascii_count[slice_] += 1
    range_classes = np.zeros((ranges.shape[0], 128), np.int16)
    range_count = np.zeros(ranges.shape[0], np.int64)
    for index in range(ranges.shape[0]):
        seen = np.zeros(256, np.uint8)
        for byte in range(ranges[index, 0], ranges[index, 1] + 1):
            if not seen[class_of[byte]]:
                seen[class_of[byte]] = 1
                range_classes[index, range_count[index]] = class_of[byte]
                range_count[index] += 1
    return CharSteps(ascii_classes, ascii_count, range_classes, range_count)


@njit(cache=True)
def _move_all(delta, sources, num_sources, classes, num_classes, targets, num_targets):
    """Adds to targets where any class leads from any source: (targets or MIXED, some dead, some alive)."""
    dead = alive = False
    for i in range(num_sources):
        for c in range(num_classes):
            target = delta[sources[i], classes[c]]
            if target == DEAD:
                dead = True
            else:
                alive = True
                num_targets = insert(targets, num_targets, target)
            if num_targets == MIXED or (dead and alive):
                return MIXED, dead, alive
    return num_targets, dead, alive


@njit(cache=True)
def insert(states, count, state):
    """Adds a state to a small set; the new size, or MIXED when it is no longer small."""
    if _position(states, count, state) < count:
        return count
    if count == states.size:
        return MIXED
    states[count] = state
    return count + 1


@njit(cache=True)
def _position(states, count, state):
    """Where a state is among the first `count`, or count."""
    for i in range(count):
        if states[i] == state:
            return i
    return count


@njit(cache=True)
def _read_character(network, machine, steps, slice_, unicode, state, following):
    """One character of the profile from a state: (status, size of the set of following states, 0 if all die, MIXED)."""
    here = np.empty(FRONTIER, np.int32)
    there = np.empty(FRONTIER, np.int32)
    here[0] = state
    status = expand(network, machine, state)
    if status != DONE or machine.flags[state, ESCAPES]:
        return status, MIXED
    count, dead, alive = _move_all(
        machine.delta, here, 1, steps.ascii_classes[slice_], steps.ascii_count[slice_], following, 0
    )
    if count == MIXED or not unicode:
        return DONE, count
    for sequence in range(UTF8_SEQUENCES.shape[0]):
        here[0] = state
        here_size = 1
        for place in range(UTF8_SEQUENCES.shape[1]):
            byte_range = UTF8_SEQUENCES[sequence, place]
            if byte_range < 0:
                break
            for i in range(here_size):
                if not machine.flags[here[i], EXPANDED]:  # a call costs more than this test: it passes every array
                    status = expand(network, machine, here[i])
                    if status != DONE:
                        return status, MIXED
                if machine.flags[here[i], ESCAPES]:
                    return DONE, MIXED
            classes = steps.range_classes[byte_range]
            here_size, died, lived = _move_all(
                machine.delta, here, here_size, classes, steps.range_count[byte_range], there, 0
            )
            dead, alive = dead or died, alive or lived
            if here_size == MIXED or (dead and alive):
                return DONE, MIXED
            here, there = there, here
        for i in range(here_size):
            count = insert(following, count, here[i])
            if count == MIXED:
                return DONE, MIXED
    return DONE, count


@njit(cache=True)
def after_character(network, machine, slices, steps, rows, slice_, state, following):
    """`_read_character`, remembered in `Rows.notes` as far as there is room."""
    known = rows.notes[state, slice_]
    if known >= 0:
        following[0] = known
        return DONE, 1
    if known == _ALL_DIE:
        return DONE, 0
    if known == _MIXED_CHARS:
        return DONE, MIXED
    status, size = _read_character(network, machine, steps, slice_, slices.unicode[slice_], state, following)
    if status == DONE:
        result = _SEVERAL
        if size == MIXED:
            result = _MIXED_CHARS
        elif size == 0:
            result = _ALL_DIE
        elif size == 1:
            result = following[0]
        rows.notes[state, slice_] = result
    return status, size


@njit(cache=True)
def _reach(network, machine, slices, steps, rows, slice_, state):
    """How many characters of the profile can be read from a state, any of them each time: (status, count or MIXED).

    The count is exact: no string of the profile with one character more survives, unless it is the slice's longest.
    """
    longest = slices.longest[slice_]
    following = np.empty(FRONTIER, np.int32)
    for done in range(longest):
        if rows.notes[state, slice_] == _NOT_READ:
            status, _ = after_character(network, machine, slices, steps, rows, slice_, state, following)
            if status != DONE:
                return status, MIXED
        target = rows.notes[state, slice_]
        if target == _MIXED_CHARS:
            return DONE, MIXED
        if target == _ALL_DIE:
            return DONE, done
        if target == _SEVERAL:
            return _reach_many(network, machine, slices, steps, rows, slice_, state, done)
        if target == state:
            break
        state = target
    return DONE, longest


@njit(cache=True)
def _reach_many(network, machine, slices, steps, rows, slice_, state, done_before):
    """`_reach` from a state `done_before` characters on, from where characters lead to different states.

    Breadth first, each state once: a dead end behind a state that was met before would have been met before.
    """
    reached = np.empty(REACHED, np.int32)
    reached[0] = state
    size, level_begin = 1, 0
    again = False  # the present level has states of earlier levels too, which do not die
    following = np.empty(FRONTIER, np.int32)
    for done in range(done_before, slices.longest[slice_]):
        level_end = size
        dying = 0
        again_below = False
        for i in range(level_begin, level_end):
            status, count = after_character(network, machine, slices, steps, rows, slice_, reached[i], following)
            if status != DONE or count == MIXED:
                return status, MIXED
            dying += count == 0
            for j in range(count):
                grown = insert(reached, size, following[j])
                if grown == MIXED:
                    return DONE, MIXED
                again_below = again_below or _position(reached, level_end, following[j]) < level_end
                size = grown
        if dying > 0:
            return DONE, (done if dying == level_end - level_begin and not again else MIXED)
        again = again_below
        if size == level_end:
            break
        level_begin = level_end
    return DONE, slices.longest[slice_]


@njit(cache=True)
def _walk(network, machine, slices, ranges, state, row):
    """Sets the bits of the tokens that survive from a state, among nodes ranges[0]..ranges[1] - 1, ranges[2]..ranges[3] - 1, ..."""
    path, nodes = slices.path, slices.nodes
    path[0] = state
    for place in range(0, ranges.size, 2):
        node = ranges[place]
        while node < ranges[place + 1]:
            source = path[nodes[node, DEPTH]]
            byte_class = machine.class_of[nodes[node, BYTE]]
            target = machine.delta[source, byte_class]
            if target == automaton.UNKNOWN:
                status = step(network, machine, source, byte_class)  # mostly few bytes of a state are asked for
                if status != DONE:
                    return status
                target = machine.delta[source, byte_class]
            if target == DEAD:
                node = nodes[node, SUBTREE_END]
                continue
            path[nodes[node, DEPTH] + 1] = target
            for i in range(nodes[node, TOKEN_START], nodes[node + 1, TOKEN_START]):  # a view costs as much as the rest
                token = slices.token_ids[i]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            node += 1
    return DONE


@njit(cache=True)
def _open_ranges(machine, slices, slice_, state, ranges):
    """The nodes of a slice that a walk from a state does not decide, for it escaped on the way: how many numbers were written.

    Written as `_walk` takes them, with the nodes above. -1 where they do not fit. To be called after that walk.
    """
    path, nodes = slices.path, slices.nodes
    above = np.empty(path.size, np.int32)  # the nodes of the current branch
    escaped = np.empty(path.size, np.bool_)
    path[0] = state
    escaped[0] = machine.flags[state, ESCAPES]
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
            escaped[depth + 1] = escaped[depth] or machine.flags[target, ESCAPES]
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
def fill_row(network, machine, slices, steps, rows, state):
    """Computes and interns the row of a state, and the ranges that it leaves open; a status."""
    if rows.row_of[state] != UNKNOWN:
        return DONE
    if not _free_row(rows):
        return FULL
    row = rows.dense[rows.counts[DENSE_COUNT]]
    row[:] = 0
    open_size = 0
    first = rows.counts[LISTED] + 1
    for slice_ in range(NUM_SLICED + 1):
        status, reach = DONE, MIXED
        if slice_ < NUM_SLICED:
            status, reach = _reach(network, machine, slices, steps, rows, slice_, state)
        if status == DONE and reach == MIXED:
            status = _walk(network, machine, slices, slices.begin[slice_ : slice_ + 2], state, row)
            if status == DONE and machine.counts[automaton.OPEN_ENDED]:
                size = _open_ranges(machine, slices, slice_, state, rows.lists[first + open_size :])
                if size < 0:
                    rows.counts[WANTED] = LISTS
                    return FULL
                open_size += size
        elif status == DONE and reach > 0:
            row |= slices.up_to[slice_, reach]
        if status != DONE:
            return status
    if open_size > 0:
        rows.lists[first - 1] = open_size
        rows.notes[state, RANGES] = first - 1
        rows.counts[LISTED] = first + open_size
    status = _enter_row(rows, state, row)
    if status != DONE:
        rows.counts[LISTED] = first - 1
    return status


@njit(cache=True)
def complete_row(network, machine, slices, rows, state, known, ranges):
    """The row of a state whose tops allow the `known` tokens and leave `ranges` of nodes open; a status."""
    if not _free_row(rows):
        return FULL
    row = rows.dense[rows.counts[DENSE_COUNT]]
    row[:] = known
    status = _walk(network, machine, slices, ranges, state, row)
    return _enter_row(rows, state, row) if status == DONE else status


@njit(cache=True)
def _enter_row(rows, state, row):
    found = intern_row(rows, row)
    if found < 0:
        return FULL
    rows.row_of[state] = found
    return DONE


@njit(cache=True)
def _row_hash(row):
    """FNV-1a over words in four lanes, which the processor runs side by side."""
    prime = np.uint64(0x100000001B3)
    a = b = c = d = np.uint64(0xCBF29CE484222325)
    whole = row.size - row.size % 4
    for i in range(0, whole, 4):
        a = (a ^ np.uint64(row[i])) * prime
        b = (b ^ np.uint64(row[i + 1])) * prime
        c = (c ^ np.uint64(row[i + 2])) * prime
        d = (d ^ np.uint64(row[i + 3])) * prime
    for i in range(whole, row.size):
        a = (a ^ np.uint64(row[i])) * prime
    digest = (((a * prime ^ b) * prime ^ c) * prime ^ d) * prime
    return digest ^ (digest >> np.uint64(29))


@njit(cache=True)
def _list_tokens(row, tokens):
    """Writes the tokens of a row into `tokens`, as far as they fit; how many the row has, or one more than fit."""
    count = 0
    for word in range(row.size):
        bits = row[word]
        while bits != 0:
            if count == tokens.size:
                return count + 1
            lowest = bits & (~bits + np.uint32(1))
            tokens[count] = word * 32 + _bit_number(lowest)
            count += 1
            bits ^= lowest
    return count


@njit(cache=True)
def _bit_number(single):
    number = 0
    while single > 1:
        single >>= np.uint32(1)
        number += 1
    return number


@njit(cache=True)
def _same_row(rows, known, row, tokens, count):
    place = rows.place[known]
    if place >= 0:
        other = rows.dense[place]
        for i in range(row.size):
            if other[i] != row[i]:
                return False
        return True
    begin = -1 - place
    if rows.lists[begin] != count:
        return False
    for i in range(count):
        if rows.lists[begin + 1 + i] != tokens[i]:
            return False
    return True


@njit(cache=True)
def intern_row(rows, row):
    """The id of a row that was written behind the last dense one, kept there only if it is new and long; -1: no room."""
    tokens = np.empty(LONGEST_LIST, np.int32)
    count = _list_tokens(row, tokens)
    digest = _row_hash(row)
    mask = rows.table.size - 1
    slot = np.int64(digest & np.uint64(mask))
    while rows.table[slot] >= 0:
        known = rows.table[slot]
        if rows.row_hash[known] == digest and _same_row(rows, known, row, tokens, count):
            return known
        slot = (slot + 1) & mask
    new = rows.counts[ROW_COUNT]
    if new >= rows.place.size:
        rows.counts[WANTED] = ROWS
        return -1
    if count > LONGEST_LIST:
        rows.place[new] = rows.counts[DENSE_COUNT]
        rows.counts[DENSE_COUNT] += 1
    else:
        begin = rows.counts[LISTED]
        if begin + 1 + count > rows.lists.size:
            rows.counts[WANTED] = LISTS
            return -1
        rows.place[new] = -1 - begin
        rows.lists[begin] = count
        rows.lists[begin + 1 : begin + 1 + count] = tokens[:count]
        rows.counts[LISTED] = begin + 1 + count
    rows.table[slot] = new
    rows.row_hash[new] = digest
    rows.counts[ROW_COUNT] = new + 1
    return new


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
