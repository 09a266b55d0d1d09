"""A state goes in; how many bytes complete the answer at most, whichever token comes next, goes out. An upper bound, soon found.

Found token by token this would cost every state of nested blocks a walk over the vocabulary. So the tokens that the tops of its stacks
allow (see `guided.index.stack_tops`) are looked at once for all states with these tops, up to where what is known ends; from there
it is at most what the stacks need below. The few other tokens are looked at one by one.
"""

from __future__ import annotations

import numpy as np

from guided.automaton.endings import FAR, NOT_ALONE, Endings, TopsEndings
from guided.errors import LimitExceeded
from guided.index.row_table import RowTable
from guided.index.shortest import add_range_successors, add_successors
from guided.index.stack_tops import StackTops
from guided.index.targets import text_targets
from guided.index.token_index import StateId, TokenIndex

_MEMO_STATES = 1 << 16


class Overshoot:
    """The bounds of one index that grows."""

    def __init__(self, index: TokenIndex, endings: Endings) -> None:
        self._index = index
        self._endings = endings
        self._longest = endings.longest
        self._known: dict[StateId, int] = {}
        self._tops: StackTops | None = None
        self._tops_endings: TopsEndings | None = None
        self._known_tops: dict[int, int] = {}

    def most_bytes(self, state: StateId) -> int:
        """Bytes of the completion after the worst token that is allowed; very large where some completion is not known.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        if self._longest < NOT_ALONE:
            return self._longest
        most = self._known.get(state)
        if most is None:
            if len(self._known) >= _MEMO_STATES:
                self._known.clear()
            most = self._known[state] = self._find(state)
        return most

    def _find(self, state: StateId) -> int:
        index = self._index
        state = index.automaton.answered(state)
        index.mask(state)
        found = index.tops_of(state)
        if found is None:
            return _longest(self._endings, _successors(index.table, state))
        stack_tops, tops = found
        if _longest(self._endings, np.array([state])) >= FAR:  # builds the rules on the way to its end
            return int(FAR)
        most = self._most_bytes_of_tops(stack_tops, tops) + self._endings.below(state)
        ranges = stack_tops.open_ranges(tops)
        if ranges.size:
            most = max(most, _longest(self._endings, _range_successors(index.table, state, ranges)))
        return most

    def after_tops(self, state: StateId) -> tuple[np.ndarray, np.ndarray]:
        """(int32[vocabulary]: the tops after each token, DEAD where they leave it open; int64[tops]: bytes after each of them at most).

        For states that remember what was read, of which each token leads to another one.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        found = self._index.tops_of(state)
        assert found is not None, "what is remembered is below a mark"
        stack_tops, tops = found
        self._follow_tops(stack_tops)
        targets = text_targets(stack_tops.automaton, self._index.vocabulary, tops)
        if _longest(self._endings, np.array([state])) >= FAR:  # builds the rules on the way to its end
            return targets, np.full(int(targets.max()) + 1, FAR)
        lengths = np.zeros(int(targets.max()) + 1, np.int64)
        reached = np.unique(targets[targets >= 0])
        assert self._tops_endings is not None
        lengths[reached] = self._tops_endings.lengths(reached) + self._endings.below(state)
        return targets, lengths

    def _follow_tops(self, stack_tops: StackTops) -> None:
        if self._tops is not stack_tops:
            self._tops, self._tops_endings = stack_tops, TopsEndings(stack_tops.automaton, self._endings)
            self._known_tops = {}

    def _most_bytes_of_tops(self, stack_tops: StackTops, tops: int) -> int:
        self._follow_tops(stack_tops)
        assert self._tops_endings is not None
        most = self._known_tops.get(tops)
        stack_tops.automaton.follow()
        if most is None:
            most = self._known_tops[tops] = _longest(self._tops_endings, _successors(stack_tops.table, tops))
        return most


def _longest(endings: Endings, states: np.ndarray) -> int:
    try:
        return int(endings.lengths(states).max(initial=0))
    except LimitExceeded:
        return int(FAR)


def _successors(table: RowTable, state: int) -> np.ndarray:
    """int32[n]: the states after one token, where the row is known; perhaps more, for a bound is all that is asked."""
    found = np.empty(0, np.int32)

    def collect() -> int:
        nonlocal found
        room, seen = _room(table)
        status, count = add_successors(*table.arrays(), state, False, room, seen, 0, 0)
        found = room[:count]
        return status

    table.run(collect)
    return found


def _range_successors(table: RowTable, state: int, ranges: np.ndarray) -> np.ndarray:
    """The same for the tokens of ranges of nodes alone."""
    found = np.empty(0, np.int32)

    def collect() -> int:
        nonlocal found
        room, seen = _room(table)
        network, machine, slices, _, rows = table.arrays()
        status, count = add_range_successors(network, machine, slices, rows.path, ranges, state, room, seen, 0, 0)
        found = room[:count]
        return status

    table.run(collect)
    return found


def _room(table: RowTable) -> tuple[np.ndarray, np.ndarray]:
    """As `add_successors` takes them, for every state that the automaton has room for."""
    room = len(table.dfa.machine.flags)
    return np.empty(room, np.int32), np.full(room, -1, np.int32)
