"""The arrays of a `LazyDfa`, which its kernels fill: what is in them, how they begin and grow, and how kernels run
on them; knows no kernel that fills them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton.packed import packed
from guided.automaton.stack_sets import FIRST_CELL, UNIONS, rebuild_stack_table

DONE, FULL, NEEDS_RULE, NEEDS_ANSWER = range(4)  # status of a kernel
DEAD, UNKNOWN = -1, -2  # in delta

# slots of Machine.counts
STACKS, ITEMS, CONFIGS, CLASSES, WORK, EDGES, STAMP, NEEDED_RULES, FULL_ARRAY, FRAMES, ESCAPED, OPEN_ENDED = range(12)
NEEDED_ANSWER = NEEDED_RULES  # the configuration whose questions are to be answered
# The text of the closure; are its questions answered? The machine has tops only, and remembers no text.
CLOSING_TEXT, IS_ANSWERED, IS_OF_TOPS = 12, 13, 14
NUM_COUNTS = 15

FIRST_EDGE, FINAL, TEXT = range(3)  # columns of NetworkArrays.states
ACCEPTING, EXPANDED, ESCAPES, ASKS = range(4)  # columns of Machine.flags
REMEMBERED, ANSWERED = range(2)  # columns of Machine.texts
READS_BYTE, ASKS_FIRST = 1, 2  # bits of READS in Machine.queue
STATE, STACK_SET, OPEN, READS = range(4)  # columns of Machine.queue


@packed
class NetworkArrays(NamedTuple):
    """The network as arrays (see `Network` for the meaning of each column)."""

    states: np.ndarray  # int32[states, 3]: FIRST_EDGE, FINAL; TEXT: the state is one of `Network.text_states`
    edges: np.ndarray  # int32[edges, 4]: NEXT, KIND, LABEL, TARGET, as in `network`
    rule_start: np.ndarray  # int32[rules], -1 = not built yet
    set_has_class: np.ndarray  # uint8[byte sets, classes]: the set contains the class


@packed
class Machine(NamedTuple):
    """The interned part: stacks, configurations, transitions, and scratch space."""

    counts: np.ndarray  # int64[NUM_COUNTS]: how much of each array is used, and what a stopped kernel waits for
    stacks: np.ndarray  # int32[cells, 4]: sets of return stacks, and texts, see `stack_sets`
    stack_table: np.ndarray  # int32[2^k]: hash table of cells, -1 = free
    unions: np.ndarray  # int32[2^k, 3]: remembered unions of two sets: set, set, their union
    frames: np.ndarray  # int32[depth, 4]: scratch of one union
    items: np.ndarray  # int32[items, 2]: network state, set of stacks; each state once
    config_begin: np.ndarray  # int32[configs + 1]: first item of each configuration
    config_hash: np.ndarray  # uint64[configs]
    config_table: np.ndarray  # int32[2^k]: hash table of configuration ids, -1 = free
    flags: np.ndarray  # uint8[configs, 4]: ACCEPTING; EXPANDED: delta is filled; ESCAPES: below known tops; ASKS
    texts: np.ndarray  # int32[configs, 2]: REMEMBERED; ANSWERED: of one that asks, what it becomes or UNKNOWN
    delta: np.ndarray  # int32[configs, classes]: next configuration, DEAD or UNKNOWN
    class_of: np.ndarray  # uint8[256]: byte -> class
    queue: np.ndarray  # int32[work, 4]: scratch of one closure: network state, stacks, to be followed?, what it reads
    out_key: np.ndarray  # int64[work]: items of the closure that read a byte: state << 32 | set of stacks
    seen: np.ndarray  # int64[2^k >= 2 * work, 2]: scratch hash table of states: row of queue, closure number
    byte_edges: np.ndarray  # int32[work, 3]: leaving the configuration being expanded: label, target, set of stacks
    alike: np.ndarray  # int32[256]: scratch: classes that take the same of these edges
    needed: np.ndarray  # int32[32]: scratch: rules that a closure needs and that are not built, NEEDED_RULES of them


# --- how kernels are run ----------------------------------------------------------------------------------------------


def until_done(kernel: Callable[[], int | tuple[int, int]], attend: Callable[[int], None]) -> int:
    """Calls a kernel until its status is DONE, and `attend` with any other; its result, if it has one."""
    while True:
        outcome = kernel()
        status, result = outcome if isinstance(outcome, tuple) else (outcome, 0)
        if status == DONE:
            return result
        attend(status)


# --- how they begin ---------------------------------------------------------------------------------------------------


def new_network(classes: int) -> NetworkArrays:
    return NetworkArrays(
        states=np.empty((64, 3), np.int32),
        edges=np.empty((64, 4), np.int32),
        rule_start=np.empty(4, np.int32),
        set_has_class=np.empty((16, classes), np.uint8),
    )


def new_machine(classes: int, configs: int = 1024, stacks: int = 1024, items: int = 8192, work: int = 512) -> Machine:
    counts = np.zeros(NUM_COUNTS, np.int64)
    counts[STACKS] = FIRST_CELL
    return Machine(
        counts=counts,
        stacks=np.zeros((stacks, 4), np.int32),
        stack_table=np.full(4 * stacks, -1, np.int32),
        unions=np.zeros((8192, 3), np.int32),
        frames=np.empty((64, 4), np.int32),
        items=np.empty((items, 2), np.int32),
        config_begin=np.zeros(configs + 1, np.int32),
        config_hash=np.zeros(configs, np.uint64),
        config_table=np.full(4 * configs, -1, np.int32),
        flags=np.zeros((configs, 4), np.uint8),
        texts=np.zeros((configs, 2), np.int32),
        delta=np.empty((configs, classes), np.int32),
        class_of=np.zeros(256, np.uint8),
        **_scratch(work),
        alike=np.empty(256, np.int32),
        needed=np.empty(32, np.int32),
    )


def _scratch(work: int) -> dict[str, np.ndarray]:
    return {
        "queue": np.empty((work, 4), np.int32),
        "out_key": np.empty(work, np.int64),
        "seen": np.zeros((4 * work, 2), np.int64),
        "byte_edges": np.empty((4 * work, 3), np.int32),
    }


# --- how they grow ----------------------------------------------------------------------------------------------------


def with_room(array: np.ndarray, used: int, needed: int) -> np.ndarray:
    """The array if it has `needed` rows, else a copy of its first `used` rows in a larger one."""
    if needed <= len(array):
        return array
    grown = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


def _resized(array: np.ndarray) -> np.ndarray:
    """A copy with room for twice as many rows; the new rows are not initialised."""
    return with_room(array, len(array), 2 * len(array))


def _grow_scratch(machine: Machine) -> Machine:
    return machine._replace(**_scratch(2 * machine.queue.shape[0]))


def _grow_items(machine: Machine) -> Machine:
    return machine._replace(items=_resized(machine.items))


def _grow_stacks(machine: Machine) -> Machine:
    stacks = _resized(machine.stacks)
    table = np.full(4 * len(stacks), -1, np.int32)
    rebuild_stack_table(stacks, int(machine.counts[STACKS]), table)
    return machine._replace(stacks=stacks, stack_table=table)


def _grow_unions(machine: Machine) -> Machine:
    return machine._replace(unions=np.zeros((2 * len(machine.unions), 3), np.int32))


def _grow_frames(machine: Machine) -> Machine:
    return machine._replace(frames=_resized(machine.frames))


def _grow_configs(machine: Machine) -> Machine:
    room = 2 * len(machine.flags)
    begin = np.zeros(room + 1, np.int32)
    begin[: machine.config_begin.size] = machine.config_begin
    table = np.full(4 * room, -1, np.int32)
    enter_all(machine.config_hash, int(machine.counts[CONFIGS]), table)
    return machine._replace(
        config_begin=begin,
        config_hash=_resized(machine.config_hash),
        config_table=table,
        flags=_resized(machine.flags),
        texts=_resized(machine.texts),
        delta=_resized(machine.delta),
    )


GROW = {
    STACKS: _grow_stacks,
    ITEMS: _grow_items,
    CONFIGS: _grow_configs,
    WORK: _grow_scratch,
    EDGES: _grow_scratch,
    FRAMES: _grow_frames,
    UNIONS: _grow_unions,
}


@njit(cache=True)
def enter_all(hashes, count, table):
    """Enters numbers 0..count-1 into an empty hash table by their hashes."""
    mask = table.size - 1
    for number in range(count):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number
