"""Compiled inner loops of `LazyDfa`: configurations of a network are closed, interned and expanded; allocates nothing.

All state lives in flat arrays owned by `LazyDfa`. A kernel that runs out of room or meets a rule that is not built yet
stops with a status and changes nothing that matters: the owner makes room or builds the rule and calls it again.
Where an item of a configuration is inside a mark, what is read is remembered: the text is then part of the configuration.
Interning is hash-consing with open addressing. A configuration is a sorted list of pairs: a network state and the set of all
return stacks that it has (`stack_sets`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton.network import ASK, BYTES, CALL_AGAIN, EPSILON, FORGET, MARK, PLAIN, RESUME
from guided.automaton.stack_sets import (
    ANY_STACKS,
    BELOW,
    EMPTY_STACK,
    EMPTY_TEXT,
    FIRST_CELL,
    FIRST_MARK,
    MARKED,
    NO_ROOM,
    NO_TEXT,
    REST,
    TOP,
    has_empty,
    longer_text,
    mark,
    mix,
    push,
    push_once,
    tops,
    union,
)

DONE, FULL, NEEDS_RULE, NEEDS_ANSWER = range(4)  # status of a kernel
DEAD, UNKNOWN = -1, -2  # in delta

# slots of Machine.counts
STACKS, ITEMS, CONFIGS, CLASSES, WORK, EDGES, STAMP, NEEDED_RULE, FULL_ARRAY, FRAMES, ESCAPED, OPEN_ENDED = range(12)
NEEDED_ANSWER = NEEDED_RULE  # the configuration whose questions are to be answered
# The text of the closure; are its questions answered? The machine has tops only, and remembers no text.
CLOSING_TEXT, IS_ANSWERED, IS_OF_TOPS = 12, 13, 14
NUM_COUNTS = 15


FIRST_EDGE, FINAL, TEXT = range(3)  # columns of NetworkArrays.states
NEXT, KIND, LABEL, TARGET = range(4)  # columns of NetworkArrays.edges
ACCEPTING, EXPANDED, ESCAPES, ASKS = range(4)  # columns of Machine.flags
REMEMBERED, ANSWERED = range(2)  # columns of Machine.texts
READS_BYTE, ASKS_FIRST = 1, 2  # bits of READS in Machine.queue
STATE, STACK_SET, OPEN, READS = range(4)  # columns of Machine.queue


class NetworkArrays(NamedTuple):
    """The network as arrays (see `Network` for the meaning of each column). Few arrays: each costs a kernel call time."""

    states: np.ndarray  # int32[states, 3]: FIRST_EDGE, FINAL; TEXT: the state is one of `Network.text_states`
    edges: np.ndarray  # int32[edges, 4]: NEXT, KIND, LABEL, TARGET
    rule_start: np.ndarray  # int32[rules], -1 = not built yet
    set_has_class: np.ndarray  # uint8[byte sets, classes]: the set contains the class


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


@njit(cache=True)
def _queue(machine, state, stacks):
    """Adds an item to the closure, or its stacks to the item that the state has; False when there is no room."""
    mask = machine.seen.shape[0] - 1
    stamp = machine.counts[STAMP]
    slot = np.int64(mix(np.uint64(state)) & np.uint64(mask))
    while machine.seen[slot, 1] == stamp:
        item = machine.seen[slot, 0]
        if machine.queue[item, STATE] == state:
            merged = union(machine, np.int64(machine.queue[item, STACK_SET]), np.int64(stacks))
            if merged == NO_ROOM:
                return False
            if merged != machine.queue[item, STACK_SET]:
                machine.queue[item, STACK_SET] = merged
                machine.queue[item, OPEN] = 1
            return True
        slot = (slot + 1) & mask
    work = machine.counts[WORK]
    if work >= machine.queue.shape[0]:
        machine.counts[FULL_ARRAY] = WORK
        return False
    machine.seen[slot, 0] = work
    machine.seen[slot, 1] = stamp
    machine.queue[work, STATE] = state
    machine.queue[work, STACK_SET] = stacks
    machine.queue[work, OPEN] = 1
    machine.counts[WORK] = work + 1
    return True


@njit(cache=True)
def _begin_closure(machine, text):
    machine.counts[WORK] = 0
    machine.counts[STAMP] += 1
    machine.counts[ESCAPED] = 0
    machine.counts[CLOSING_TEXT] = text


@njit(cache=True)
def _return(network, machine, ending, stacks):
    """Queues where each top of the stacks goes on when a rule ends; False when there is no room."""
    while stacks >= FIRST_CELL:
        top = machine.stacks[stacks, TOP]
        below = machine.stacks[stacks, BELOW]
        if top <= FIRST_MARK:
            pass  # a rule forgets its marks before it ends
        elif ending == PLAIN:
            if not _queue(machine, top, below):
                return False
        else:
            edge = network.states[top, FIRST_EDGE]
            while edge >= 0:
                answers = network.edges[edge, KIND] == RESUME and network.edges[edge, LABEL] == ending - 2
                if answers and not _queue(machine, network.edges[edge, TARGET], below):
                    return False
                edge = network.edges[edge, NEXT]
        stacks = machine.stacks[stacks, REST]
    if stacks & ANY_STACKS:
        machine.counts[ESCAPED] = 1
    return True


@njit(cache=True)
def _called(network, machine, edge, stacks):
    """The stacks inside of a call."""
    target = network.edges[edge, TARGET]
    if network.states[target, FINAL] == PLAIN and network.states[target, FIRST_EDGE] < 0:
        return np.int64(stacks)  # a tail call has nothing to return to
    if network.edges[edge, KIND] == CALL_AGAIN:
        return push_once(machine, target, stacks)
    return push(machine, target, stacks)


@njit(cache=True)
def _marked(machine, kind, target, stacks):
    """Queues the target of an edge that sets a mark or forgets one; False when there is no room."""
    if machine.counts[IS_OF_TOPS]:
        return _queue(machine, target, stacks)
    if kind == MARK:
        inner = mark(machine, machine.counts[CLOSING_TEXT], stacks)
        return inner != NO_ROOM and _queue(machine, target, inner)
    while stacks >= FIRST_CELL:
        if machine.stacks[stacks, TOP] <= FIRST_MARK and not _queue(machine, target, machine.stacks[stacks, BELOW]):
            return False
        stacks = np.int64(machine.stacks[stacks, REST])
    return True


@njit(cache=True)
def _follow(network, machine, state, stacks):
    """Queues what `state` reaches without reading; (status, READS_BYTE and ASKS_FIRST as they apply)."""
    ending = network.states[state, FINAL]
    if ending != 0 and not _return(network, machine, ending, stacks):
        return FULL, 0
    reads = 0
    edge = network.states[state, FIRST_EDGE]
    while edge >= 0:
        kind, target = network.edges[edge, KIND], network.edges[edge, TARGET]
        if kind == BYTES:
            reads |= READS_BYTE
        elif kind == ASK:
            if not machine.counts[IS_ANSWERED]:
                reads |= ASKS_FIRST
        elif kind == EPSILON:
            if not _queue(machine, target, stacks):
                return FULL, 0
        elif kind in (MARK, FORGET):
            if not _marked(machine, kind, target, stacks):
                return FULL, 0
        elif kind != RESUME:
            start = network.rule_start[network.edges[edge, LABEL]]
            if start < 0:
                machine.counts[NEEDED_RULE] = network.edges[edge, LABEL]
                return NEEDS_RULE, 0
            inner = _called(network, machine, edge, stacks)
            if inner == NO_ROOM or not _queue(machine, start, inner):
                return FULL, 0
        edge = network.edges[edge, NEXT]
    return DONE, reads


@njit(cache=True)
def _close(network, machine):
    """Closes the queued items and interns the result: (status, configuration or DEAD)."""
    items = 0
    changed = True
    while changed:  # an item whose stacks have grown is followed again; in most closures none has
        changed = False
        done = 0
        while done < machine.counts[WORK]:
            if machine.queue[done, OPEN]:
                machine.queue[done, OPEN] = 0
                status, reads = _follow(network, machine, machine.queue[done, STATE], machine.queue[done, STACK_SET])
                if status != DONE:
                    return status, DEAD
                machine.queue[done, READS] = reads
                changed = True
            done += 1
    accepts = asks = marked = False
    for done in range(machine.counts[WORK]):
        state = machine.queue[done, STATE]
        stacks = machine.queue[done, STACK_SET]
        if network.states[state, FINAL] != 0 and has_empty(machine, stacks):
            accepts = True
        if machine.queue[done, READS]:
            asks = asks or machine.queue[done, READS] & ASKS_FIRST != 0
            marked = marked or machine.stacks[stacks, MARKED] > 0
            machine.out_key[items] = (np.int64(state) << 32) | np.int64(stacks)
            items += 1
    if items == 0 and not accepts and not machine.counts[ESCAPED]:
        return DONE, DEAD
    _sort(machine.out_key, items)
    text = max(machine.counts[CLOSING_TEXT], EMPTY_TEXT) if marked else np.int64(NO_TEXT)
    config = intern_config(machine, items, accepts, machine.counts[ESCAPED], asks, text)
    return (DONE if config >= 0 else FULL), config


@njit(cache=True)
def _sort(keys, count):
    """Sorts keys[:count]; most configurations have one to five items, so Shell's method with few gaps does."""
    for gap in (1750, 301, 57, 10, 4, 1):
        for i in range(gap, count):
            key = keys[i]
            j = i - gap
            while j >= 0 and keys[j] > key:
                keys[j + gap] = keys[j]
                j -= gap
            keys[j + gap] = key


@njit(cache=True)
def _same_config(machine, config, count, accepts, escapes, asks, text):
    begin = machine.config_begin[config]
    if machine.config_begin[config + 1] - begin != count:
        return False
    if machine.flags[config, ACCEPTING] != accepts or machine.flags[config, ESCAPES] != escapes:
        return False
    if machine.flags[config, ASKS] != asks or machine.texts[config, REMEMBERED] != text:
        return False
    for i in range(count):
        key = (np.int64(machine.items[begin + i, 0]) << 32) | np.int64(machine.items[begin + i, 1])
        if key != machine.out_key[i]:
            return False
    return True


@njit(cache=True)
def intern_config(machine, count, accepts, escapes, asks, text):
    """The configuration with the items out_key[:count]; -1 when there is no room."""
    digest = np.uint64(1) + np.uint64(accepts) + np.uint64(2) * np.uint64(escapes) + np.uint64(4) * np.uint64(asks)
    digest += np.uint64(8) * np.uint64(text)
    for i in range(count):
        digest = mix(digest ^ np.uint64(machine.out_key[i])) + np.uint64(i)
    mask = machine.config_table.size - 1
    slot = np.int64(digest & np.uint64(mask))
    while machine.config_table[slot] >= 0:
        found = machine.config_table[slot]
        if machine.config_hash[found] == digest and _same_config(machine, found, count, accepts, escapes, asks, text):
            return found
        slot = (slot + 1) & mask
    new = machine.counts[CONFIGS]
    begin = machine.counts[ITEMS]
    if new >= machine.flags.shape[0]:
        machine.counts[FULL_ARRAY] = CONFIGS
        return -1
    if begin + count > machine.items.shape[0]:
        machine.counts[FULL_ARRAY] = ITEMS
        return -1
    for i in range(count):
        machine.items[begin + i, 0] = np.int32(machine.out_key[i] >> 32)
        machine.items[begin + i, 1] = np.int32(machine.out_key[i] & 0xFFFFFFFF)
    machine.config_begin[new + 1] = begin + count
    machine.config_hash[new] = digest
    machine.flags[new, ACCEPTING] = accepts
    machine.flags[new, ESCAPES] = escapes
    machine.flags[new, EXPANDED] = 0
    machine.flags[new, ASKS] = asks
    machine.texts[new, REMEMBERED] = text
    machine.texts[new, ANSWERED] = UNKNOWN
    if escapes or (asks and machine.counts[IS_OF_TOPS]):
        machine.counts[OPEN_ENDED] = 1
    machine.delta[new, :] = UNKNOWN
    machine.config_table[slot] = new
    machine.counts[ITEMS] = begin + count
    machine.counts[CONFIGS] = new + 1
    return new


@njit(cache=True)
def start(network, machine, state):
    """Interns the closure of (state, empty stack): (status, configuration)."""
    _begin_closure(machine, NO_TEXT)
    _queue(machine, state, EMPTY_STACK)
    return _close(network, machine)


@njit(cache=True)
def answer(network, machine, config, items):
    """Interns what a configuration is once its questions are answered: (status, configuration or DEAD).

    Args:
        items: int64[n, 2]: state and set of stacks, and those of the answers, which ask nothing.
    """
    text = np.int64(NO_TEXT)
    for i in range(items.shape[0]):
        if machine.stacks[items[i, 1], MARKED] > 0:
            text = np.int64(machine.texts[config, REMEMBERED])
    _begin_closure(machine, text)
    for i in range(items.shape[0]):
        if not _queue(machine, items[i, 0], items[i, 1]):
            return FULL, DEAD
    machine.counts[IS_ANSWERED] = 1
    status, found = _close(network, machine)
    machine.counts[IS_ANSWERED] = 0
    if status == DONE:
        machine.texts[config, ANSWERED] = found
    return status, found


@njit(cache=True)
def _byte_edges(network, machine, config):
    """Collects the byte edges that leave a configuration; their number, or -1 when there is no room."""
    count = 0
    for item in range(machine.config_begin[config], machine.config_begin[config + 1]):
        edge = network.states[machine.items[item, 0], FIRST_EDGE]
        while edge >= 0:
            if network.edges[edge, KIND] == BYTES:
                if count >= machine.byte_edges.shape[0]:
                    machine.counts[FULL_ARRAY] = EDGES
                    return -1
                machine.byte_edges[count, 0] = network.edges[edge, LABEL]
                machine.byte_edges[count, 1] = network.edges[edge, TARGET]
                machine.byte_edges[count, 2] = machine.items[item, 1]
                count += 1
            edge = network.edges[edge, NEXT]
    return count


@njit(cache=True)
def _move(network, machine, edges, byte_class, text):
    """The configuration after one byte of the class: (status, configuration or DEAD)."""
    if text != NO_TEXT:
        text = longer_text(machine, text, byte_class)
        if text == NO_ROOM:
            return FULL, DEAD
    _begin_closure(machine, text)
    for edge in range(edges):
        taken = network.set_has_class[machine.byte_edges[edge, 0], byte_class]
        if taken and not _queue(machine, machine.byte_edges[edge, 1], machine.byte_edges[edge, 2]):
            return FULL, DEAD
    return _close(network, machine)


@njit(cache=True)
def step(network, machine, config, byte_class):
    """Fills delta[config, byte_class], and whatever else takes no edge or the same edges. Returns a status."""
    if not machine.flags[config, ASKS] or machine.counts[IS_OF_TOPS]:
        return _step(network, machine, config, byte_class)
    answered = machine.texts[config, ANSWERED]
    if answered == UNKNOWN:
        machine.counts[NEEDED_ANSWER] = config
        return NEEDS_ANSWER
    if answered != DEAD and machine.delta[answered, byte_class] == UNKNOWN:
        status = _step(network, machine, answered, byte_class)
        if status != DONE:
            return status
    machine.delta[config, byte_class] = DEAD if answered == DEAD else machine.delta[answered, byte_class]
    return DONE


@njit(cache=True)
def _step(network, machine, config, byte_class):
    """`step` of a configuration without questions."""
    edges = _byte_edges(network, machine, config)
    if edges < 0:
        return FULL
    text = np.int64(machine.texts[config, REMEMBERED])
    alike = 0
    for other in range(machine.counts[CLASSES]):
        if machine.delta[config, other] != UNKNOWN:
            continue
        takes_any = takes_other = False
        for edge in range(edges):
            takes = network.set_has_class[machine.byte_edges[edge, 0], other]
            takes_any = takes_any or takes
            if takes != network.set_has_class[machine.byte_edges[edge, 0], byte_class]:
                takes_other = True
                if takes_any:
                    break
        if not takes_any:
            machine.delta[config, other] = DEAD
        elif other == byte_class or (not takes_other and text == NO_TEXT):  # a text has its bytes one by one
            machine.alike[alike] = other
            alike += 1
    if machine.delta[config, byte_class] != UNKNOWN:
        return DONE
    status, result = _move(network, machine, edges, byte_class, text)
    if status != DONE:
        return status
    for i in range(alike):
        machine.delta[config, machine.alike[i]] = result
    return DONE


@njit(cache=True)
def expand(network, machine, config):
    """Fills delta[config, :]. Returns a status."""
    if machine.flags[config, EXPANDED]:
        return DONE
    for byte_class in range(machine.counts[CLASSES]):
        if machine.delta[config, byte_class] == UNKNOWN:
            status = step(network, machine, config, byte_class)
            if status != DONE:
                return status
    machine.flags[config, EXPANDED] = 1
    return DONE


@njit(cache=True)
def advance(network, machine, state, piece):
    """The state after the bytes of a piece: (status, state or DEAD)."""
    for byte in piece:
        byte_class = machine.class_of[byte]
        if machine.delta[state, byte_class] == UNKNOWN:
            status = step(network, machine, state, byte_class)
            if status != DONE:
                return status, DEAD
        state = machine.delta[state, byte_class]
        if state == DEAD:
            break
    return DONE, state


@njit(cache=True)
def intern_tops(source, config, without_base, machine):
    """A configuration in another machine with the tops of its stacks: (status, configuration, DEAD if there is no more to them).

    Args:
        without_base: where a set of stacks is what other items have below their tops, or all that they have, nothing is kept of it.
    """
    begin = source.config_begin[config]
    count = source.config_begin[config + 1] - begin
    if count > machine.out_key.size:
        machine.counts[FULL_ARRAY] = WORK
        return FULL, DEAD
    base = np.int64(-1)
    for i in range(count if without_base else 0):  # sets refer to earlier ones, so the base has the smallest number
        stacks = np.int64(source.items[begin + i, 1])
        if stacks >= FIRST_CELL and (base < 0 or stacks < base):
            base = stacks
    any_cut = False
    for i in range(count):
        stacks = np.int64(source.items[begin + i, 1])
        if stacks == base:
            stacks, cut = np.int64(ANY_STACKS), True
        else:
            stacks, cut = tops(source, machine, stacks)
        if stacks == NO_ROOM:
            return FULL, DEAD
        any_cut = any_cut or cut
        machine.out_key[i] = (np.int64(source.items[begin + i, 0]) << 32) | stacks
    if not any_cut:
        return DONE, DEAD
    found = intern_config(
        machine, count, source.flags[config, ACCEPTING], 0, source.flags[config, ASKS], np.int64(NO_TEXT)
    )
    return (DONE if found >= 0 else FULL), found


@njit(cache=True)
def enter_all(hashes, count, table):
    """Enters numbers 0..count-1 into an empty hash table by their hashes."""
    mask = table.size - 1
    for number in range(count):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = number
