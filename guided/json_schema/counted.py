"""An automaton over characters together with bounds of the length, without building their product; knows no bytes and no schema.

A state is a pair (state of the automaton, characters so far); whether a pair can be completed is read off tables of the lengths
with which the automaton can end from each of its states.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.errors import LimitExceeded
from guided.limits import Budget

_TABLE_BYTES = 64 << 20


class CountedLanguage:
    """The strings of `dfa` with at least `least` and at most `most` (None: any number of) characters."""

    def __init__(self, dfa: CharDfa, least: int, most: int | None, budget: Budget) -> None:
        self.dfa = dfa
        self.least = least
        self.most = most
        self.budget = budget

    @property
    def is_counted(self) -> bool:
        return self.least > 0 or self.most is not None

    def accepts(self, state: int, count: int) -> bool:
        """May a string that led to `state` in `count` characters end there?"""
        return bool(self.dfa.accepting[state]) and count >= self.least and (self.most is None or count <= self.most)

    def can_end(self, state: int, count: int) -> bool:
        """Is there a way to the end?"""
        shortest = self._shortest[state]
        if shortest < 0 or (self.most is not None and count + shortest > self.most):
            return False
        if count + shortest >= self.least:
            return True
        longest = self._longest[state]
        if longest >= 0 and count + longest < self.least:
            return False
        if self.most is None:
            return True  # a longer string exists, and nothing bounds it from above
        return bool(self._ends[self.least - count : self.most - count + 1, state].any())

    def key(self, state: int, count: int) -> int:
        """Equal counts for which nothing differs: -1 where the length no longer matters."""
        longest = self._longest[state]
        if self.most is None:
            return -1 if count >= self.least else count
        enough = count + self._shortest[state] >= self.least
        return -1 if enough and 0 <= longest <= self.most - count else count

    def words(self, most: int) -> list[str] | None:
        """All strings, the shortest first; None where there are more than `most`."""
        found: list[str] = []
        begun = [(0, "")] if self.can_end(0, 0) else []
        while begun:
            found += [text for state, text in begun if self.accepts(state, len(text))]
            longer: list[tuple[int, str]] = []
            for state, text in begun:
                for target, characters in self.dfa.out(state):
                    if self.can_end(target, len(text) + 1):
                        if len(found) + len(longer) + len(characters) > most:  # each of them has an end of its own
                            return None
                        longer += [(target, text + chr(character)) for character in characters]
            begun = longer
        return found if len(found) <= most else None

    def has_other_endings(self, state: int, endings: set[str]) -> bool:
        """Does some string that is none of `endings` lead from a state to the end? Lengths are not looked at."""
        if self._longest[state] < 0:
            return True
        rest = CharDfa(self.dfa.classes, np.roll(self.dfa.delta, -state, axis=0), np.roll(self.dfa.accepting, -state))
        rest.delta[rest.delta >= 0] = (rest.delta[rest.delta >= 0] - state) % self.dfa.num_states
        return any(word not in endings for word in rest.trim().words(len(endings) + 1))

    @cached_property
    def _shortest(self) -> list[int]:
        """For each state the characters of a shortest way to an accepting state, -1 = none."""
        return _distances(self.dfa).tolist()

    @cached_property
    def _longest(self) -> list[int]:
        """For each state the characters of a longest way to an accepting state, -1 = no bound."""
        return _longest_ways(self.dfa).tolist()

    @cached_property
    def _ends(self) -> np.ndarray:
        """bool[most + 1, num_states]: can the automaton end after exactly so many characters more?"""
        assert self.most is not None
        if (self.most + 1) * self.dfa.num_states > _TABLE_BYTES:
            raise LimitExceeded("a pattern and bounds of the length are too large together", limit="memory_bytes")
        ends = np.zeros((self.most + 1, self.dfa.num_states), dtype=bool)
        ends[0] = self.dfa.accepting
        for length in range(1, self.most + 1):
            ends[length] = np.append(ends[length - 1], False)[self.dfa.delta].any(axis=1)
        return ends


def _distances(dfa: CharDfa) -> np.ndarray:
    distance = np.where(dfa.accepting, 0, -1).astype(np.int32)
    length = 0
    while True:
        near = np.append(distance == length, False)[dfa.delta].any(axis=1) & (distance < 0)
        if not near.any():
            return distance
        length += 1
        distance[near] = length


def _longest_ways(dfa: CharDfa) -> np.ndarray:
    """By peeling off states all of whose successors are known (the automaton is trimmed); what remains lies before a cycle."""
    successors = [np.unique(row[row >= 0]) for row in dfa.delta]
    predecessors: list[list[int]] = [[] for _ in successors]
    waiting = np.zeros(dfa.num_states, dtype=np.int64)
    for state, targets in enumerate(successors):
        waiting[state] = len(targets)
        for target in targets.tolist():
            predecessors[target].append(state)
    longest = np.full(dfa.num_states, -1, dtype=np.int64)
    worklist = np.flatnonzero(waiting == 0).tolist()
    while worklist:
        state = worklist.pop()
        longest[state] = max((int(longest[target]) + 1 for target in successors[state].tolist()), default=0)
        for before in predecessors[state]:
            waiting[before] -= 1
            if not waiting[before]:
                worklist.append(before)
    return longest
