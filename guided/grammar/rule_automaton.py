"""Expressions in, one small automaton per rule out, over terminals and rules as symbols; knows no bytes.

A symbol is an int: terminal t is t, rule r is ~r. `RuleNfa` is Thompson's construction; `RuleAutomaton` is what all later
stages work on: no empty edges, start state 0 that nothing leads back to and that does not accept, since the empty string
is taken out of every rule (`nullable`) and put back at its uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from guided.errors import LimitExceeded
from guided.grammar.rules import Choice, Expression, Reference, Repeat, Sequence, Terminal
from guided.limits import Budget

Arc = tuple[int, int]  # (symbol, target)
_SUBSETS_PER_STATE = 8  # beyond this the subset construction is given up and the automaton stays non-deterministic
_NFA_STATES = 20_000  # of one rule, counted repetitions written out
_REFINED_STATES = 600  # larger automata are only merged from the end backwards


class Symbols:
    """Numbers for terminals and rules, both ways."""

    def __init__(self, rule_names: Iterable[str]) -> None:
        self.rule_names = list(rule_names)
        self.rule_ids = {name: number for number, name in enumerate(self.rule_names)}
        self.terminals: list[Terminal] = []
        self._terminal_ids: dict[Terminal, int] = {}

    def terminal(self, terminal: Terminal) -> int:
        """The symbol of a terminal."""
        known = self._terminal_ids.get(terminal)
        if known is None:
            known = self._terminal_ids[terminal] = len(self.terminals)
            self.terminals.append(terminal)
        return known

    def rule(self, name: str) -> int:
        """The symbol of a rule."""
        return ~self.rule_ids[name]


class RuleNfa:
    """`arcs[state]` = (symbol, target) pairs, `empty[state]` = targets reached unread; from `start` 0 to `final` 1."""

    def __init__(self) -> None:
        self.arcs: list[list[Arc]] = [[], []]
        self.empty: list[list[int]] = [[], []]
        self.start, self.final = 0, 1

    def state(self) -> int:
        self.arcs.append([])
        self.empty.append([])
        return len(self.arcs) - 1

    def symbols(self) -> set[int]:
        """Every symbol that occurs."""
        return {symbol for arcs in self.arcs for symbol, _ in arcs}

    def include(self, other: RuleAutomaton, source: int, target: int) -> None:
        """Puts a copy of another automaton between two states."""
        base = len(self.arcs) - 1  # its start state is `source`
        for arcs, final in zip(other.arcs[1:], other.final[1:], strict=True):
            self.arcs.append([(symbol, base + following) for symbol, following in arcs])
            self.empty.append([target] if final else [])
        self.arcs[source] += [(symbol, base + following) for symbol, following in other.arcs[0]]

    def reachable(self, passable: Iterable[int]) -> set[int]:
        """The states that are reached from the start over empty edges and the given symbols."""
        passable = set(passable)
        reached, worklist = {self.start}, [self.start]
        while worklist:
            state = worklist.pop()
            for target in self.empty[state] + [target for symbol, target in self.arcs[state] if symbol in passable]:
                if target not in reached:
                    reached.add(target)
                    worklist.append(target)
        return reached


def build_nfa(expression: Expression, symbols: Symbols, budget: Budget) -> RuleNfa:
    """Thompson's construction, by a worklist instead of recursion.

    Raises:
        LimitExceeded: counted repetitions make too many states.
    """
    nfa = RuleNfa()
    worklist: list[tuple[Expression, int, int]] = [(expression, nfa.start, nfa.final)]
    while worklist:
        item, source, target = worklist.pop()
        match item:
            case Sequence(parts):
                for part in parts[:-1]:
                    following = nfa.state()
                    worklist.append((part, source, following))
                    source = following
                if parts:
                    worklist.append((parts[-1], source, target))
                else:
                    nfa.empty[source].append(target)
            case Choice(options):
                worklist.extend((option, source, target) for option in options)
            case Repeat(inner, low, high):
                _check_size(len(nfa.arcs) + max(low, high or 0))
                worklist.extend(_repetition(nfa, inner, low, high, source, target))
            case Reference(name):
                nfa.arcs[source].append((symbols.rule(name), target))
            case _:
                nfa.arcs[source].append((symbols.terminal(item), target))
    return nfa


def _check_size(states: int) -> None:
    if states > _NFA_STATES:
        raise LimitExceeded(
            f"the grammar is too complex: a rule needs {states:,} states for its repetitions, the limit is {_NFA_STATES:,}",
            limit="states",
        )


def _repetition(nfa: RuleNfa, inner: Expression, low: int, high: int | None, source: int, target: int):
    """The copies of `inner` that a repetition needs, as (expression, source, target)."""
    for _ in range(low):
        following = nfa.state()
        yield inner, source, following
        source = following
    if high is None:
        loop = nfa.state()
        nfa.empty[source].append(loop)
        yield inner, loop, loop
        source = loop
    else:
        for _ in range(high - low):
            nfa.empty[source].append(target)
            following = nfa.state()
            yield inner, source, following
            source = following
    nfa.empty[source].append(target)


@dataclass(slots=True)
class RuleAutomaton:
    """An automaton without empty edges; state 0 starts, nothing leads to it, and it is not final.

    Attributes:
        arcs: per state, (symbol, target) pairs; more than one target for a symbol where subsets would have been too many.
        final: per state.
    """

    arcs: list[list[Arc]]
    final: list[bool]

    def symbols(self) -> set[int]:
        return {symbol for arcs in self.arcs for symbol, _ in arcs}


def determinise(nfa: RuleNfa, nullable: set[int], budget: Budget) -> RuleAutomaton:
    """The subset construction, with nullable rules also passed unread; the language loses the empty string."""
    closures = _closures(nfa, nullable)
    limit = _SUBSETS_PER_STATE * len(nfa.arcs) + 64
    start = closures[nfa.start]
    ids: dict[frozenset[int], int] = {}
    order = [start]
    arcs: list[list[Arc]] = []
    for subset in order:  # grows while it is walked
        moves: dict[int, frozenset[int]] = {}
        for state in subset:
            for symbol, target in nfa.arcs[state]:
                moves[symbol] = moves[symbol] | closures[target] if symbol in moves else closures[target]
        row = []
        for symbol, targets in moves.items():
            if targets not in ids:
                ids[targets] = len(order)
                order.append(targets)
            row.append((symbol, ids[targets]))
        arcs.append(row)
        if len(order) > limit:
            return minimise(_without_empty_edges(nfa, closures))
        if not len(arcs) & 255:
            budget.check("rules of the grammar", states=len(order))
    final = [nfa.final in subset for subset in order]
    final[0] = False  # the start subset is reached again under a number of its own, see `ids`
    return minimise(RuleAutomaton(arcs, final))


def _closures(nfa: RuleNfa, nullable: set[int]) -> list[frozenset[int]]:
    """Per state, what is reached unread."""
    unread = [
        empty + [target for symbol, target in arcs if symbol in nullable] if nullable else empty
        for arcs, empty in zip(nfa.arcs, nfa.empty, strict=True)
    ]
    closures = []
    for state in range(len(unread)):
        if not unread[state]:
            closures.append(frozenset((state,)))
            continue
        reached, worklist = {state}, [state]
        while worklist:
            for target in unread[worklist.pop()]:
                if target not in reached:
                    reached.add(target)
                    worklist.append(target)
        closures.append(frozenset(reached))
    return closures


def _without_empty_edges(nfa: RuleNfa, closures: list[frozenset[int]]) -> RuleAutomaton:
    """The same states and a new start, each with the arcs of its closure."""
    arcs = [list(dict.fromkeys((s, t + 1) for member in closure for s, t in nfa.arcs[member])) for closure in closures]
    return RuleAutomaton([arcs[nfa.start], *arcs], [False, *(nfa.final in closure for closure in closures)])


def minimise(automaton: RuleAutomaton) -> RuleAutomaton:
    """Equal states merged, unreachable ones dropped; the start stays alone.

    From the end backwards in one pass (Revuz, 1992), which is exact where arcs lead on to later states only. With loops it leaves
    equal ones apart: small automata that have some are done by partition refinement (Moore, 1956).
    """
    leads_on = all(target > state for state, arcs in enumerate(automaton.arcs) for _, target in arcs)
    block = _merged_backwards(automaton) if leads_on or len(automaton.arcs) > _REFINED_STATES else _refined(automaton)
    numbers: dict[int, int] = {}
    order = [0]
    numbers[block[0]] = 0
    arcs: list[list[Arc]] = []
    for state in order:  # grows while it is walked
        row = []
        for symbol, target in automaton.arcs[state]:
            if block[target] not in numbers:
                numbers[block[target]] = len(order)
                order.append(target)
            row.append((symbol, numbers[block[target]]))
        arcs.append(list(dict.fromkeys(row)))
    return RuleAutomaton(arcs, [automaton.final[state] for state in order])


def _refined(automaton: RuleAutomaton) -> list[int]:
    """The block of each state; the start is a block of its own."""
    reads = [frozenset(symbol for symbol, _ in arcs) for arcs in automaton.arcs]
    first: dict[tuple, int] = {}
    keys = [(0,), *zip(automaton.final[1:], reads[1:], strict=True)]
    block = [first.setdefault(key, len(first)) for key in keys]
    num_blocks = len(first)
    while True:
        ids: dict[tuple, int] = {}
        refined = [
            ids.setdefault((block[state], frozenset((s, block[t]) for s, t in arcs)), len(ids))
            for state, arcs in enumerate(automaton.arcs)
        ]
        if len(ids) == num_blocks:
            return refined
        block, num_blocks = refined, len(ids)


def _merged_backwards(automaton: RuleAutomaton) -> list[int]:
    """As `_refined`, but states on different loops stay apart."""
    block = list(range(len(automaton.arcs)))
    ids: dict[tuple, int] = {}
    for state in range(len(automaton.arcs) - 1, 0, -1):
        key = (automaton.final[state], frozenset((s, block[t]) for s, t in automaton.arcs[state]))
        block[state] = ids.setdefault(key, state)
    return block
