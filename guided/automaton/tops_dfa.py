"""A second automaton of a network, for states of which only the tops of the stacks are known; see `guided.index.stack_tops`."""

from __future__ import annotations

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import CLASSES, IS_OF_TOPS, new_machine
from guided.automaton.packed import nbytes


class TopsDfa(LazyDfa):
    """It has states of its own; the mirror of the network and the byte classes are another automaton's.

    A state is one of the other automaton with the top of each of its stacks and any stacks below (`kernels.intern_tops`). It reads what
    the other one reads until a call returns below what is kept; from there on it is marked ESCAPES. It remembers no text, so that it
    ends where a question (ASKS) would have to be answered.
    """

    def __init__(self, of: LazyDfa) -> None:
        self._of = of
        self.budget = of.budget
        self.split_from = of.split_from
        self.machine = new_machine(of.machine.delta.shape[1])
        self.machine.counts[CLASSES] = of.num_classes
        self.machine.counts[IS_OF_TOPS] = 1
        self.machine = self.machine._replace(class_of=of.machine.class_of.copy())
        self.network = of.network

    @property
    def network_size(self) -> tuple[int, int, int, int]:
        return self._of.network_size

    def build_rules(self, rules: list[int]) -> None:
        self._of.build_rules(rules)
        self.follow()

    @property
    def memory_bytes(self) -> int:
        return nbytes(self.machine)

    def follow(self) -> None:
        """Takes over what the other automaton has learnt about the network since the last time: before each use of the arrays."""
        self.network = self._of.network
        if self.num_classes < self._of.num_classes:
            self._split_columns(self._of.num_classes)
            self.machine.class_of[:] = self._of.machine.class_of
