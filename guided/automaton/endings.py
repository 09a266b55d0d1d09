"""A configuration of a network goes in, a short string that completes it comes out; knows no vocabulary.

Works where the automaton never closes: distances are found on the network, whose rules are finitely many, and not on its
configurations. `distance[state, end]` is the fewest bytes from a network state to the end of its rule by this kind of end (PLAIN or an
exit), calls included: a least fixed point of superior functions (Knuth, "A generalization of Dijkstra's algorithm", 1977), here by
relaxation. What a set of return stacks adds is found cell by cell, below before above, since cells are hash-consed.

Rules that are not built cost more than any string: a completion through built rules is preferred, and where there is none, the rules
along the cheapest way are built. What the last of them asked for is cheapest, so that the way is followed and not left for each
alternative in turn; `shorten` looks at the alternatives, where it is worth it. So the strings are the shortest of those in the rules
built so far: complete without doubt, not always shortest of all.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from guided.automaton.kernels import (
    ACCEPTING,
    DONE,
    ESCAPES,
    FINAL,
    FIRST_EDGE,
    KIND,
    LABEL,
    NEEDED_RULE,
    NEEDS_RULE,
    NEXT,
    STACKS,
    TARGET,
)
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.network import BYTES, CALL, CALL_AGAIN, EPSILON, PLAIN, RESUME
from guided.automaton.stack_sets import BELOW, EMPTY_STACK, FIRST_CELL, NO_STACK, REST, TOP
from guided.automaton.tops_dfa import TopsDfa

FAR = np.int64(1) << np.int64(60)  # there is no such end
NOT_ALONE = 1 << 20  # what a byte that should be avoided counts beside its length
NOT_BUILT = np.int64(1) << np.int64(36)  # a distance from here on goes through rules that are not built
EDGE, END, GO_ON = range(
    3
)  # columns of `choices`: the first edge of the shortest way; of a call, how the rule ends, where it goes on

_MOST_BUILDS = 4_000  # rules built for one question...
_MOST_SHORTENING = 200  # rules built to find a shorter string
_MOST_SECONDS = 1.0  # ...and CPU time
_SHORTENING_SECONDS = 0.3
_DEEPEST = 1 << 14  # calls inside each other on the way to an end
_BUILT_AT_ONCE = 64  # rules of one way
_ALL_BYTES = np.ones(256, np.bool_)
_NO_RULES = np.empty(0, np.int64)
_USUAL = b"a0A ,"  # bytes that a string takes where it may take them: they make words and numbers


class Endings:
    """Short completions of the configurations of one automaton, asked for one by one or many at a time."""

    def __init__(self, dfa: LazyDfa, seconds: float = _MOST_SECONDS, alone: np.ndarray = _ALL_BYTES) -> None:
        """
        Args:
            seconds: of CPU time that one question may take, where rules have to be built for it.
            alone: bool[256]: bytes that a vocabulary can write one by one; completions avoid the others.
        """
        self._dfa = dfa
        self._alone = alone
        self._seconds = seconds
        self._distance = np.zeros((0, 2), np.int64)  # int64[states, ends]
        self._choices = np.zeros((0, 2, 3), np.int32)  # int32[states, ends, 3]: EDGE, END, GO_ON
        self._below = np.zeros((0, 2), np.int64)  # int64[cells, ends]: fewest bytes to the end of all rules of a stack
        self._byte_of = np.zeros(0, np.int16)  # int16[byte sets]: see `_usual_bytes`
        self._known_rules = -1
        self._young = 1 << 30

    def lengths(self, configs: np.ndarray) -> np.ndarray:
        """int64[n]: bytes of the completion of each configuration, int[n]; FAR where none was found within the limits.

        Each byte that could not be avoided counts NOT_ALONE more.

        Raises:
            LimitExceeded: the network outgrew the automaton's limits.
        """
        self._follow_growth()
        self._dfa.budget.restart()
        deadline, builds = time.thread_time() + self._seconds, 0
        while True:
            found = self._lengths(configs)
            waiting = np.flatnonzero((found >= NOT_BUILT) & (found < FAR))
            if waiting.size == 0 or builds > _MOST_BUILDS or time.thread_time() > deadline:
                return np.where(found < NOT_BUILT, found, FAR)
            missing = self._missing_rules(int(configs[waiting[0]]))
            self._young = self._dfa.network_size[2]
            for rule in missing:
                self._build(rule)
            builds += max(len(missing), 1)
            self._follow_growth()

    def ending(self, config: int) -> bytes | None:
        """A string after which the configuration accepts, "" where it does; None where none was found within the limits."""
        length = int(self.lengths(np.array([config]))[0])
        if length >= NOT_BUILT:
            return None
        text = np.empty(length % NOT_ALONE, np.uint8)
        written, missing = self._trace(config, text)
        return text.tobytes() if missing == 0 and written == len(text) else None

    def shorten(self, config: int) -> None:
        """Builds rules through which a shorter completion of a configuration may go, within the limits. Raises LimitExceeded.

        A rule that is not built is taken for one byte: while the way that is shortest then has such rules, they are built.
        """
        deadline, builds = time.thread_time() + min(_SHORTENING_SECONDS, self._seconds), 0
        while builds < _MOST_SHORTENING and time.thread_time() < deadline:
            self._follow_growth()
            network, machine = self._dfa.network, self._dfa.machine
            distance, choices = np.full_like(self._distance, FAR), np.full_like(self._choices, -1)
            below = np.full_like(self._below, FAR)
            _relax(network, self._byte_of, distance, choices, -1)
            _descend(network, machine, distance, below, 0)
            rules = np.empty(_BUILT_AT_ONCE, np.int64)
            _, missing = _trace(
                network, machine, distance, choices, below, self._byte_of, config, np.empty(0, np.uint8), rules
            )
            if missing == 0:
                return
            for rule in dict.fromkeys(rules[:missing].tolist()):
                self._build(rule)
            builds += missing

    @property
    def longest(self) -> int:
        """Bytes of the longest completion of all, each counted as in `lengths`; FAR where calls stack up and there may be none."""
        self._follow_growth()
        return int(self._distance[:, PLAIN].max(initial=0)) if self._dfa.network_size[2] == 1 else int(FAR)

    def below(self, config: int) -> int:
        """Most bytes that the stacks of a configuration need below what `TopsDfa.tops_of` keeps; from NOT_BUILT on where unknown."""
        self._follow_growth()
        return int(_most_below(self._dfa.machine, self._below, config))

    # --- tables -------------------------------------------------------------------------------------------------------

    def _follow_growth(self) -> None:
        """Brings the tables up to the network's present size; what is finite stays right, since rules are only added."""
        network, machine = self._dfa.network, self._dfa.machine
        states, _, rules, sets = self._dfa.network_size
        built = int((network.rule_start[:rules] >= 0).sum())
        if (states, built) != (len(self._distance), self._known_rules):
            ends = max(2, int(network.states[:states, FINAL].max(initial=0)) + 1)
            self._distance = _grown(self._distance, (states, ends), FAR)
            self._distance[self._distance >= NOT_BUILT] = FAR
            self._choices = _grown(self._choices, (states, ends, 3), -1)
            self._byte_of = _usual_bytes(network.set_has_class[:sets, machine.class_of], self._alone)
            _relax(network, self._byte_of, self._distance, self._choices, self._young)
            self._known_rules = built
            self._below = self._below[:0]
        self._follow_stacks()

    def _follow_stacks(self) -> None:
        network, machine = self._dfa.network, self._dfa.machine
        cells = int(machine.counts[STACKS])
        done = len(self._below)
        if done < cells:
            self._below = _grown(self._below, (cells, self._distance.shape[1]), FAR)
            _descend(network, machine, self._distance, self._below, done)

    def _lengths(self, configs: np.ndarray) -> np.ndarray:
        return _config_lengths(self._dfa.machine, self._distance, self._below, np.asarray(configs, np.int64))

    def _missing_rules(self, config: int) -> list[int]:
        rules = np.empty(_BUILT_AT_ONCE, np.int64)
        _, count = self._trace(config, np.empty(0, np.uint8), rules)
        return list(dict.fromkeys(rules[:count].tolist()))

    def _trace(self, config: int, text: np.ndarray, rules: np.ndarray = _NO_RULES) -> tuple[int, int]:
        tables = self._distance, self._choices, self._below, self._byte_of
        return _trace(self._dfa.network, self._dfa.machine, *tables, config, text, rules)

    def _build(self, rule: int) -> None:
        """Has the automaton build a rule, in the way in which its kernels ask for one."""
        asked = iter((NEEDS_RULE, DONE))

        def ask() -> int:
            self._dfa.machine.counts[NEEDED_RULE] = rule
            return next(asked)

        self._dfa.run(ask)


class TopsEndings(Endings):
    """Completions as far as the tops of stacks are known: up to where a call returns below them, or to the end of the answer."""

    def __init__(self, dfa: TopsDfa, of: Endings) -> None:
        """`of`: of the automaton that the tops are of."""
        super().__init__(dfa, of._seconds, of._alone)
        self._tops = dfa
        self._of = of

    def _follow_growth(self) -> None:
        of = self._of
        of._follow_growth()
        self._tops.follow()
        if self._distance is not of._distance:
            self._distance, self._choices, self._byte_of = of._distance, of._choices, of._byte_of
            self._below = self._below[:0]
        self._follow_stacks()


def _grown(array: np.ndarray, shape: tuple[int, ...], fill: int | np.int64) -> np.ndarray:
    grown = np.full(shape, fill, array.dtype)
    grown[tuple(slice(0, size) for size in array.shape)] = array
    return grown


def _usual_bytes(contains: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """int16[sets]: a byte of each set of bool[sets, 256], 256 more where it has none of `alone`, -1 where it is empty."""
    order = np.array(list(dict.fromkeys([*_USUAL, *range(0x20, 256), *range(0x20)])))
    order = np.concatenate([order[alone[order]], order[~alone[order]]])
    first = order[contains[:, order].argmax(1)]
    return np.where(contains.any(1), np.where(alone[first], first, first + 256), -1).astype(np.int16)


# --- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _relax(network, byte_of, distance, choices, young):
    """Brings `distance` to its fixed point from above: whose successors got nearer to an end is looked at again.

    A choice is written only where a distance gets strictly smaller, so the choices lead nowhere twice. Rules from number `young` on
    are what was asked for last; with -1 every rule that is not built counts as one byte.
    """
    states, count = network.states, distance.shape[0]
    begin, users = _users(network, count)
    queue = np.empty(count, np.int32)  # a ring: every state is in it once at most
    waiting = np.ones(count, np.uint8)
    for i in range(count):
        queue[i] = count - 1 - i  # what leads on is mostly younger
        if states[i, FINAL] > 0:
            distance[i, states[i, FINAL]] = 0
    head, size = 0, count
    while size > 0:
        state = queue[head]
        head, size = (head + 1) % count, size - 1
        waiting[state] = 0
        if _look(network, byte_of, distance, choices, state, young):
            for i in range(begin[state], begin[state + 1]):
                if not waiting[users[i]]:
                    waiting[users[i]] = 1
                    queue[(head + size) % count] = users[i]
                    size += 1


@njit(cache=True)
def _look(network, byte_of, distance, choices, state, young):
    """Offers a state the way over each of its edges; is there news for who comes to it?"""
    changed = False
    edge = network.states[state, FIRST_EDGE]
    while edge >= 0:
        kind, target = network.edges[edge, KIND], network.edges[edge, TARGET]
        if kind == EPSILON:
            changed |= _offer_all(distance, choices, state, edge, np.int64(0), target, 0)
        elif kind == BYTES:
            byte = byte_of[network.edges[edge, LABEL]]
            if byte >= 0:
                length = np.int64(1 if byte < 256 else 1 + NOT_ALONE)
                changed |= _offer_all(distance, choices, state, edge, length, target, 0)
        elif kind != RESUME:
            changed |= _offer_call(network, distance, choices, state, edge, target, young)
        edge = network.edges[edge, NEXT]
    return changed


@njit(cache=True)
def _users(network, count):
    """(int64[count + 1], int32[]): the distance of s is used by those of users[begin[s]:begin[s + 1]]."""
    states, edges = network.states, network.edges
    begin = np.zeros(count + 1, np.int64)
    for state in range(count):
        edge = states[state, FIRST_EDGE]
        while edge >= 0:
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
                users[begin[used]] = state
            edge = edges[edge, NEXT]
    return begin, users


@njit(cache=True)
def _used(network, edge):
    """The states whose distances `_look` reads for an edge."""
    kind, target = network.edges[edge, KIND], network.edges[edge, TARGET]
    used = [target]
    if kind == RESUME:
        used.pop()
    elif kind in (CALL, CALL_AGAIN):
        if network.rule_start[network.edges[edge, LABEL]] >= 0:
            used.append(network.rule_start[network.edges[edge, LABEL]])
        answer = network.states[target, FIRST_EDGE]
        while answer >= 0:
            if network.edges[answer, KIND] == RESUME:
                used.append(network.edges[answer, TARGET])
            answer = network.edges[answer, NEXT]
    return used


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
    """What a rule that is not built counts; see `_relax`. Of the young ones the last is cheapest: it leads furthest."""
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
def _descend(network, machine, distance, below, done):
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
def _config_lengths(machine, distance, below, configs):
    lengths = np.zeros(configs.shape[0], np.int64)
    for i in range(configs.shape[0]):
        if not machine.flags[configs[i], ACCEPTING] and not machine.flags[configs[i], ESCAPES]:
            lengths[i] = _best_item(machine, distance, below, configs[i])[0]
    return lengths


@njit(cache=True)
def _most_below(machine, below, config):
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
    best, state, under, following = FAR, np.int32(-1), np.int64(EMPTY_STACK), 0
    cell = stacks
    while cell >= FIRST_CELL:
        length, top, its_end = _return_from(network, machine, distance, below, cell, end)
        if length < best:
            best, state, under, following = length, top, np.int64(machine.stacks[cell, BELOW]), its_end
        cell = machine.stacks[cell, REST]
    if cell == EMPTY_STACK:
        return np.int32(-1), np.int64(EMPTY_STACK), 0
    return state, under, following


@njit(cache=True)
def _trace(network, machine, distance, choices, below, byte_of, config, text, rules):
    """Writes the completion of a configuration, as far as it fits: (bytes, number of rules on the way that are not built).

    These go to `rules`, int64[most], and count as empty; the trace ends when it is full. (-1, 0) where there is no completion, or
    calls lie too deep inside each other.
    """
    written = missing = 0
    if machine.flags[config, ACCEPTING]:
        return written, missing
    _, item, end = _best_item(machine, distance, below, config)
    if item < 0:
        return -1, 0
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
                return written, missing
            continue
        edge, called_end, go_on = choices[state, end, EDGE], choices[state, end, END], choices[state, end, GO_ON]
        kind = network.edges[edge, KIND]
        if kind == BYTES:
            if written < text.shape[0]:
                text[written] = byte_of[network.edges[edge, LABEL]] & 255
            written += 1
            state = go_on
        elif kind == EPSILON:
            state = go_on
        else:
            start = network.rule_start[network.edges[edge, LABEL]]
            if start < 0:
                if missing == rules.shape[0]:
                    return written, missing
                rules[missing] = network.edges[edge, LABEL]
                missing += 1
                ended = go_on < 0
                state = go_on if go_on >= 0 else state
                continue
            if go_on >= 0:
                if depth == _DEEPEST:
                    return -1, 0
                frames[depth, 0], frames[depth, 1] = go_on, end
                depth += 1
            state, end = start, called_end
