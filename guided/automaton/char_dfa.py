"""Deterministic automata over characters and their algebra: product, complement, minimisation, enumeration; knows no syntax.

Every operation returns a *trimmed* automaton: each state is reached from the start and reaches an accepting one, so a
prefix that is not dead can be completed. Only the empty language breaks this: its automaton is one state that does not
accept. The operators use a default `Budget`; the methods of the same meaning take one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from guided.automaton.charset import ANY, CharSet, partition
from guided.limits import Budget

_DEAD = -1


@dataclass(frozen=True, eq=False)
class CharDfa:
    """A deterministic automaton; state 0 is the start.

    Attributes:
        classes: disjoint sets that cover every scalar value.
        delta: int32[num_states, num_classes]: state, class -> next state, -1 = dead.
        accepting: bool[num_states].
    """

    classes: tuple[CharSet, ...]
    delta: np.ndarray
    accepting: np.ndarray

    @staticmethod
    def empty() -> CharDfa:
        """The automaton of no string."""
        return CharDfa((ANY,), np.full((1, 1), _DEAD, dtype=np.int32), np.zeros(1, dtype=bool))

    @staticmethod
    def everything() -> CharDfa:
        """The automaton of every string."""
        return CharDfa((ANY,), np.zeros((1, 1), dtype=np.int32), np.ones(1, dtype=bool))

    @staticmethod
    def lengths(lo: int, hi: int | None) -> CharDfa:
        """Every string of lo..hi characters; hi None = no upper bound."""
        if hi is not None and hi < lo:
            return CharDfa.empty()
        count = (lo if hi is None else hi) + 1
        delta = np.arange(1, count + 1, dtype=np.int32).reshape(count, 1)
        delta[-1] = count - 1 if hi is None else _DEAD
        return CharDfa((ANY,), delta, np.arange(count) >= lo)

    @property
    def num_states(self) -> int:
        return len(self.delta)

    # --- algebra ----------------------------------------------------------------------------------------------------

    def __and__(self, other: CharDfa) -> CharDfa:
        return self.intersect(other, Budget())

    def __or__(self, other: CharDfa) -> CharDfa:
        return self.union(other, Budget())

    def __sub__(self, other: CharDfa) -> CharDfa:
        return self.difference(other, Budget())

    def __invert__(self) -> CharDfa:
        return self.complement()

    def intersect(self, other: CharDfa, budget: Budget) -> CharDfa:
        """Strings of both."""
        return _product(self, other, np.logical_and, (True, True), budget)

    def union(self, other: CharDfa, budget: Budget) -> CharDfa:
        """Strings of either."""
        return _product(self, other, np.logical_or, (False, False), budget)

    def difference(self, other: CharDfa, budget: Budget) -> CharDfa:
        """Strings of this automaton that are not of the other."""
        return _product(self, other, np.greater, (True, False), budget)

    def complement(self) -> CharDfa:
        """Every string that is not of this automaton."""
        sink = self.num_states
        delta = np.vstack([self.delta, np.full((1, len(self.classes)), sink, dtype=np.int32)])
        delta[delta == _DEAD] = sink
        return CharDfa(self.classes, delta, ~np.append(self.accepting, False)).trim()

    def trim(self) -> CharDfa:
        """Only states that are reached from the start and reach an accepting one, in order of first visit."""
        sources, columns = np.nonzero(self.delta >= 0)
        targets = self.delta[sources, columns]
        keep = _reach(targets, sources, np.flatnonzero(self.accepting), self.num_states)
        keep &= _reach(sources, targets, np.zeros(1, dtype=np.int64), self.num_states)
        if not keep[0]:
            return CharDfa.empty()
        if keep.all():
            return self
        new_id = np.full(self.num_states + 1, _DEAD, dtype=np.int32)  # the last entry serves index -1
        new_id[np.flatnonzero(keep)] = np.arange(np.count_nonzero(keep), dtype=np.int32)
        return CharDfa(self.classes, new_id[self.delta[keep]], self.accepting[keep])

    def minimise(self, budget: Budget | None = None) -> CharDfa:
        """The smallest automaton of the same language, with the fewest classes."""
        from guided.automaton.minimise import minimise

        return minimise(self, budget or Budget())

    # --- questions --------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Does it match no string at all?"""
        return not self.accepting.any()

    def is_finite(self) -> bool:
        """Does it match finitely many strings?"""
        return self.max_length() is not None

    def max_length(self) -> int | None:
        """Characters of the longest string; None = unbounded. 0 for the empty language."""
        out = [{target for target in row if target >= 0} for row in self.delta.tolist()]
        waiting = [0] * self.num_states  # edges into a state that are not counted yet
        for targets in out:
            for target in targets:
                waiting[target] += 1
        longest = [0] * self.num_states
        worklist, done = [state for state, count in enumerate(waiting) if not count], 0
        while worklist:  # Kahn's topological order: what never gets ready lies on a cycle
            state = worklist.pop()
            done += 1
            for target in out[state]:
                longest[target] = max(longest[target], longest[state] + 1)
                waiting[target] -= 1
                if not waiting[target]:
                    worklist.append(target)
        return max(longest) if done == self.num_states else None

    def step(self, state: int, character: str) -> int:
        """The state after one more character, -1 = dead."""
        starts, class_of = self._segments
        return int(self.delta[state, class_of[np.searchsorted(starts, ord(character), side="right") - 1]])

    def contains(self, text: str) -> bool:
        """Is the text in the language?"""
        starts, class_of = self._segments
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        state = 0
        for char_class in class_of[np.searchsorted(starts, points, side="right") - 1].tolist():
            state = self.delta[state, char_class] if char_class >= 0 else _DEAD
            if state < 0:
                return False
        return bool(self.accepting[state])

    def shortest(self) -> str | None:
        """A shortest string, the first in code point order; None for the empty language."""
        return next(self.words(1), None)

    def words(self, limit: int) -> Iterator[str]:
        """At most `limit` strings, shortest first, then in code point order."""
        if self.is_empty():
            return
        longest = self.max_length()
        completes = [self.accepting]  # completes[r][state]: some string of exactly r characters leads on to the end
        found = 0
        while longest is None or len(completes) <= longest + 1:
            if completes[-1][0]:
                for word in self._words_of_length(completes):
                    yield word
                    found += 1
                    if found == limit:
                        return
            completes.append((np.append(completes[-1], False)[self.delta]).any(axis=1))

    def _words_of_length(self, completes: list[np.ndarray]) -> Iterator[str]:
        """Every string of len(completes) - 1 characters in code point order (depth first, no dead ends)."""
        length = len(completes) - 1
        if not length:
            yield ""
            return
        arcs: dict[int, list[tuple[int, int, int]]] = {}  # state -> (lo, hi, target) in code point order
        stack = [self._moves(0, completes[length - 1], arcs)]
        prefix: list[str] = []
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                del prefix[-1:]
            elif len(prefix) == length - 1:
                yield "".join(prefix) + move[0]
            else:
                prefix.append(move[0])
                stack.append(self._moves(move[1], completes[length - len(prefix) - 1], arcs))

    def _moves(self, state: int, useful: np.ndarray, arcs: dict) -> Iterator[tuple[str, int]]:
        """(character, target) in code point order, for the useful targets only."""
        if state not in arcs:
            arcs[state] = sorted((lo, hi, target) for target, chars in self.out(state) for lo, hi in chars.ranges)
        for lo, hi, target in arcs[state]:
            if useful[target]:
                for point in range(lo, hi + 1):
                    yield chr(point), target

    def out(self, state: int) -> list[tuple[int, CharSet]]:
        """(target, characters that lead there) of a state."""
        by_target: dict[int, list[int]] = {}
        for index, target in enumerate(self.delta[state].tolist()):
            if target >= 0:
                by_target.setdefault(target, []).append(index)
        return [(target, self.class_union(tuple(members))) for target, members in sorted(by_target.items())]

    def edges(self) -> Iterator[tuple[int, CharSet, int]]:
        """(source, characters, target) of every pair of states that has an edge."""
        for state in range(self.num_states):
            for target, characters in self.out(state):
                yield state, characters, target

    def class_union(self, members: tuple[int, ...]) -> CharSet:
        """The union of some classes, remembered."""
        if len(members) == 1:
            return self.classes[members[0]]
        known = self._unions.get(members)
        if known is None:
            known = self._unions[members] = CharSet.from_ranges(r for m in members for r in self.classes[m].ranges)
        return known

    @cached_property
    def _unions(self) -> dict[tuple[int, ...], CharSet]:
        return {}

    @cached_property
    def _segments(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n] first code points of runs of one class, int64[n] the class of each run, -1 = surrogates)."""
        runs = sorted((lo, index) for index, members in enumerate(self.classes) for lo, _ in members.ranges)
        runs = sorted([*runs, (0xD800, _DEAD)])
        return np.array([lo for lo, _ in runs]), np.array([index for _, index in runs])


def _reach(sources: np.ndarray, targets: np.ndarray, roots: np.ndarray, num_states: int) -> np.ndarray:
    """bool[num_states]: reached from the roots over the edges source -> target."""
    reached = np.zeros(num_states, dtype=bool)
    reached[roots] = True
    if reached.all():
        return reached
    edges = np.unique(sources * np.int64(num_states) + targets)
    first = np.searchsorted(edges, np.arange(num_states + 1) * num_states).tolist()
    following = (edges % num_states).tolist()
    seen, worklist = reached.tolist(), roots.tolist()
    while worklist:
        state = worklist.pop()
        for target in following[first[state] : first[state + 1]]:
            if not seen[target]:
                seen[target] = True
                worklist.append(target)
    return np.array(seen, dtype=bool)


def align(left: CharDfa, right: CharDfa) -> tuple[tuple[CharSet, ...], np.ndarray, np.ndarray]:
    """The common refinement of the classes: (classes, class of left per class, class of right per class)."""
    if left.classes == right.classes:
        same = np.arange(len(left.classes))
        return left.classes, same, same
    blocks, members = partition([*left.classes, *right.classes])
    count = len(left.classes)
    return tuple(blocks), members[:count].argmax(axis=0), members[count:].argmax(axis=0)


def _product(left: CharDfa, right: CharDfa, accept: np.ufunc, needs: tuple[bool, bool], budget: Budget) -> CharDfa:
    """The reachable product, breadth first, one numpy step per level; `needs`: the pair is dead once that side is."""
    classes, left_class, right_class = align(left, right)
    left_delta, right_delta = _completed(left, left_class), _completed(right, right_class)
    left_sink, right_sink = left.num_states, right.num_states
    width = right_sink + 1
    ids: dict[int, int] = {0: 0}
    frontier, levels = np.zeros(1, dtype=np.int64), []
    while len(frontier):
        a, b = left_delta[frontier // width], right_delta[frontier % width]
        pairs = a * width + b
        dead = (a == left_sink) & (b == right_sink)
        dead |= (a == left_sink) if needs[0] else False
        dead |= (b == right_sink) if needs[1] else False
        pairs[dead] = -1
        levels.append((frontier, pairs))
        fresh = [pair for pair in np.unique(pairs).tolist() if pair >= 0 and pair not in ids]
        for pair in fresh:
            ids[pair] = len(ids)
        budget.check("product of automata", states=len(ids))
        frontier = np.array(fresh, dtype=np.int64)
    states = np.concatenate([level for level, _ in levels])
    rows = np.concatenate([pairs for _, pairs in levels])
    by_pair = np.argsort(states)
    found = by_pair[np.searchsorted(states[by_pair], rows).clip(0, len(states) - 1)]
    delta = np.where(rows >= 0, found, _DEAD).astype(np.int32)
    accepting = accept(
        np.append(left.accepting, False)[states // width], np.append(right.accepting, False)[states % width]
    )
    return CharDfa(classes, delta, accepting).trim()


def _completed(dfa: CharDfa, class_of: np.ndarray) -> np.ndarray:
    """int64[num_states + 1, num_classes]: delta over the finer classes, dead = an extra sink state."""
    delta = np.vstack([dfa.delta[:, class_of], np.full((1, len(class_of)), _DEAD)]).astype(np.int64)
    delta[delta < 0] = dfa.num_states
    return delta
