"""Rule automata and terminals in, a network over bytes out; knows no grammar syntax.

Ignored terminals are read after each terminal and once at the beginning, so each place where they may stand has exactly one
state that reads them.
"""

from __future__ import annotations

from guided.automaton.network import Network
from guided.grammar.rule_automaton import RuleAutomaton, Symbols
from guided.grammar.rules import Terminal
from guided.grammar.terminals import TerminalWriter
from guided.limits import Budget


class NetworkBuilder:
    """Writes the automata of the rules that are still called into one network."""

    def __init__(self, symbols: Symbols, ignore: tuple[Terminal, ...], budget: Budget) -> None:
        self.network = Network()
        self._symbols = symbols
        self._budget = budget
        self._terminals = TerminalWriter(self.network, budget)
        self._ignore = ignore
        self._rules: dict[int, int] = {}
        self._end = self.network.state(final=True)  # no edges: a call to here costs no stack

    def build(self, rules: dict[int, RuleAutomaton], start: int, nullable: bool) -> Network:
        """The network of the rules by number; the root matches the start rule, and the empty string if `nullable`."""
        network = self.network
        for rule in rules:
            self._rules[rule] = network.rule()
        root = network.rule()
        begin = network.state(final=nullable)
        network.define(root, self._ignoring(begin))
        network.call(begin, self._rules[start], self._end)
        network.root = root
        for rule, automaton in rules.items():
            self._write_rule(rule, automaton)
            self._budget.check("the network of the grammar", states=len(network.final))
        return network

    def _write_rule(self, rule: int, automaton: RuleAutomaton) -> None:
        network = self.network
        states = [
            self._end if final and not arcs else network.state(final=final)
            for arcs, final in zip(automaton.arcs, automaton.final, strict=True)
        ]
        after_terminal: dict[int, int] = {}
        ends = [state for state, final in enumerate(automaton.final) if final]
        for source, arcs in enumerate(automaton.arcs):
            for symbol, target in arcs:
                if symbol >= 0:
                    if target not in after_terminal:
                        after_terminal[target] = self._ignoring(states[target])
                    self._terminals.write(self._symbols.terminals[symbol], states[source], after_terminal[target])
                elif ~symbol == rule and ends == [target]:
                    # The called rule ends in its one final state, too, and what may follow there may follow twice.
                    network.call(states[source], self._rules[rule], self._end)
                else:
                    network.call(states[source], self._rules[~symbol], states[target])
        network.define(self._rules[rule], states[0])

    def _ignoring(self, target: int) -> int:
        """A state from which ignored terminals are read, any number, before target."""
        return self._terminals.write_ignored(self._ignore, target) if self._ignore else target
