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
from guided.index.kernels import RANGES
from guided.index.row_table import RowTable
from guided.index.rows import UNKNOWN
from guided.index.slices import Slices
from guided.limits import Budget

_FEW_NODES = 4096  # that are walked sooner than new tops are filled
_NOTHING_OPEN = np.empty(0, np.int32)


class StackTops:
    """Rows of tops for the states of one automaton.

    Attributes:
        automaton, table: of the tops.
    """

    def __init__(self, dfa: LazyDfa, slices: Slices) -> None:
        self.automaton = TopsDfa(dfa)
        self.table = RowTable(self.automaton, slices)
        self._settling: dict[int, bool] = {}

    def of(self, state: int) -> int | None:
        """The tops of a state, with their row; None if they are all that there is.

        Raises:
            LimitExceeded: the automaton or the rows outgrew their limits.
        """
        tops = self.automaton.tops_of(state, without_base=True)
        if tops == DEAD:
            return None
        self._fill(tops)
        if self._settles(tops):
            return tops
        tops = self.automaton.tops_of(state, without_base=False)
        if tops == DEAD:
            return None
        self._fill(tops)
        return tops

    def _fill(self, tops: int) -> None:
        if self.table.row_id(tops) == UNKNOWN:
            self.table.fill(tops)

    def _settles(self, tops: int) -> bool:
        """Is little left open, so that it pays to know no more?"""
        known = self._settling.get(tops)
        if known is None:
            ranges = self.open_ranges(tops)
            known = self._settling[tops] = int((ranges[1::2] - ranges[::2]).sum()) <= _FEW_NODES
        return known

    def allowed(self, tops: int) -> np.ndarray:
        """uint32[words]: tokens that are allowed whatever is below."""
        return self.table.mask(self.table.row_id(tops))

    def open_ranges(self, tops: int) -> np.ndarray:
        """int32[2 n]: ranges of nodes whose tokens depend on what is below, as `kernels._walk` takes them."""
        begin = int(self.table.rows.notes[tops, RANGES])
        return _NOTHING_OPEN if begin == UNKNOWN else self.table.listed(begin)

    def use_budget(self, budget: Budget) -> None:
        """What the rows may cost from now on."""
        self.automaton.budget = budget

    @property
    def memory_bytes(self) -> int:
        return self.automaton.memory_bytes + self.table.memory_bytes
