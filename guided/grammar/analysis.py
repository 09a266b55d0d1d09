"""What a grammar's rules say about each other: which may be empty, which match nothing, which are worth a call; knows no bytes."""

from __future__ import annotations

from collections.abc import Callable

from guided.grammar.components import is_cyclic, strong_components
from guided.grammar.rule_automaton import RuleNfa
from guided.limits import Budget

_INLINED_SYMBOLS = 8  # a rule up to this size is put in at each of its uses
_MOVED_SYMBOLS = 400  # a rule up to this size is put in where it is used once
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


def reachable_rules(nfas: list[RuleNfa], start: int) -> list[int]:
    """The rules that the start rule uses, directly or not, itself first."""
    reached, order = {start}, [start]
    for rule in order:  # grows while it is walked
        for symbol in sorted(nfas[rule].symbols()):
            if symbol < 0 and ~symbol not in reached:
                reached.add(~symbol)
                order.append(~symbol)
    return order


def inline(nfas: list[RuleNfa], start: int, budget: Budget) -> list[int]:
    """Puts rules that are not recursive and small, or used once, in at their uses, in place.

    A call costs the running network a return state on the stack, an inlined rule none. What is left of recursion is one or
    a few rules per cycle of the call graph.

    Returns:
        The rules that are still called, the start rule first.
    """
    successors = [sorted(~symbol for symbol in nfa.symbols() if symbol < 0) for nfa in nfas]
    kept = {start} | _cycle_breakers(successors)
    uses = [0] * len(nfas)
    for nfa in nfas:
        for arcs in nfa.arcs:
            for symbol, _ in arcs:
                if symbol < 0:
                    uses[~symbol] += 1
    for component in strong_components(
        [[] if rule in kept else following for rule, following in enumerate(successors)]
    ):
        rule = component[0]
        if rule in kept:
            continue
        _expand(nfas, rule, kept, budget)
        size = sum(map(len, nfas[rule].arcs))
        if size > (_MOVED_SYMBOLS if uses[rule] == 1 else _INLINED_SYMBOLS):
            kept.add(rule)
    for rule in sorted(kept):
        _expand(nfas, rule, kept, budget)
    return reachable_rules(nfas, start)


def _expand(nfas: list[RuleNfa], rule: int, kept: set[int], budget: Budget) -> None:
    """Replaces the calls of a rule to rules that are not kept; their own calls are replaced already."""
    nfa = nfas[rule]
    for state in range(len(nfa.arcs)):
        stay, put_in = [], []
        for symbol, target in nfa.arcs[state]:
            (stay if symbol >= 0 or ~symbol in kept else put_in).append((symbol, target))
        if put_in:
            nfa.arcs[state] = stay
            for symbol, target in put_in:
                nfa.include(nfas[~symbol], state, target)
            budget.check("rules of the grammar", states=len(nfa.arcs))


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
