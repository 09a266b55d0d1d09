"""A configuration of a network goes in, a short string that completes it comes out; knows no vocabulary.

Works where the automaton never closes: distances are found on the network, whose rules are finitely many, and not on its
configurations. `distance[state, end]` is the fewest bytes from a network state to the end of its rule by this kind of end (PLAIN or an
exit), calls included (`guided.automaton.distances`). What a set of return stacks adds is found cell by cell, below before above,
since cells are hash-consed.

Rules that are not built cost more than any string: a completion through built rules is preferred, and where there is none, the rules
along the cheapest way are built. What the last of them asked for is cheapest, so that the way is followed and not left for each
alternative in turn; `shorten` looks at the alternatives, where it is worth it. So the strings are the shortest of those in the rules
built so far: complete without doubt, not always shortest of all.
"""

from __future__ import annotations

import time

import numpy as np

from guided.automaton.distances import FAR, NOT_ALONE, NOT_BUILT, config_lengths, descend, most_below, relax, trace
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD, FINAL, NEEDED_RULES, NEEDS_RULE, STACKS
from guided.automaton.network import PLAIN
from guided.automaton.tops_dfa import TopsDfa

_MOST_BUILDS = 4_000  # rules built for one question...
_MOST_SHORTENING = 200  # rules built to find a shorter string
_MOST_SECONDS = 1.0  # ...and CPU time
_SHORTENING_SECONDS = 0.3
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
        written, missing, asked = self._trace(config, text)
        if missing > 0 or written != len(text):
            return None
        return text.tobytes() if asked < 0 else self._after_question(config, text[:asked].tobytes())

    def _after_question(self, config: int, text: bytes) -> bytes | None:
        """The completion that begins with a text, after which questions have to be answered."""
        asking = self._dfa.advance(config, text)
        if asking == DEAD:
            return None
        answered = self._dfa.answered(asking)
        if text or answered != asking:
            rest = self.ending(answered)
            return None if rest is None else text + rest
        # The way to the question that was answered is still the shortest: one byte leads past it.
        for byte in _USUAL[::-1]:
            following = self._dfa.step(asking, byte)
            rest = None if following == DEAD else self.ending(following)
            if rest is not None:
                return bytes((byte,)) + rest
        return None

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
            relax(network, self._byte_of, distance, choices, -1)
            descend(network, machine, distance, below, 0)
            rules = np.empty(_BUILT_AT_ONCE, np.int64)
            _, missing, _ = trace(
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
        return int(most_below(self._dfa.machine, self._below, config))

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
            relax(network, self._byte_of, self._distance, self._choices, self._young)
            self._known_rules = built
            self._below = self._below[:0]
        self._follow_stacks()

    def _follow_stacks(self) -> None:
        network, machine = self._dfa.network, self._dfa.machine
        cells = int(machine.counts[STACKS])
        done = len(self._below)
        if done < cells:
            self._below = _grown(self._below, (cells, self._distance.shape[1]), FAR)
            descend(network, machine, self._distance, self._below, done)

    def _lengths(self, configs: np.ndarray) -> np.ndarray:
        return config_lengths(self._dfa.machine, self._distance, self._below, np.asarray(configs, np.int64))

    def _missing_rules(self, config: int) -> list[int]:
        rules = np.empty(_BUILT_AT_ONCE, np.int64)
        _, count, _ = self._trace(config, np.empty(0, np.uint8), rules)
        return list(dict.fromkeys(rules[:count].tolist()))

    def _trace(self, config: int, text: np.ndarray, rules: np.ndarray = _NO_RULES) -> tuple[int, int, int]:
        tables = self._distance, self._choices, self._below, self._byte_of
        return trace(self._dfa.network, self._dfa.machine, *tables, config, text, rules)

    def _build(self, rule: int) -> None:
        """Has the automaton build a rule, in the way in which its kernels ask for one."""
        machine = self._dfa.machine
        machine.needed[0], machine.counts[NEEDED_RULES] = rule, 1
        self._dfa.attend(NEEDS_RULE)


class TopsEndings(Endings):
    """Completions as far as the tops of stacks are known: up to where a call returns below them, or to the end of the answer."""

    def __init__(self, dfa: TopsDfa, of: Endings) -> None:
        """`of`: of the automaton that the tops are of."""
        super().__init__(dfa, of._seconds, of._alone)
        self._follow_tops = dfa.follow
        self._of = of

    def _follow_growth(self) -> None:
        of = self._of
        of._follow_growth()
        self._follow_tops()
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
