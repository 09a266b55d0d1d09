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

from guided.automaton.direct import direct
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import ASKS, DEAD, DONE
from guided.automaton.tops_dfa import TopsDfa
from guided.index import kernels
from guided.index.kernels import RANGES
from guided.index.row_table import RowTable
from guided.index.rows import UNKNOWN
from guided.index.slices import Slices
from guided.limits import Budget

_NOTHING_OPEN = np.empty(0, np.int32)


class StackTops:
    """Rows of tops for the states of one automaton.

    Attributes:
        automaton, table: of the tops.
    """

    def __init__(self, dfa: LazyDfa, slices: Slices) -> None:
        self._dfa = dfa
        self.automaton = TopsDfa(dfa)
        self.table = RowTable(self.automaton, slices)
        self._by_kind: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, state: int) -> int | None:
        """The tops of a state, with their row; None if they are all that there is.

        Raises:
            LimitExceeded: the automaton or the rows outgrew their limits.
        """
        self.automaton.follow()
        tops = self.table.run(lambda: direct(kernels.look_at_tops)(self._dfa.machine, *self.table.arrays(), state))
        return None if tops == DEAD else tops

    def fill(self, table: RowTable, state: int) -> None:
        """Computes the row of a state of the whole automaton by its tops, if there is more to its stacks, in one kernel call mostly.

        Args:
            table: of the whole automaton.

        Raises:
            LimitExceeded: one of the automata or the rows outgrew their limits.
        """
        self.table.begin()
        table.begin()
        while True:
            self.automaton.follow()
            status, of_tops = direct(kernels.fill_by_tops)(self._dfa.machine, table.rows, *self.table.arrays(), state)
            if status == DONE:
                return
            (self.table if of_tops else table).attend(status)

    def allowed(self, tops: int) -> np.ndarray:
        """uint32[words]: tokens that are allowed whatever is below."""
        return self.table.mask(self.table.row_id(tops))

    def open_ranges(self, tops: int) -> np.ndarray:
        """int32[2 n]: ranges of nodes whose tokens depend on what is below, as `kernels._walk` takes them."""
        begin = int(self.table.rows.notes[tops, RANGES])
        return _NOTHING_OPEN if begin == UNKNOWN else self.table.listed(begin)

    def open_by_kind(self, tops: int) -> tuple[np.ndarray, np.ndarray]:
        """`open_ranges`, those apart that come after a question: of states that remember, only they depend on what was read."""
        known = self._by_kind.get(tops)
        if known is None:
            known = self._by_kind[tops] = self._sorted_by_kind(tops)
        return known

    def _sorted_by_kind(self, tops: int) -> tuple[np.ndarray, np.ndarray]:
        machine, nodes = self.automaton.machine, self.table.slices.nodes
        path, asked, above = [tops], [bool(machine.flags[tops, ASKS])], [0]
        kinds: tuple[list[int], list[int]] = ([], [])
        written = [0, 0]  # so many nodes of the branch are among the ranges of the kind
        ranges = self.open_ranges(tops).tolist()
        for node, end in zip(ranges[::2], ranges[1::2], strict=True):
            while node < end:
                byte, depth, subtree_end, _ = nodes[node].tolist()
                written = [min(done, depth) for done in written]
                target = int(machine.delta[path[depth], machine.class_of[byte]])
                if target != DEAD:
                    path[depth + 1 :], above[depth:] = [target], [node]
                    asked[depth + 1 :] = [asked[depth] or bool(machine.flags[target, ASKS])]
                    node += 1
                    continue
                kind = int(asked[depth])
                for place in range(written[kind], depth):
                    kinds[kind].extend((above[place], above[place] + 1))
                written[kind] = depth
                kinds[kind].extend((node, subtree_end))
                node = subtree_end
        return np.array(kinds[0], np.int32), np.array(kinds[1], np.int32)

    def use_budget(self, budget: Budget) -> None:
        """What the rows may cost from now on."""
        self.automaton.budget = budget

    @property
    def memory_bytes(self) -> int:
        return self.automaton.memory_bytes + self.table.memory_bytes
