"""Variants of rules and terminals in, a network over bytes out; knows no grammar syntax and no watches' meaning."""

from __future__ import annotations

from collections.abc import Mapping

from guided.automaton.network import Network
from guided.grammar.longest_match import DemandKey, WatchedRule
from guided.grammar.terminals import TerminalWriter
from guided.grammar.watches import TerminalVariants
from guided.limits import Budget


def write_network(
    root: DemandKey, rules: Mapping[DemandKey, WatchedRule], terminals: TerminalVariants, budget: Budget
) -> Network:
    """The network of all variants, `root` being what the output matches.

    Raises:
        LimitExceeded: too many states.
    """
    network = Network()
    end = network.state(final=True)  # no edges: a call to here costs no stack
    numbers = {key: network.rule() for key in rules}
    writer = TerminalWriter(network, terminals)
    for key, rule in rules.items():
        _RuleWriter(network, writer, numbers, end, key, rule).write()
        budget.check("the network of the grammar", states=len(network.final))
    network.root = numbers[root]
    return network


class _RuleWriter:
    """Writes one variant of a rule."""

    def __init__(
        self,
        network: Network,
        writer: TerminalWriter,
        numbers: Mapping[DemandKey, int],
        end: int,
        key: DemandKey,
        rule: WatchedRule,
    ) -> None:
        self._network = network
        self._writer = writer
        self._numbers = numbers
        self._end = end
        self._key = key
        self._rule = rule
        self._plain = len(key[2]) == 1  # one exit needs no name
        self._ends = {number: exit for number, exit in enumerate(rule.exit) if exit is not None}
        self._bare_ends = {number for number in self._ends if not rule.arcs[number] and not rule.empty[number]}
        self._states = [self._state(number) for number in range(len(rule.arcs))]
        self._reachable_ends: dict[int, frozenset[int]] = {}

    def write(self) -> None:
        network = self._network
        for number, source in enumerate(self._states):
            for target in self._rule.empty[number]:
                network.epsilon(source, self._states[target])
            for symbol, exits in self._rule.arcs[number]:
                if len(symbol) == 2:
                    self._writer.write(*symbol, source, {exit: self._states[target] for exit, target in exits.items()})
                else:
                    self._call(source, symbol, exits)
        network.define(self._numbers[self._key], self._states[0])

    def _state(self, number: int) -> int:
        exit = self._rule.exit[number]
        if exit is None:
            return self._network.state()
        if not self._plain:
            return self._network.state(exit=exit)
        return self._end if number and number in self._bare_ends else self._network.state(final=True)

    def _call(self, source: int, callee: DemandKey, exits: dict[int, int]) -> None:
        number = self._numbers[callee]
        if self._is_tail(callee, exits):
            self._network.call(source, number, self._end)
        else:
            landing = self._writer.landing({exit: self._states[target] for exit, target in exits.items()})
            self._network.call(source, number, landing, absorbing=self._is_absorbing(exits))

    def _is_tail(self, callee: DemandKey, exits: dict[int, int]) -> bool:
        """Would the caller end right where, and as, the called rule ends?

        It does where it only ends there, and where it calls itself: what may follow there, the called rule may read as well.
        """
        targets = set(exits.values())
        if self._plain:  # neither may name its exit
            return len(exits) == 1 and (
                targets <= self._bare_ends or (callee == self._key and targets == self._ends.keys())
            )
        if len(exits) == 1 or any(self._rule.exit[target] != exit for exit, target in exits.items()):
            return False
        return targets <= self._bare_ends or (callee == self._key and targets == self._ends.keys())

    def _is_absorbing(self, exits: dict[int, int]) -> bool:
        """Is a return to these states idempotent? It is if, from them, the rule ends only in them, each with its exit."""
        targets = set(exits.values())
        if not targets <= self._ends.keys() or (len(exits) == 1) != self._plain:
            return False
        if not self._plain and any(self._rule.exit[target] != exit for exit, target in exits.items()):
            return False
        return all(self._ends_from(target) <= targets for target in targets)

    def _ends_from(self, number: int) -> frozenset[int]:
        """The final states that a state can reach within the rule."""
        known = self._reachable_ends.get(number)
        if known is None:
            reached, worklist = {number}, [number]
            while worklist:
                state = worklist.pop()
                followers = self._rule.empty[state] + [t for _, exits in self._rule.arcs[state] for t in exits.values()]
                for target in followers:
                    if target not in reached:
                        reached.add(target)
                        worklist.append(target)
            known = self._reachable_ends[number] = frozenset(reached & self._ends.keys())
        return known
