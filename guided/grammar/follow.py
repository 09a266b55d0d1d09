"""Rule automata in, which terminals may come next out; knows terminals by number only.

Sets of terminals are int bit masks. First and follow sets as of LL parsing (Lewis and Stearns, 1968), on automata without left
recursion and without empty rules. Ignored terminals are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from guided.grammar.rule_automaton import RuleAutomaton


@dataclass(frozen=True, slots=True)
class Followers:
    """Masks of terminals.

    Attributes:
        first: rule -> what it can begin with.
        after: terminal -> what may come right after it.
        after_rule: rule -> what may come right after it.
        next_at: rule -> per state, what may come next there, behind the end of the rule too.
    """

    first: dict[int, int]
    after: dict[int, int]
    after_rule: dict[int, int]
    next_at: dict[int, list[int]]


def followers(rules: dict[int, RuleAutomaton]) -> Followers:
    """The masks of a grammar's rules."""
    first = _first_sets(rules)
    begins = {rule: [_begin(arcs, first) for arcs in automaton.arcs] for rule, automaton in rules.items()}
    after_rule = _after_rules(rules, begins)
    next_at = {
        rule: [
            begin | (after_rule[rule] if final else 0)
            for begin, final in zip(begins[rule], automaton.final, strict=True)
        ]
        for rule, automaton in rules.items()
    }
    after: dict[int, int] = {}
    for rule, automaton in rules.items():
        for arcs in automaton.arcs:
            for symbol, target in arcs:
                if symbol >= 0:
                    after[symbol] = after.get(symbol, 0) | next_at[rule][target]
    return Followers(first, after, after_rule, next_at)


def _after_rules(rules: dict[int, RuleAutomaton], begins: dict[int, list[int]]) -> dict[int, int]:
    """rule -> what may come after it."""
    calls = [
        (~symbol, begins[rule][target], rule if automaton.final[target] else None)
        for rule, automaton in rules.items()
        for arcs in automaton.arcs
        for symbol, target in arcs
        if symbol < 0
    ]
    after = dict.fromkeys(rules, 0)
    changed = True
    while changed:
        changed = False
        for called, begin, ending in calls:
            mask = after[called] | begin | (0 if ending is None else after[ending])
            if mask != after[called]:
                after[called] = mask
                changed = True
    return after


def _begin(arcs: list[tuple[int, int]], first: dict[int, int]) -> int:
    """The terminals that a state can begin with."""
    mask = 0
    for symbol, _ in arcs:
        mask |= 1 << symbol if symbol >= 0 else first[~symbol]
    return mask


def _first_sets(rules: dict[int, RuleAutomaton]) -> dict[int, int]:
    first = dict.fromkeys(rules, 0)
    changed = True
    while changed:
        changed = False
        for rule, automaton in rules.items():
            mask = _begin(automaton.arcs[0], first)
            if mask != first[rule]:
                first[rule] = mask
                changed = True
    return first
