"""How many characters of a profile a state can read, any of them each time: then no token of so many needs a walk.

A state from which all strings of a profile can be read for ever is remembered as such, with all the states that are met on the way:
the names of an object's properties, of which any other may stand in their place, are looked at once and not from each of their prefixes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton.kernels import expand
from guided.automaton.machine import ASKS, DEAD, DONE, ESCAPES, EXPANDED, TEXT
from guided.automaton.packed import packed
from guided.index.rows import VISITS
from guided.index.slices import NUM_SLICED, QUOTED

MIXED = -1  # some characters of a profile lead on, others do not
ENDLESS = 1 << 20  # so many characters can be read, and more
FRONTIER = 128  # states that one character of a profile may lead to; beyond that the slice is walked
REACHED = 1024  # states that strings of a profile may lead to; beyond that the slice is walked
_NOT_READ, _ALL_DIE, _MIXED_CHARS, _SEVERAL, READS_ALL = -1, -2, -3, -4, -5  # in Rows.notes


@packed
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
    if status != DONE or machine.flags[state, ESCAPES] or machine.flags[state, ASKS]:
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
                if machine.flags[here[i], ESCAPES] or machine.flags[here[i], ASKS]:
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
    if status == DONE and known != READS_ALL:
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
def _reads_text(network, machine, state):
    """Has the configuration an item that reads any text? Then nothing of it needs to be looked at."""
    for item in range(machine.config_begin[state], machine.config_begin[state + 1]):
        if network.states[machine.items[item, 0], TEXT]:
            return True
    return False


@njit(cache=True)
def reach(network, machine, slices, steps, rows, slice_, state):
    """How many characters of the profile can be read from a state, any of them each time: (status, count, ENDLESS or MIXED).

    The count is exact: no string of the profile with one character more survives, unless it is the slice's longest.
    """
    if _reads_text(network, machine, state):
        return DONE, MIXED if slice_ == QUOTED else ENDLESS
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
        if target in (state, READS_ALL):
            return DONE, ENDLESS
        state = target
    return DONE, longest


@njit(cache=True)
def _reach_many(network, machine, slices, steps, rows, slice_, state, done_before):
    """`reach` from a state `done_before` characters on, from where characters lead to different states.

    Breadth first, each state once: a dead end behind a state that was met before would have been met before. What comes out mixed is
    noted so, for the states that were met too where they are many: a walk is always right.
    """
    reached = np.empty(REACHED, np.int32)
    reached[0] = state
    size, level_begin = 1, 0
    first = rows.counts[VISITS] + 1  # visits from here on are of this search, each level has a number of its own
    rows.counts[VISITS] = first
    rows.visited[state] = first
    circles = (
        False  # a state of an earlier level is met again, or one that reads everything: what comes after never dies
    )
    following = np.empty(FRONTIER, np.int32)
    for done in range(done_before, slices.longest[slice_]):
        level_end = size
        rows.counts[VISITS] += 1
        level = rows.counts[VISITS]
        dying = 0
        circles_below = circles
        for i in range(level_begin, level_end):
            if rows.notes[reached[i], slice_] == READS_ALL:
                circles = circles_below = True
                continue
            status, count = after_character(network, machine, slices, steps, rows, slice_, reached[i], following)
            if status != DONE:
                return status, MIXED
            if count == MIXED:
                return DONE, _mixed(rows, slice_, reached, 1)
            dying += count == 0
            for j in range(count):
                target = following[j]
                if rows.visited[target] >= first:
                    circles_below = circles_below or rows.visited[target] < level
                    continue
                if size == REACHED:
                    return DONE, _mixed(rows, slice_, reached, size)
                rows.visited[target] = level
                reached[size] = target
                size += 1
        if dying > 0:
            all_die = dying == level_end - level_begin and not circles
            return DONE, (done if all_die else _mixed(rows, slice_, reached, 1))
        circles = circles_below
        if size == level_end:
            for i in range(size):
                if rows.notes[reached[i], slice_] == _SEVERAL:
                    rows.notes[reached[i], slice_] = READS_ALL
            return DONE, ENDLESS
        level_begin = level_end
    return DONE, slices.longest[slice_]


@njit(cache=True)
def _mixed(rows, slice_, states, count):
    """Notes that these states are to be walked."""
    for i in range(count):
        if rows.notes[states[i], slice_] == _SEVERAL:
            rows.notes[states[i], slice_] = _MIXED_CHARS
    return MIXED
