"""What a grammar's rules say about each other: which may be empty, which match nothing, which are worth a call; knows no bytes."""

from __future__ import annotations

from collections.abc import Callable

from guided.grammar.components import is_cyclic, strong_components
from guided.grammar.rule_automaton import RuleAutomaton, RuleNfa, determinise
from guided.limits import Budget

_INLINED_EDGES = 8  # a rule with at most so many pairs of neighbouring states is put in at each of its uses
_COPIED_ARCS = 400  # unless its copies together have more arcs than this
_MOVED_ARCS = 400  # a rule with at most so many arcs is put in where it is used once
_LARGE_CYCLE = 64  # in larger components several cycle breakers are chosen at a time


def callers(nfas: list[RuleNfa]) -> list[list[int]]:
    """Per rule, the rules that use it."""
    found: list[list[int]] = [[] for _ in nfas]
    for rule, nfa in enumerate(nfas):
        for symbol in nfa.symbols():
            if symbol < 0:
                found[~symbol].append(rule)
    return found


def nullable_rules(nfas: list[RuleNfa], used_by: list[list[int]]) -> set[int]:
    """The symbols of the rules that match the empty string."""
    return _least_fixed_point(nfas, used_by, lambda nfa, found: nfa.final in nfa.reachable(found))


def productive_rules(nfas: list[RuleNfa], used_by: list[list[int]]) -> set[int]:
    """The symbols of the rules that match some string, all terminals taken to match one."""

    def derives(nfa: RuleNfa, found: set[int]) -> bool:
        return nfa.final in nfa.reachable(found | {symbol for symbol in nfa.symbols() if symbol >= 0})

    return _least_fixed_point(nfas, used_by, derives)


def _least_fixed_point(
    nfas: list[RuleNfa], used_by: list[list[int]], holds: Callable[[RuleNfa, set[int]], bool]
) -> set[int]:
    found: set[int] = set()
    worklist = list(range(len(nfas)))
    while worklist:
        rule = worklist.pop()
        if ~rule not in found and holds(nfas[rule], found):
            found.add(~rule)
            worklist.extend(used_by[rule])
    return found


def inline(rules: list[RuleAutomaton], start: int, budget: Budget) -> dict[int, RuleAutomaton]:
    """Puts rules that are not recursive and small, or used once, in at their uses.

    A call costs the running network a return state on the stack, an inlined rule none. And what is put in is determinised and
    minimised with what surrounds it: ten levels of operators of different precedence become one loop over operand and
    operator, since precedence is no matter of which texts match.

    Returns:
        The rules that are still called, by number, the start rule first.
    """
    successors = [sorted({~symbol for symbol in rule.symbols() if symbol < 0}) for rule in rules]
    kept = {start} | _cycle_breakers(successors)
    uses = [0] * len(rules)
    for rule in rules:
        # Calls that go on at the same state are one use: what may be skipped before it makes several arcs of one call.
        for symbol, _ in {arc for arcs in rule.arcs for arc in arcs if arc[0] < 0}:
            uses[~symbol] += 1
    rules = list(rules)
    for component in strong_components(
        [[] if rule in kept else following for rule, following in enumerate(successors)]
    ):
        number = component[0]
        if number not in kept:
            rules[number] = _expanded(rules, number, kept, budget)
            if not _is_small(rules[number], uses[number]):
                kept.add(number)
    reached = {start: _expanded(rules, start, kept, budget)}
    waiting = [start]
    while waiting:
        for symbol in sorted(reached[waiting.pop()].symbols()):
            if symbol < 0 and ~symbol not in reached:
                reached[~symbol] = _expanded(rules, ~symbol, kept, budget)
                waiting.append(~symbol)
    return reached


def _is_small(rule: RuleAutomaton, uses: int) -> bool:
    arcs = sum(map(len, rule.arcs))
    if uses == 1:
        return arcs <= _MOVED_ARCS
    edges = sum(len({target for _, target in row}) for row in rule.arcs)
    return edges <= _INLINED_EDGES and arcs * uses <= _COPIED_ARCS


def _expanded(rules: list[RuleAutomaton], rule: int, kept: set[int], budget: Budget) -> RuleAutomaton:
    """A rule with its calls to rules that are not kept replaced; their own calls are replaced already."""
    automaton = rules[rule]
    if all(symbol >= 0 or ~symbol in kept for symbol in automaton.symbols()):
        return automaton
    nfa = RuleNfa()
    states = [nfa.start, *(nfa.state() for _ in automaton.arcs[1:])]
    for state, arcs in enumerate(automaton.arcs):
        for symbol, target in arcs:
            if symbol >= 0 or ~symbol in kept:
                nfa.arcs[states[state]].append((symbol, states[target]))
            else:
                nfa.include(rules[~symbol], states[state], states[target])
        if automaton.final[state]:
            nfa.empty[states[state]].append(nfa.final)
    budget.check("rules of the grammar", states=len(nfa.arcs))
    return determinise(nfa, set(), budget)


def _cycle_breakers(successors: list[list[int]]) -> set[int]:
    """Rules without which the call graph has no cycle: of each cycle the one that is used most inside it."""
    breakers: set[int] = set()
    waiting = [list(range(len(successors)))]
    while waiting:
        members = waiting.pop()
        inside = [rule for rule in members if rule not in breakers]
        numbers = {rule: position for position, rule in enumerate(inside)}
        graph = [[numbers[following] for following in successors[rule] if following in numbers] for rule in inside]
        for component in strong_components(graph):
            if not is_cyclic(component, graph):
                continue
            uses = dict.fromkeys(component, 0)
            for member in component:
                for following in graph[member]:
                    if following in uses:
                        uses[following] += 1
            most = max(uses, key=lambda member: (member in graph[member], uses[member], -member))
            chosen = [member for member in component if uses[member] > 1] if len(component) > _LARGE_CYCLE else []
            breakers.update(inside[member] for member in [most, *chosen])
            waiting.append([inside[member] for member in component])
    return breakers
