"""How far network states, stacks and configurations are from an end, and the way there: compiled loops over flat arrays.

The tables are those of `guided.automaton.endings`, which owns them. A least fixed point of superior functions (Knuth, "A generalization
of Dijkstra's algorithm", 1977), here from what is known on.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numba import njit

from guided.automaton.machine import ACCEPTING, ESCAPES, FINAL, FIRST_EDGE
from guided.automaton.network import (
    ASK,
    BYTES,
    CALL,
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
from guided.automaton.stack_sets import BELOW, EMPTY_STACK, FIRST_CELL, FIRST_MARK, NO_STACK, REST, TOP

FAR = np.int64(1) << np.int64(60)  # there is no such end
NOT_ALONE = 1 << 20  # what a byte that should be avoided counts beside its length
NOT_BUILT = np.int64(1) << np.int64(36)  # a distance from here on goes through rules that are not built
EDGE, END, GO_ON = range(
    3
)  # columns of `choices`: the first edge of the shortest way; of a call, how the rule ends, where it goes on
_DEEPEST = 1 << 14  # calls inside each other on the way to an end


@njit(cache=True)
def relax(network, byte_of, distance, choices, young):
    """Brings `distance` to its fixed point from above: what got nearer to an end is looked at again by whoever leads there, nearest first.

    A choice is written only where a distance gets strictly smaller, so the choices lead nowhere twice. Rules from number `young` on
    are what was asked for last; with -1 every rule that is not built counts as one byte.
    """
    states, count = network.states, distance.shape[0]
    begin, users, source = _users(network, count)
    for state in range(count):
        if states[state, FINAL] > 0:
            distance[state, states[state, FINAL]] = 0
    waiting = np.zeros(count, np.uint8)
    nearest = [(np.int64(0), np.int64(0)) for _ in range(0)]  # a heap of (distance, state)
    for state in range(count - 1, -1, -1):  # what leads on is mostly younger
        edge = states[state, FIRST_EDGE]
        while edge >= 0:
            if _look(network, byte_of, distance, choices, state, edge, young):
                waiting[state] = 1
            edge = network.edges[edge, NEXT]
        if waiting[state]:
            heappush(nearest, (distance[state].min(), np.int64(state)))
    while len(nearest) > 0:
        _, near = heappop(nearest)
        if not waiting[near]:
            continue
        waiting[near] = 0
        for i in range(begin[near], begin[near + 1]):
            user = source[users[i]]
            if _look(network, byte_of, distance, choices, user, users[i], young):
                waiting[user] = 1
                heappush(nearest, (distance[user].min(), np.int64(user)))


@njit(cache=True)
def _look(network, byte_of, distance, choices, state, edge, young):
    """Offers a state the way over one of its edges; is there news for who comes to it?"""
    kind, target = network.edges[edge, KIND], network.edges[edge, TARGET]
    if kind in (EPSILON, MARK, FORGET, ASK):
        return _offer_all(distance, choices, state, edge, np.int64(0), target, 0)
    if kind == BYTES:
        byte = byte_of[network.edges[edge, LABEL]]
        length = np.int64(1 if byte < 256 else 1 + NOT_ALONE)
        return byte >= 0 and _offer_all(distance, choices, state, edge, length, target, 0)
    return kind != RESUME and _offer_call(network, distance, choices, state, edge, target, young)


@njit(cache=True)
def _users(network, count):
    """(int64[count + 1], int32[], int32[edges]): edges users[begin[s]:begin[s + 1]], of states source[edge], read the distance of s."""
    states, edges = network.states, network.edges
    begin = np.zeros(count + 1, np.int64)
    source = np.empty(edges.shape[0], np.int32)
    for state in range(count):
        edge = states[state, FIRST_EDGE]
        while edge >= 0:
            source[edge] = state
            for used in _used(network, edge):
                begin[used] += 1
            edge = edges[edge, NEXT]
    begin = np.cumsum(begin)
    users = np.empty(begin[-1], np.int32)
    for state in range(count):
        edge = states[state, FIRST_EDGE]
        while edge >= 0:
            for used in _used(network, edge):
                begin[used] -= 1
                users[begin[used]] = edge
            edge = edges[edge, NEXT]
    return begin, users, source


@njit(cache=True)
def _used(network, edge):
    """The states whose distances `_look` reads for an edge."""
    kind, target = network.edges[edge, KIND], network.edges[edge, TARGET]
    if kind != RESUME:
        yield target
    if kind in (CALL, CALL_AGAIN):
        if network.rule_start[network.edges[edge, LABEL]] >= 0:
            yield network.rule_start[network.edges[edge, LABEL]]
        answer = network.states[target, FIRST_EDGE]
        while answer >= 0:
            if network.edges[answer, KIND] == RESUME:
                yield network.edges[answer, TARGET]
            answer = network.edges[answer, NEXT]


@njit(cache=True)
def _offer(distance, choices, state, end, length, edge, called_end, go_on):
    if length >= distance[state, end]:
        return False
    distance[state, end] = length
    choices[state, end, EDGE] = edge
    choices[state, end, END] = called_end
    choices[state, end, GO_ON] = go_on
    return True


@njit(cache=True)
def _offer_all(distance, choices, state, edge, length, target, called_end):
    """`length` bytes and then on from `target`, by whatever end."""
    changed = False
    for end in range(1, distance.shape[1]):
        if distance[target, end] < FAR:
            changed |= _offer(distance, choices, state, end, length + distance[target, end], edge, called_end, target)
    return changed


@njit(cache=True)
def _is_tail(network, target):
    """A call that returns to `target` keeps no stack; see `kernels._called`."""
    return network.states[target, FINAL] == PLAIN and network.states[target, FIRST_EDGE] < 0


@njit(cache=True)
def _price(rule, young):
    """What a rule that is not built counts; see `relax`. Of the young ones the last is cheapest: it leads furthest."""
    if young < 0:
        return np.int64(1)
    if rule >= young:
        return 2 * NOT_BUILT - (np.int64(min(rule - young, 1 << 15)) << np.int64(20))
    return NOT_BUILT * (3 + min(rule, 1 << 20))


@njit(cache=True)
def _offer_call(network, distance, choices, state, edge, target, young):
    rule = network.edges[edge, LABEL]
    start = network.rule_start[rule]
    tail = _is_tail(network, target)
    changed = False
    for end in range(1, distance.shape[1]):
        if start >= 0:
            length = distance[start, end]
        elif end == PLAIN:
            length = _price(rule, young)
        else:
            continue
        if length >= FAR:
            continue
        if tail:
            changed |= _offer(distance, choices, state, end, length, edge, end, -1)
        elif end == PLAIN:
            changed |= _offer_all(distance, choices, state, edge, length, target, end)
        else:
            answer = network.states[target, FIRST_EDGE]
            while answer >= 0:
                if network.edges[answer, KIND] == RESUME and network.edges[answer, LABEL] == end - 2:
                    go_on = network.edges[answer, TARGET]
                    changed |= _offer_all(distance, choices, state, edge, length, go_on, end)
                answer = network.edges[answer, NEXT]
    return changed


@njit(cache=True)
def _from(distance, below, state, stacks):
    """Fewest bytes from a state and a set of stacks to the end of everything: (bytes, end of the state's rule)."""
    best, best_end = FAR, 0
    for end in range(1, distance.shape[1]):
        if distance[state, end] < FAR and below[stacks, end] < FAR:
            length = distance[state, end] + below[stacks, end]
            if length < best:
                best, best_end = length, end
    return best, best_end


@njit(cache=True)
def _return_from(network, machine, distance, below, cell, end):
    """Where the top of one cell goes on after `end`: (bytes, state, end of its rule)."""
    top, under = machine.stacks[cell, TOP], machine.stacks[cell, BELOW]
    if top <= FIRST_MARK:  # it is forgotten before the rule ends
        return below[under, end], top, end
    if end == PLAIN:
        length, following = _from(distance, below, top, under)
        return length, top, following
    best, best_state, best_end = FAR, np.int32(-1), 0
    edge = network.states[top, FIRST_EDGE]
    while edge >= 0:
        if network.edges[edge, KIND] == RESUME and network.edges[edge, LABEL] == end - 2:
            length, following = _from(distance, below, network.edges[edge, TARGET], under)
            if length < best:
                best, best_state, best_end = length, network.edges[edge, TARGET], following
        edge = network.edges[edge, NEXT]
    return best, best_state, best_end


@njit(cache=True)
def descend(network, machine, distance, below, done):
    """Fills below[done:, end]: what is left once the rule above the stacks has ended. Cells refer to earlier cells only."""
    ends = distance.shape[1]
    for cell in range(done, below.shape[0]):
        for end in range(1, ends):
            if cell < FIRST_CELL:
                below[cell, end] = FAR if cell == NO_STACK else 0
            else:
                length, _, _ = _return_from(network, machine, distance, below, cell, end)
                below[cell, end] = min(length, below[machine.stacks[cell, REST], end])


@njit(cache=True)
def config_lengths(machine, distance, below, configs):
    lengths = np.zeros(configs.shape[0], np.int64)
    for i in range(configs.shape[0]):
        if not machine.flags[configs[i], ACCEPTING] and not machine.flags[configs[i], ESCAPES]:
            lengths[i] = _best_item(machine, distance, below, configs[i])[0]
    return lengths


@njit(cache=True)
def most_below(machine, below, config):
    """Of what `kernels.intern_tops` may cut off: the base, or what is below a top."""
    most = np.int64(0)
    base = np.int64(machine.stacks.shape[0])
    for item in range(machine.config_begin[config], machine.config_begin[config + 1]):
        cell = np.int64(machine.items[item, 1])
        if cell >= FIRST_CELL:
            base = min(base, cell)
        while cell >= FIRST_CELL:
            most = max(most, _most(below, machine.stacks[cell, BELOW]))
            cell = np.int64(machine.stacks[cell, REST])
    return max(most, _most(below, base)) if base < machine.stacks.shape[0] else most


@njit(cache=True)
def _most(below, stacks):
    """Of the ends that there are."""
    most = np.int64(0)
    for end in range(1, below.shape[1]):
        if below[stacks, end] < FAR:
            most = max(most, below[stacks, end])
    return most


@njit(cache=True)
def _best_item(machine, distance, below, config):
    """The item from which the end is nearest: (bytes, item, end of its rule)."""
    best, best_item, best_end = FAR, np.int64(-1), 0
    for item in range(machine.config_begin[config], machine.config_begin[config + 1]):
        length, end = _from(distance, below, machine.items[item, 0], machine.items[item, 1])
        if length < best:
            best, best_item, best_end = length, np.int64(item), end
    return best, best_item, best_end


@njit(cache=True)
def _pop(network, machine, distance, below, stacks, end):
    """Where a set of stacks goes on best after `end`: (state, its stacks, end of its rule); state -1 where all is over."""
    while True:
        best, state, under, following = FAR, np.int32(-1), np.int64(EMPTY_STACK), 0
        cell = stacks
        while cell >= FIRST_CELL:
            length, top, its_end = _return_from(network, machine, distance, below, cell, end)
            if length < best:
                best, state, under, following = length, top, np.int64(machine.stacks[cell, BELOW]), its_end
            cell = machine.stacks[cell, REST]
        if cell == EMPTY_STACK:
            return np.int32(-1), np.int64(EMPTY_STACK), 0
        if best == FAR or state > FIRST_MARK:
            return state, under, following
        stacks = under  # of a mark


@njit(cache=True)
def trace(network, machine, distance, choices, below, byte_of, config, text, rules):
    """Writes the completion of a configuration, as far as it fits: (bytes, number of rules on the way that are not built, bytes
    up to the first question or -1: what comes after it is only as long as what the answer leads to).

    The rules go to `rules`, int64[most], and count as empty; the trace ends when it is full. (-1, 0, -1) where there is no
    completion, or calls lie too deep inside each other.
    """
    written = missing = 0
    asked = -1
    if machine.flags[config, ACCEPTING]:
        return written, missing, asked
    _, item, end = _best_item(machine, distance, below, config)
    if item < 0:
        return -1, 0, -1
    state, stacks = machine.items[item, 0], np.int64(machine.items[item, 1])
    frames = np.empty((_DEEPEST, 2), np.int32)  # where calls made on the way go on, and the end wanted there
    depth = 0
    ended = False
    while True:
        if ended or (distance[state, end] == 0 and network.states[state, FINAL] == end):
            ended = False
            if depth > 0:
                depth -= 1
                state, end = frames[depth, 0], frames[depth, 1]
                continue
            state, stacks, end = _pop(network, machine, distance, below, stacks, end)
            if state < 0:
                return written, missing, asked
            continue
        edge, called_end, go_on = choices[state, end, EDGE], choices[state, end, END], choices[state, end, GO_ON]
        kind = network.edges[edge, KIND]
        if kind == BYTES:
            if written < text.shape[0]:
                text[written] = byte_of[network.edges[edge, LABEL]] & 255
            written += 1
            state = go_on
        elif kind not in (CALL, CALL_AGAIN):
            if kind == ASK and asked < 0:
                asked = written
            state = go_on
        else:
            start = network.rule_start[network.edges[edge, LABEL]]
            if start < 0:
                if missing == rules.shape[0]:
                    return written, missing, asked
                rules[missing] = network.edges[edge, LABEL]
                missing += 1
                ended = go_on < 0
                state = go_on if go_on >= 0 else state
                continue
            if go_on >= 0:
                if depth == _DEEPEST:
                    return -1, 0, -1
                frames[depth, 0], frames[depth, 1] = go_on, end
                depth += 1
            state, end = start, called_end
