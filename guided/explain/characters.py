"""A byte automaton in, its edges over whole characters out: UTF-8 sequences become code points; knows no vocabulary.

A state of `LazyDfa` either lies between two characters or inside of one. Only the former are of interest to people. Their
edges are found by following lead and continuation bytes to the end of the character; states inside of characters are
few and shared, so what follows them is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from numba import njit

from guided.automaton.charset import CharSet
from guided.automaton.kernels import expand
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import CONFIGS, DEAD, DONE, EXPANDED
from guided.automaton.network import Network
from guided.limits import Budget, Limits

_SPECIAL = 0xFF  # around the name of a special token, see `network.special_token_bytes`
_AHEAD = 256  # states expanded by one kernel call
_LEADS = ((0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3))  # first, last lead byte, continuation bytes

Segments = list[tuple[int, int, int]]  # (first, last, state): a run of numbers that leads to one state


@dataclass(frozen=True, slots=True)
class Moves:
    """The edges of a state.

    Attributes:
        characters: (set, state after), disjoint sets, distinct states, in order of the first character.
        special: (name of a special token, state after).
    """

    characters: tuple[tuple[CharSet, int], ...]
    special: tuple[tuple[str, int], ...]

    @property
    def targets(self) -> list[int]:
        """States after one character or special token, each once."""
        return list(dict.fromkeys([target for _, target in (*self.characters, *self.special)]))

    @property
    def allowed(self) -> CharSet:
        """Every character that may come next."""
        return CharSet.from_ranges(bounds for characters, _ in self.characters for bounds in characters.ranges)


def warm() -> None:
    """Compiles or loads the kernel, so that nobody who asks for a picture or a typical answer waits for it."""
    network = Network()
    network.root = network.rule()
    start = network.state()
    network.literal(start, b"a", network.state(final=True))
    network.define(network.root, start)
    dfa = LazyDfa(network, Budget(Limits(seconds=600)))
    CharacterView(dfa).moves(dfa.start)


class CharacterView:
    """An automaton as people read it: states between characters, edges over sets of characters. Grows on demand."""

    def __init__(self, dfa: LazyDfa) -> None:
        self.dfa = dfa
        self._tails: dict[tuple[int, int], Segments] = {}
        self._moves: dict[int, Moves] = {}

    @property
    def start(self) -> int:
        return self.dfa.start

    def is_accepting(self, state: int) -> bool:
        return self.dfa.is_accepting(state)

    def moves(self, state: int) -> Moves:
        """The edges of a state that lies between two characters.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        known = self._moves.get(state)
        if known is None:
            known = self._moves[state] = self._find_moves(state)
        return known

    def _find_moves(self, state: int) -> Moves:
        row = self._row(state)
        segments = _runs(row, 0, 0x7F)
        for first, last, count in _LEADS:
            base = (first & (0x3F >> count)) << 6 * count
            segments += self._longer(_runs(row, first, last), base, count)
        by_target: dict[int, list[tuple[int, int]]] = {}
        for lo, hi, target in segments:
            by_target.setdefault(target, []).append((lo, hi))
        characters = tuple((CharSet.from_ranges(ranges), target) for target, ranges in by_target.items())
        special = tuple(self._special(row[_SPECIAL])) if row[_SPECIAL] != DEAD else ()
        return Moves(characters, special)

    def _after(self, state: int, count: int) -> Segments:
        """Where `count` continuation bytes lead, by the number that their 6 * count bits make."""
        known = self._tails.get((state, count))
        if known is not None:
            return known
        runs = _runs(self._row(state), 0x80, 0xBF)
        found = self._longer(runs, 0, count - 1) if count > 1 else runs
        self._tails[state, count] = found
        return found

    def _longer(self, runs: Segments, base: int, count: int) -> Segments:
        """Runs of the first digit of a number, followed by `count` more digits each; `base` is added to all numbers."""
        width = 1 << 6 * count
        found: Segments = []
        for first, last, state in runs:
            tails = self._after(state, count)
            if len(tails) == 1 and tails[0][:2] == (0, width - 1):  # all that follows is alike
                found.append((base + first * width, base + (last + 1) * width - 1, tails[0][2]))
                continue
            for digit in range(first, last + 1):
                found += ((base + digit * width + lo, base + digit * width + hi, to) for lo, hi, to in tails)
        return found

    def _special(self, state: int) -> Iterator[tuple[str, int]]:
        """(name, state after) of every special token whose opening 0xFF was read."""
        waiting = [(state, b"")]
        while waiting:
            state, name = waiting.pop()
            for byte, target in enumerate(self._row(state)):
                if target == DEAD:
                    continue
                if byte == _SPECIAL:
                    yield name.decode(errors="replace"), target
                else:
                    waiting.append((target, name + bytes([byte])))

    def _row(self, state: int) -> list[int]:
        """The state after each of the 256 bytes."""
        dfa = self.dfa
        if not dfa.machine.flags[state, EXPANDED]:
            dfa.run(lambda: _expand_ahead(dfa.network, dfa.machine, state))
        machine = dfa.machine
        return machine.delta[state][machine.class_of].tolist()


@njit(cache=True)
def _expand_ahead(network, machine, state):
    """Fills the rows of a state and of those numbered after it, which mostly follow it. Returns a status."""
    config = state
    while config < min(state + _AHEAD, machine.counts[CONFIGS]):
        status = expand(network, machine, config)
        if status != DONE:
            return status
        config += 1
    return DONE


def _runs(row: list[int], first: int, last: int) -> Segments:
    """Runs of equal live states among row[first..last], numbered from 0."""
    found: Segments = []
    at = 0
    for state, run in groupby(row[first : last + 1]):
        length = len(list(run))
        if state != DEAD:
            found.append((at, at + length - 1, state))
        at += length
    return found
