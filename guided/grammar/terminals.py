"""Terminals in, byte edges of a network out; knows no rules.

Short terminals are written where they are used, each other one becomes a rule of the network that all its uses call.
"""

from __future__ import annotations

import re

from guided.automaton.charset import CharSet
from guided.automaton.encoding import Utf8Encoder
from guided.automaton.network import Network, special_token_bytes
from guided.grammar.rules import CharacterClass, Literal, Pattern, SpecialToken, Terminal
from guided.grammar.terminal_automaton import TerminalAutomaton, build_terminal
from guided.grammar.terminal_program import parse_program
from guided.limits import Budget

_INLINED_ARCS = 8  # a terminal with at most this many arcs is copied to each use


class TerminalWriter:
    """Adds terminals to a network."""

    def __init__(self, network: Network, budget: Budget) -> None:
        self._network = network
        self._budget = budget
        self._encoder = Utf8Encoder(network)
        self._automata: dict[Terminal, TerminalAutomaton] = {}
        self._rules: dict[Terminal, int] = {}

    def write(self, terminal: Terminal, source: int, target: int) -> None:
        """From source to target over the terminal."""
        match terminal:
            case SpecialToken(name):
                self._network.literal(source, special_token_bytes(name), target)
            case Literal(text, ignore_case=False):
                self._encoder.text(source, text, target)
            case CharacterClass(ranges):
                self._encoder.char(source, CharSet.from_ranges(ranges), target)
            case _:
                self._write_automaton(terminal, source, target)

    def _write_automaton(self, terminal: Literal | Pattern, source: int, target: int) -> None:
        automaton = self.automaton(terminal)
        if automaton.num_arcs <= _INLINED_ARCS:
            self._embed(automaton, source, target)
            return
        if terminal not in self._rules:
            self._rules[terminal] = self._network.rule()
            start, end = self._network.state(), self._network.state(final=True)
            self._embed(automaton, start, end)
            self._network.define(self._rules[terminal], start)
        self._network.call(source, self._rules[terminal], target)

    def _embed(self, automaton: TerminalAutomaton, source: int, target: int) -> None:
        """Copies an automaton between two states; its start state is a state of its own."""
        states = [self._network.state() for _ in automaton.rows]
        self._network.epsilon(source, states[0])
        for state, mapped in enumerate(states):
            for characters, following in automaton.arcs(state):
                self._encoder.char(mapped, characters, states[following])
            if automaton.accepting[state]:
                self._network.epsilon(mapped, target)

    def automaton(self, terminal: Literal | Pattern) -> TerminalAutomaton:
        """The automaton of a terminal, over characters."""
        known = self._automata.get(terminal)
        if known is None:
            pattern, name = _pattern(terminal)
            known = self._automata[terminal] = build_terminal(
                parse_program(pattern, name, self._budget), name, self._budget
            )
        return known

    def write_ignored(self, ignored: tuple[Terminal, ...], target: int) -> int:
        """A state that leads to target over any number of ignored terminals."""
        source = self._network.state()
        self._network.epsilon(source, target)
        for terminal in ignored:
            self.write(terminal, source, source)
        return source


def _pattern(terminal: Literal | Pattern) -> tuple[str, str]:
    """(regular expression, name for messages)."""
    if isinstance(terminal, Pattern):
        return terminal.regex, terminal.name
    escaped = re.escape(terminal.text)
    return (f"(?i:{escaped})" if terminal.ignore_case else escaped), repr(terminal.text)
