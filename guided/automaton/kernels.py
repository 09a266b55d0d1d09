"""Compiled inner loops of `LazyDfa`: its configurations are expanded; allocates nothing.

All state lives in flat arrays owned by `LazyDfa`. A kernel that runs out of room or meets a rule that is not built yet
stops with a status and changes nothing that matters: the owner makes room or builds the rule and calls it again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton.closure import begin_closure, close, intern_config, queue_item
from guided.automaton.machine import (
    ACCEPTING,
    ANSWERED,
    ASKS,
    CLASSES,
    DEAD,
    DONE,
    EDGES,
    EXPANDED,
    FIRST_EDGE,
    FULL,
    FULL_ARRAY,
    IS_OF_TOPS,
    NEEDED_ANSWER,
    NEEDS_ANSWER,
    REMEMBERED,
    UNKNOWN,
    WORK,
)
from guided.automaton.network import BYTES, KIND, LABEL, NEXT, TARGET
from guided.automaton.stack_sets import ANY_STACKS, FIRST_CELL, NO_ROOM, NO_TEXT, longer_text, tops


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
    begin_closure(machine, text)
    for edge in range(edges):
        taken = network.set_has_class[machine.byte_edges[edge, 0], byte_class]
        if taken and not queue_item(machine, machine.byte_edges[edge, 1], machine.byte_edges[edge, 2]):
            return FULL, DEAD
    return close(network, machine)


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
