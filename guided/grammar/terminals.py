"""Terminals in, byte edges of a network out; knows no rules.

Short terminals are written where they are used, each other one becomes a rule of the network that all its uses call.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guided.automaton.charset import CharSet, partition
from guided.automaton.encoding import Utf8Encoder
from guided.automaton.network import Network
from guided.errors import ConstraintError
from guided.grammar.rules import CharacterClass, Literal, Pattern, Place, SpecialToken, Terminal
from guided.grammar.terminal_automaton import DEAD, DONE, TerminalAutomaton, build_terminal
from guided.grammar.terminal_program import parse_program
from guided.grammar.watches import NO_WATCH, TerminalVariant, TerminalVariants, literal_sets
from guided.limits import Budget

_INLINED_ARCS = 8  # a terminal with at most so many arcs is copied where it is used,
_COPIES = 4  # up to so many times; from then on its uses call one rule


class TerminalWriter:
    """Adds terminals to a network."""

    def __init__(self, network: Network, terminals: TerminalVariants) -> None:
        self._network = network
        self._terminals = terminals
        self._encoder = Utf8Encoder(network)
        self._rules: dict[tuple[int, int, frozenset[int]], int] = {}
        self._copies: dict[tuple[int, int, frozenset[int]], int] = {}
        self._landings: dict[tuple[tuple[int, int], ...], int] = {}

    def write(self, number: int, watch: int, source: int, exits: Mapping[int, int]) -> None:
        """From source over the terminal, entered with a watch, to the state for the watch that it leaves."""
        match self._terminals.terminals[number]:
            case SpecialToken(name):
                return self._network.special_token(source, name, self.landing(exits))
            case Literal() as literal if not self._terminals.needs_variant(number, watch):
                return self._write_literal(literal, source, self.landing(exits))
            case CharacterClass(ranges) if not self._terminals.needs_variant(number, watch):
                return self._encoder.char(source, CharSet.from_ranges(ranges), exits[NO_WATCH])
        variant = self._terminals.variant(number, watch)
        key = (number, watch, frozenset(exits))
        if variant.num_arcs <= _INLINED_ARCS and self._copies.get(key, 0) < _COPIES:
            self._copies[key] = self._copies.get(key, 0) + 1
            return self._embed(variant, source, exits)
        if key not in self._rules:
            self._rules[key] = self._rule(variant, sorted(exits))
        return self._network.call(source, self._rules[key], self.landing(exits))

    def _write_literal(self, literal: Literal, source: int, target: int) -> None:
        if not literal.ignore_case:
            return self._encoder.text(source, literal.text, target)
        sets = literal_sets(literal)
        for characters in sets[:-1]:
            following = self._network.state()
            self._encoder.char(source, characters, following)
            source = following
        return self._encoder.char(source, sets[-1], target)

    def landing(self, exits: Mapping[int, int]) -> int:
        """The state to return to from a rule with these exits."""
        if len(exits) == 1:
            return next(iter(exits.values()))
        key = tuple(sorted(exits.items()))
        if key not in self._landings:
            self._landings[key] = self._network.state()
            for exit, target in key:
                self._network.resume(self._landings[key], exit, target)
        return self._landings[key]

    def _rule(self, variant: TerminalVariant, exits: list[int]) -> int:
        rule, start = self._network.rule(), self._network.state()
        if len(exits) == 1:
            ends = {exits[0]: self._network.state(final=True)}
        else:
            ends = {exit: self._network.state(exit=exit) for exit in exits}
        self._embed(variant, start, ends)
        self._network.define(rule, start)
        return rule

    def _embed(self, variant: TerminalVariant, source: int, exits: Mapping[int, int]) -> None:
        """Copies an automaton between source and the states of the exits, without what leads to other exits only."""
        alive = variant.reaching(exits)
        states = [self._network.state() if lives else DEAD for lives in alive]
        self._network.epsilon(source, states[0])
        for state, mapped in enumerate(states):
            if mapped == DEAD:
                continue
            for characters, following in variant.arcs[state]:
                if alive[following]:
                    self._encoder.char(mapped, characters, states[following])
            exit = variant.exit[state]
            if exit is not None and exit in exits:
                self._network.epsilon(mapped, exits[exit])


class TerminalAutomata:
    """The automaton of each terminal, built once."""

    def __init__(
        self, budget: Budget, places: Mapping[Terminal, Place] = MappingProxyType({}), source: str = ""
    ) -> None:
        """`places`, `source`: of terminals in the grammar's text, for refusals."""
        self._budget = budget
        self._places = places
        self._source = source
        self._known: dict[Terminal, TerminalAutomaton] = {}

    def __call__(self, terminal: Terminal) -> TerminalAutomaton:
        """The automaton of a terminal, over characters.

        Raises:
            InvalidConstraint, UnsupportedKeyword, LimitExceeded: see `terminal_program`, `terminal_automaton`.
        """
        known = self._known.get(terminal)
        if known is None:
            try:
                known = self._known[terminal] = self._build(terminal)
            except ConstraintError as error:
                place = self._places.get(terminal)
                if place is not None:
                    error.at(line=place.line, column=place.column, source=self._source)
                raise
        return known

    def _build(self, terminal: Terminal) -> TerminalAutomaton:
        match terminal:
            case Literal() as literal:
                return _chain(literal_sets(literal))
            case CharacterClass(ranges):
                return _chain([CharSet.from_ranges(ranges)])
            case Pattern(regex, name):
                return self._from_pattern(regex, name)
        raise AssertionError("a special token is not made of characters")

    def _from_pattern(self, regex: str, name: str) -> TerminalAutomaton:
        return build_terminal(parse_program(regex, name, self._budget), name, self._budget)


def _chain(sets: list[CharSet]) -> TerminalAutomaton:
    """One character of each set, in order."""
    distinct = list(dict.fromkeys(sets))
    classes, members = partition(distinct)
    rows = [
        tuple(state + 1 if inside else DEAD for inside in members[distinct.index(characters)])
        for state, characters in enumerate(sets)
    ]
    rows.append((DEAD,) * len(classes))
    accepting = tuple(state == len(sets) for state in range(len(rows)))
    return TerminalAutomaton(
        tuple(classes), tuple(rows), accepting, (DONE,) * len(rows), ((DONE,) * len(classes),), (False,)
    )
