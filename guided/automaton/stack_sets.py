"""Compiled operations on sets of return stacks: interned, so that equal sets are one number; knows no network.

The items of a configuration that share a network state differ only in their stacks, of which an ambiguous grammar makes
exponentially many. Kept as a set, they share what they share: a set is a sorted list of cells (return state on top, set of the
stacks below it, the rest of the list), hash-consed, so it is the minimal automaton of its stacks, of which there are regularly
many (Büchi, "Regular canonical systems", 1964; Tomita's graph-structured stack, 1985, brought to a normal form). Union is the
recursive merge of decision diagrams (Bryant, 1986), here without recursion, since stacks are as deep as the output is nested.

A list ends in one of four sets: no stack, the empty stack, any stacks whatsoever (what `tops` puts below the first return state), or
both of these.

A negative top is a *mark*: it notes where a value began in the text that is being remembered. That text is kept in cells too, one
for each byte: the class of the byte, what was read before, and nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NO_STACK, EMPTY_STACK, ANY_STACKS = 0, 1, 2  # bits: a list ends in one of the sets 0..3
FIRST_CELL = 4
# Columns of Machine.stacks; MARKED: a mark is in one of the stacks; of a text, how many bytes it has.
TOP, BELOW, REST, MARKED = range(4)
STACKS, FRAMES, UNIONS = 0, 9, 12  # slot of Machine.counts: cells used; arrays that a union may find too small
FULL_ARRAY = 8  # slot of Machine.counts
NO_TEXT, EMPTY_TEXT = 0, 1  # nothing is remembered; it begins here. Longer texts are cells
# Tops from there downwards: of marks by their place, of texts by the class of a byte.
FIRST_MARK, FIRST_LETTER = -1, -(1 << 30)
NO_ROOM = -1
_UNKNOWN = -2
_STEPS_PER_UNION = 4
_FRAME_LEFT, _FRAME_RIGHT, _FRAME_STAGE, _FRAME_BELOW = range(4)  # columns of Machine.frames


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")
def mix(value):
    """Finaliser of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")
def _hash(top, below, rest):
    return mix(((np.uint64(top) << np.uint64(32)) | np.uint64(below)) + mix(np.uint64(rest)))


@njit(cache=True)
def cell(machine, top, below, rest):
    """The set of `top` on each stack of `below`, and of the stacks of `rest`, whose tops are larger; or NO_ROOM."""
    mask = machine.stack_table.size - 1
    slot = np.int64(_hash(top, below, rest) & np.uint64(mask))
    while machine.stack_table[slot] >= 0:
        found = machine.stack_table[slot]
        if (
            machine.stacks[found, TOP] == top
            and machine.stacks[found, BELOW] == below
            and machine.stacks[found, REST] == rest
        ):
            return np.int64(found)
        slot = (slot + 1) & mask
    new = machine.counts[STACKS]
    if new >= machine.stacks.shape[0]:
        machine.counts[FULL_ARRAY] = STACKS
        return np.int64(NO_ROOM)
    machine.stacks[new, TOP] = top
    machine.stacks[new, BELOW] = below
    machine.stacks[new, REST] = rest
    machine.stacks[new, MARKED] = _marked(machine, top, below, rest)
    machine.stack_table[slot] = new
    machine.counts[STACKS] = new + 1
    return new


@njit(cache=True)
def _marked(machine, top, below, rest):
    if top <= FIRST_LETTER:
        return np.int64(machine.stacks[below, MARKED]) + 1
    marked = top <= FIRST_MARK or machine.stacks[below, MARKED] > 0 or machine.stacks[rest, MARKED] > 0
    return np.int64(1 if marked else 0)


@njit(cache=True)
def mark(machine, text, stacks):
    """A mark on each stack of a set: a value begins behind the text."""
    return cell(machine, FIRST_MARK - machine.stacks[text, MARKED], stacks, NO_STACK)


@njit(cache=True)
def longer_text(machine, text, byte_class):
    """The text and one more byte; NO_ROOM where it does not fit."""
    return cell(machine, FIRST_LETTER - byte_class, text, NO_STACK)


@njit(cache=True)
def union(machine, left, right):
    """The stacks of both sets; NO_ROOM where it does not fit."""
    depth = 0
    steps = 0
    while True:
        value = _known_union(machine, left, right)
        if value == _UNKNOWN:
            steps += 1
            if (
                steps > _STEPS_PER_UNION * machine.unions.shape[0]
            ):  # what it remembers is lost before it is needed again
                machine.counts[FULL_ARRAY] = UNIONS
                return np.int64(NO_ROOM)
            if depth >= machine.frames.shape[0]:
                machine.counts[FULL_ARRAY] = FRAMES
                return np.int64(NO_ROOM)
            left, right = _ordered(machine, left, right)
            same_top = right >= FIRST_CELL and machine.stacks[left, TOP] == machine.stacks[right, TOP]
            frame = machine.frames[depth]
            depth += 1
            frame[_FRAME_LEFT] = left
            frame[_FRAME_RIGHT] = right
            frame[_FRAME_STAGE] = 0 if same_top else 1
            if same_top:  # first what is below both, then the rests
                left, right = machine.stacks[left, BELOW], machine.stacks[right, BELOW]
            else:
                frame[_FRAME_BELOW] = machine.stacks[left, BELOW]
                left = machine.stacks[left, REST]
            continue
        while depth > 0:
            frame = machine.frames[depth - 1]
            if frame[_FRAME_STAGE] == 0:
                frame[_FRAME_BELOW] = value
                frame[_FRAME_STAGE] = 1
                left = machine.stacks[frame[_FRAME_LEFT], REST]
                right = machine.stacks[frame[_FRAME_RIGHT], REST]
                break
            value = cell(machine, machine.stacks[frame[_FRAME_LEFT], TOP], frame[_FRAME_BELOW], value)
            if value == NO_ROOM:
                return value
            _remember(machine, frame[_FRAME_LEFT], frame[_FRAME_RIGHT], value)
            depth -= 1
        else:
            return value


@njit(cache=True)
def _known_union(machine, left, right):
    """The union of two sets where it is one of them, or remembered; else _UNKNOWN."""
    if left == right or right == NO_STACK:
        return np.int64(left)
    if left == NO_STACK:
        return np.int64(right)
    if left < FIRST_CELL and right < FIRST_CELL:
        return np.int64(left | right)
    low, high = min(left, right), max(left, right)
    slot = np.int64(_hash(low, high, 0) & np.uint64(machine.unions.shape[0] - 1))
    if machine.unions[slot, 0] == low and machine.unions[slot, 1] == high:
        return np.int64(machine.unions[slot, 2])
    return np.int64(_UNKNOWN)


@njit(cache=True)
def _remember(machine, left, right, value):
    low, high = min(left, right), max(left, right)
    slot = np.int64(_hash(low, high, 0) & np.uint64(machine.unions.shape[0] - 1))
    machine.unions[slot, 0] = low
    machine.unions[slot, 1] = high
    machine.unions[slot, 2] = value


@njit(cache=True)
def _ordered(machine, left, right):
    """The set whose list begins with the smaller top first; one without a top comes last."""
    if left < FIRST_CELL:
        return right, left
    if right >= FIRST_CELL and machine.stacks[right, TOP] < machine.stacks[left, TOP]:
        return right, left
    return left, right


@njit(cache=True)
def push(machine, top, stacks):
    """`top` on each stack of a set."""
    return cell(machine, top, stacks, NO_STACK)


@njit(cache=True)
def push_once(machine, top, stacks):
    """`top` on each stack of a set that does not have it on top already."""
    depth = 0
    current = stacks
    below = NO_STACK
    while current >= FIRST_CELL:  # the cells before the one with this top, and then all after it
        if machine.stacks[current, TOP] == top:
            below = machine.stacks[current, BELOW]
        else:
            if depth >= machine.frames.shape[0]:
                machine.counts[FULL_ARRAY] = FRAMES
                return np.int64(NO_ROOM)
            machine.frames[depth, _FRAME_LEFT] = current
            depth += 1
        current = machine.stacks[current, REST]
    if below == NO_STACK:
        return push(machine, top, stacks)
    others = np.int64(current)
    while depth > 0:
        depth -= 1
        kept = machine.frames[depth, _FRAME_LEFT]
        others = cell(machine, machine.stacks[kept, TOP], machine.stacks[kept, BELOW], others)
        if others == NO_ROOM:
            return others
    below = union(machine, below, others)
    return below if below == NO_ROOM else push(machine, top, below)


@njit(cache=True)
def has_empty(machine, stacks):
    """Is the empty stack in the set?"""
    while stacks >= FIRST_CELL:
        stacks = machine.stacks[stacks, REST]
    return stacks & EMPTY_STACK != 0


@njit(cache=True)
def tops(source, machine, stacks):
    """A set of the source machine in another one, with any stacks below each top: (set or NO_ROOM, was anything cut?).

    Where a top is a mark, nothing is kept: a machine of tops remembers no text.
    """
    depth = 0
    cut = False
    while stacks >= FIRST_CELL:
        if source.stacks[stacks, TOP] <= FIRST_MARK:
            cut = True
            stacks = np.int64(source.stacks[stacks, REST])
            continue
        if depth >= machine.frames.shape[0]:
            machine.counts[FULL_ARRAY] = FRAMES
            return np.int64(NO_ROOM), False
        machine.frames[depth, _FRAME_LEFT] = stacks
        depth += 1
        stacks = np.int64(source.stacks[stacks, REST])
    found = np.int64((stacks | ANY_STACKS) if cut else stacks)
    while depth > 0 and found != NO_ROOM:
        depth -= 1
        kept = machine.frames[depth, _FRAME_LEFT]
        deep = source.stacks[kept, BELOW] != EMPTY_STACK
        cut = cut or deep
        found = cell(machine, source.stacks[kept, TOP], ANY_STACKS if deep else EMPTY_STACK, found)
    return found, cut


@njit(cache=True)
def rebuild_stack_table(stacks, count, table):
    """Enters the cells of an array into an empty hash table."""
    mask = table.size - 1
    for number in range(FIRST_CELL, count):
        slot = np.int64(_hash(stacks[number, TOP], stacks[number, BELOW], stacks[number, REST]) & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number
