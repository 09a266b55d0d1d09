"""Non-deterministic automata over characters: built state by state by a front end; determinised here, or embedded as they are.

`CharNfa` is Thompson's automaton with sets of characters on its edges. `determinise` is the subset construction (Rabin
and Scott, 1959) over the coarsest partition of the characters that the edges tell apart.
"""

from __future__ import annotations

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet, partition
from guided.limits import Budget


class CharNfa:
    """An automaton under construction: `arcs[state]` = (set, target) pairs, `empty[state]` = targets that are reached unread.

    `all_live`: the builder knows that every state reaches an accepting one, which spares `live` the search.
    """

    def __init__(self) -> None:
        self.all_live = False
        self.arcs: list[list[tuple[CharSet, int]]] = []
        self.empty: list[list[int]] = []
        self.accepting: set[int] = set()
        self.start = self.state()

    def state(self, accepting: bool = False) -> int:
        """A new state."""
        self.arcs.append([])
        self.empty.append([])
        if accepting:
            self.accepting.add(len(self.arcs) - 1)
        return len(self.arcs) - 1

    def arc(self, source: int, characters: CharSet, target: int) -> None:
        """From source to target over one character of the set; an empty set adds nothing."""
        if characters:
            self.arcs[source].append((characters, target))

    def epsilon(self, source: int, target: int) -> None:
        """From source to target, reading nothing."""
        self.empty[source].append(target)

    @property
    def num_states(self) -> int:
        return len(self.arcs)

    def include(self, other: CharNfa | CharDfa) -> tuple[int, list[int]]:
        """Copies another automaton in; returns its start state and its accepting states, which do not accept here."""
        other = from_dfa(other) if isinstance(other, CharDfa) else other
        base = self.num_states
        self.arcs += [[(characters, base + target) for characters, target in arcs] for arcs in other.arcs]
        self.empty += [[base + target for target in empty] for empty in other.empty]
        return base + other.start, [base + state for state in sorted(other.accepting)]

    def closure(self, states: set[int]) -> frozenset[int]:
        """The states and all that empty edges reach from them."""
        if not any(self.empty[state] for state in states):
            return frozenset(states)
        reached, worklist = set(states), list(states)
        while worklist:
            for target in self.empty[worklist.pop()]:
                if target not in reached:
                    reached.add(target)
                    worklist.append(target)
        return frozenset(reached)

    def live(self) -> list[bool]:
        """Per state: can an accepting state be reached?"""
        if self.all_live:
            return [True] * self.num_states
        sources: list[list[int]] = [[] for _ in self.arcs]
        for state, (arcs, empty) in enumerate(zip(self.arcs, self.empty, strict=True)):
            for _, target in arcs:
                sources[target].append(state)
            for target in empty:
                sources[target].append(state)
        alive, worklist = [False] * self.num_states, list(self.accepting)
        for state in worklist:
            alive[state] = True
        while worklist:
            for source in sources[worklist.pop()]:
                if not alive[source]:
                    alive[source] = True
                    worklist.append(source)
        return alive

    def is_empty(self) -> bool:
        """Does it match no string at all?"""
        return not self.live()[self.start]


def literal(text: str) -> CharNfa:
    """The automaton of one string."""
    nfa = CharNfa()
    state = nfa.start
    for character in text:
        following = nfa.state()
        nfa.arc(state, CharSet.of(character), following)
        state = following
    nfa.accepting.add(state)
    return nfa


def concat(*parts: CharNfa | CharDfa) -> CharNfa:
    """One string of each part, in order."""
    nfa = CharNfa()
    ends = [nfa.start]
    for part in parts:
        start, accepting = nfa.include(part)
        for end in ends:
            nfa.epsilon(end, start)
        ends = accepting
    nfa.accepting.update(ends)
    return nfa


def union(*parts: CharNfa | CharDfa) -> CharNfa:
    """A string of any of the parts."""
    nfa = CharNfa()
    for part in parts:
        start, accepting = nfa.include(part)
        nfa.epsilon(nfa.start, start)
        nfa.accepting.update(accepting)
    return nfa


def star(part: CharNfa | CharDfa) -> CharNfa:
    """Any number of strings of the part, one after the other."""
    nfa = CharNfa()
    start, accepting = nfa.include(part)
    nfa.accepting.add(nfa.start)
    nfa.epsilon(nfa.start, start)
    for state in accepting:
        nfa.epsilon(state, nfa.start)
    return nfa


def reverse(part: CharNfa | CharDfa) -> CharNfa:
    """The strings of the part read backwards."""
    part = from_dfa(part) if isinstance(part, CharDfa) else part
    nfa = CharNfa()
    states = [nfa.state() for _ in range(part.num_states)]
    for source in range(part.num_states):
        for characters, target in part.arcs[source]:
            nfa.arc(states[target], characters, states[source])
        for target in part.empty[source]:
            nfa.epsilon(states[target], states[source])
    for state in part.accepting:
        nfa.epsilon(nfa.start, states[state])
    nfa.accepting.add(states[part.start])
    return nfa


def from_dfa(dfa: CharDfa) -> CharNfa:
    """The same automaton with sets on its edges."""
    nfa = CharNfa()
    for _ in range(1, dfa.num_states):
        nfa.state()
    for source, characters, target in dfa.edges():
        nfa.arc(source, characters, target)
    nfa.accepting = set(np.flatnonzero(dfa.accepting).tolist())
    return nfa


def determinise(nfa: CharNfa, budget: Budget) -> CharDfa:
    """The subset construction; the result is trimmed, not minimal.

    Raises:
        LimitExceeded: more subsets than `limits.states`, or out of time.
    """
    alive = nfa.live()
    if not alive[nfa.start]:
        return CharDfa.empty()
    blocks, moves = _moves_by_block(nfa, alive)
    start = frozenset(state for state in nfa.closure({nfa.start}) if alive[state])
    everything = _universal(nfa, moves, len(blocks))
    ids, order = {start: 0}, [start]
    rows: list[list[int]] = []
    work = 0
    for subset in order:  # grows while it is walked; a subset of live states is live, so nothing is to be trimmed
        row = [-1] * len(blocks)
        for block, reached in _moves_of(subset, moves).items():
            if not everything.keys().isdisjoint(reached):  # what follows no longer matters
                reached = everything[min(everything.keys() & reached)]
            known = ids.get(reached)
            if known is None:
                known = ids[reached] = len(order)
                order.append(reached)
            row[block] = known
        rows.append(row)
        work += len(subset)
        if work >= 256:
            budget.check("determinisation", states=len(order))
            work = 0
    budget.check("determinisation", states=len(order))
    accepting = np.fromiter((not nfa.accepting.isdisjoint(subset) for subset in order), dtype=bool, count=len(order))
    return CharDfa(tuple(blocks), np.array(rows, dtype=np.int32).reshape(len(order), len(blocks)), accepting)


def _universal(nfa: CharNfa, moves: list[dict[int, frozenset[int]]], blocks: int) -> dict[int, frozenset[int]]:
    """State -> its closed set, for states from which every text is accepted: the end of a pattern that may match anywhere."""
    found: dict[int, frozenset[int]] = {}
    for state, loops in enumerate(moves):
        if len(loops) == blocks and all(state in reached for reached in loops.values()):
            closed = nfa.closure({state})
            if not nfa.accepting.isdisjoint(closed):
                found[state] = closed
    return found


def _moves_of(subset: frozenset[int], moves: list[dict[int, frozenset[int]]]) -> dict[int, frozenset[int]]:
    """Block -> the closed set of states that the subset reaches over it."""
    by_block: dict[int, frozenset[int]] = {}
    for state in subset:
        for block, reached in moves[state].items():
            known = by_block.get(block)
            by_block[block] = reached if known is None else known | reached
    return by_block


def _moves_by_block(nfa: CharNfa, alive: list[bool]) -> tuple[list[CharSet], list[dict[int, frozenset[int]]]]:
    """The partition, and per state: block -> closed set of live targets."""
    distinct = list({characters: None for arcs in nfa.arcs for characters, _ in arcs})
    blocks, members = partition(distinct)
    blocks_of = {characters: np.flatnonzero(members[row]).tolist() for row, characters in enumerate(distinct)}
    closures: dict[int, frozenset[int]] = {}
    moves: list[dict[int, frozenset[int]]] = []
    for arcs in nfa.arcs:
        by_block: dict[int, frozenset[int]] = {}
        for characters, target in arcs:
            if not alive[target]:
                continue
            if target not in closures:
                closures[target] = frozenset(state for state in nfa.closure({target}) if alive[state])
            for block in blocks_of[characters]:
                known = by_block.get(block)
                by_block[block] = closures[target] if known is None else known | closures[target]
        moves.append(by_block)
    return blocks, moves
