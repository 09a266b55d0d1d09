"""Compiled: what a configuration of a network reaches without reading is found, and interned; allocates nothing.

Interning is hash-consing with open addressing. A configuration is a sorted list of pairs: a network state and the set of all
return stacks that it has (`stack_sets`). Where an item of a configuration is inside a mark, what is read is remembered: the text is
then part of the configuration.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton.machine import (
    ACCEPTING,
    ANSWERED,
    ASKS,
    ASKS_FIRST,
    CLOSING_TEXT,
    CONFIGS,
    DEAD,
    DONE,
    ESCAPED,
    ESCAPES,
    EXPANDED,
    FINAL,
    FIRST_EDGE,
    FULL,
    FULL_ARRAY,
    IS_ANSWERED,
    IS_OF_TOPS,
    ITEMS,
    NEEDED_RULES,
    NEEDS_RULE,
    OPEN,
    OPEN_ENDED,
    READS,
    READS_BYTE,
    REMEMBERED,
    STACK_SET,
    STAMP,
    STATE,
    UNKNOWN,
    WORK,
)
from guided.automaton.network import (
    ASK,
    BYTES,
    CALL_AGAIN,
    EPSILON,
    FORGET,
    KIND,
    LABEL,
    MARK,
    NEXT,
    PLAIN,
    RESUME,
    TARGET,
)
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
    mark,
    mix,
    push,
    push_once,
    union,
)


@njit(cache=True)
def queue_item(machine, state, stacks):
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
def begin_closure(machine, text):
    machine.counts[WORK] = 0
    machine.counts[STAMP] += 1
    machine.counts[ESCAPED] = 0
    machine.counts[NEEDED_RULES] = 0
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
            if not queue_item(machine, top, below):
                return False
        else:
            edge = network.states[top, FIRST_EDGE]
            while edge >= 0:
                answers = network.edges[edge, KIND] == RESUME and network.edges[edge, LABEL] == ending - 2
                if answers and not queue_item(machine, network.edges[edge, TARGET], below):
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
        return queue_item(machine, target, stacks)
    if kind == MARK:
        inner = mark(machine, machine.counts[CLOSING_TEXT], stacks)
        return inner != NO_ROOM and queue_item(machine, target, inner)
    while stacks >= FIRST_CELL:
        if machine.stacks[stacks, TOP] <= FIRST_MARK and not queue_item(machine, target, machine.stacks[stacks, BELOW]):
            return False
        stacks = np.int64(machine.stacks[stacks, REST])
    return True


@njit(cache=True)
def _need(machine, rule):
    """Notes a rule that is to be built; are there not too many yet to look for more of them?"""
    count = machine.counts[NEEDED_RULES]
    machine.needed[count] = rule
    machine.counts[NEEDED_RULES] = count + 1
    return count + 1 < machine.needed.size


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
            if not queue_item(machine, target, stacks):
                return FULL, 0
        elif kind in (MARK, FORGET):
            if not _marked(machine, kind, target, stacks):
                return FULL, 0
        elif kind != RESUME:
            start = network.rule_start[network.edges[edge, LABEL]]
            if start < 0:
                if not _need(machine, network.edges[edge, LABEL]):
                    return NEEDS_RULE, 0
            else:
                inner = _called(network, machine, edge, stacks)
                if inner == NO_ROOM or not queue_item(machine, start, inner):
                    return FULL, 0
        edge = network.edges[edge, NEXT]
    return DONE, reads


@njit(cache=True)
def close(network, machine):
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
    if machine.counts[NEEDED_RULES] > 0:
        return NEEDS_RULE, DEAD
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
    begin_closure(machine, NO_TEXT)
    queue_item(machine, state, EMPTY_STACK)
    return close(network, machine)


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
    begin_closure(machine, text)
    for i in range(items.shape[0]):
        if not queue_item(machine, items[i, 0], items[i, 1]):
            return FULL, DEAD
    machine.counts[IS_ANSWERED] = 1
    status, found = close(network, machine)
    machine.counts[IS_ANSWERED] = 0
    if status == DONE:
        machine.texts[config, ANSWERED] = found
    return status, found
