"""What the tops of its stacks tell about a state: nearly all of its tokens, once for every state with these tops.

Inside of nested blocks every position is a state of its own, for it has other stacks, but most tokens do not read past the end of
the innermost rule. So the state is looked at with nothing known below the first return state of each stack. Tokens that survive
there survive under any stack. Tokens that die die under any stack, unless the automaton had come to the end of what is known: these
are left open and walked with the whole stack. Two levels of return states would leave fewer open, but there are many more of them
to meet: in total slower on all five grammars measured. (XGrammar splits tokens so, per state of a pushdown automaton and before
the request; here it is done for a set of states and their tops at once, when they are first met.)
"""

from __future__ import annotations

import numpy as np

from guided.automaton.kernels import DEAD
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.tops_dfa import TopsDfa
from guided.index.kernels import RANGES, UNKNOWN
from guided.index.row_table import RowTable
from guided.index.slices import Slices
from guided.limits import Budget

_NOTHING_OPEN = np.empty(0, np.int32)


class StackTops:
    """Rows of tops for the states of one automaton."""

    def __init__(self, dfa: LazyDfa, slices: Slices) -> None:
        self._dfa = TopsDfa(dfa)
        self._table = RowTable(self._dfa, slices)

    def settle(self, state: int) -> tuple[np.ndarray, np.ndarray] | None:
        """(uint32[words] tokens that the tops allow, int32[2 n] ranges of nodes that they leave open); None if the tops are all.

        Raises:
            LimitExceeded: the automaton or the rows outgrew their limits.
        """
        tops = self._dfa.tops_of(state)
        if tops == DEAD:
            return None
        row = self._table.row_id(tops)
        if row == UNKNOWN:
            self._table.fill(tops)
            row = self._table.row_id(tops)
        ranges = int(self._table.rows.notes[tops, RANGES])
        return self._table.mask(row), _NOTHING_OPEN if ranges == UNKNOWN else self._table.listed(ranges)

    def use_budget(self, budget: Budget) -> None:
        """What the rows may cost from now on."""
        self._dfa.budget = budget

    @property
    def memory_bytes(self) -> int:
        return self._dfa.memory_bytes + self._table.memory_bytes
