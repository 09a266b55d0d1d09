"""A second automaton of a network, for states of which only the tops of the stacks are known; see `guided.index.stack_tops`."""

from __future__ import annotations

from guided.automaton import kernels
from guided.automaton.direct import direct
from guided.automaton.kernels import CLASSES, IS_OF_TOPS
from guided.automaton.lazy_dfa import LazyDfa, new_machine


class TopsDfa(LazyDfa):
    """It has states of its own; the mirror of the network and the byte classes are another automaton's."""

    def __init__(self, of: LazyDfa) -> None:
        self._of = of
        self.budget = of.budget
        self.machine = new_machine(of.machine.delta.shape[1])
        self.machine.counts[CLASSES] = of.num_classes
        self.machine.counts[IS_OF_TOPS] = 1
        self.machine = self.machine._replace(class_of=of.machine.class_of.copy())
        self.network = of.network

    def tops_of(self, state: int, without_base: bool) -> int:
        """The state here with the top of each stack of the other automaton's state and any stacks below; DEAD if there are only tops.

        It reads what the other one reads until a call returns below what is kept; from there on it is marked ESCAPES. It remembers
        no text, so that it ends where a question (ASKS) would have to be answered.

        Args:
            without_base: of the stacks that the state's innermost rule was called with, which are below all others, nothing is kept.
        """
        self.follow()
        return self.run(lambda: direct(kernels.intern_tops)(self._of.machine, state, without_base, self.machine))

    @property
    def network_size(self) -> tuple[int, int, int, int]:
        return self._of.network_size

    def build_rule(self, rule: int) -> None:
        self._of.build_rule(rule)
        self.follow()

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.machine)

    def follow(self) -> None:
        """Takes over what the other automaton has learnt about the network since the last time: before each use of the arrays."""
        if self.network is self._of.network:  # it is another one for every rule that was built
            return
        self.network = self._of.network
        for new in range(self.num_classes, self._of.num_classes):
            self._copy_column(new, self._of.split_from[new])
        self.machine = self.machine._replace(class_of=self._of.machine.class_of.copy())
        self.machine.counts[CLASSES] = self._of.num_classes
