"""States of an automaton that has grown too large are carried over into empty memory; knows no vocabulary.

A stack set refers to sets that were interned before it, so one pass down the numbers finds what is in use and one pass up copies it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton.closure import intern_config
from guided.automaton.machine import ACCEPTING, ASKS, DONE, FULL, FULL_ARRAY, REMEMBERED, WORK
from guided.automaton.stack_sets import BELOW, FIRST_CELL, NO_ROOM, REST, TOP, cell

_UNUSED = -1


@njit(cache=True)
def carry_over(source, configs, machine, stack_sets, kept):
    """Interns configurations of the source machine in another one; a status.

    Args:
        configs: int64[n].
        stack_sets: int64[sets of the source]: scratch, the number of each set in the other machine.
        kept: int64[n]: the number of each configuration there.
    """
    _mark_used(source, configs, stack_sets)
    for old in range(stack_sets.size):
        if old < FIRST_CELL:
            stack_sets[old] = old
        elif stack_sets[old] != _UNUSED:
            below, rest = stack_sets[source.stacks[old, BELOW]], stack_sets[source.stacks[old, REST]]
            stack_sets[old] = cell(machine, source.stacks[old, TOP], below, rest)
            if stack_sets[old] == NO_ROOM:
                return FULL
    for i in range(configs.size):
        begin = source.config_begin[configs[i]]
        count = source.config_begin[configs[i] + 1] - begin
        if count > machine.out_key.size:
            machine.counts[FULL_ARRAY] = WORK
            return FULL
        for item in range(count):
            stacks = stack_sets[source.items[begin + item, 1]]
            machine.out_key[item] = (np.int64(source.items[begin + item, 0]) << 32) | stacks
        accepts, asks = source.flags[configs[i], ACCEPTING], source.flags[configs[i], ASKS]
        text = stack_sets[source.texts[configs[i], REMEMBERED]]
        kept[i] = intern_config(machine, count, accepts, 0, asks, text)
        if kept[i] < 0:
            return FULL
    return DONE


@njit(cache=True)
def _mark_used(source, configs, stack_sets):
    stack_sets[:] = _UNUSED
    for config in configs:
        stack_sets[source.texts[config, REMEMBERED]] = 0
        for item in range(source.config_begin[config], source.config_begin[config + 1]):
            stack_sets[source.items[item, 1]] = 0
    for old in range(stack_sets.size - 1, FIRST_CELL - 1, -1):
        if stack_sets[old] != _UNUSED:
            stack_sets[source.stacks[old, BELOW]] = 0
            stack_sets[source.stacks[old, REST]] = 0
