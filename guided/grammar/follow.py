"""Rule automata in, which terminals may stand next to each other out; knows terminals by number only.

Sets of terminals are int bit masks. First and follow sets as of LL parsing (Lewis and Stearns, 1968), on automata without left
recursion and without empty rules.
"""

from __future__ import annotations

from guided.grammar.rule_automaton import RuleAutomaton


def followers(rules: dict[int, RuleAutomaton]) -> dict[int, int]:
    """terminal -> the terminals that may come next, by the rules alone (ignored ones left out)."""
    first = _first_sets(rules)
    begins = {rule: [_begin(arcs, first) for arcs in automaton.arcs] for rule, automaton in rules.items()}
    after_rule = dict.fromkeys(rules, 0)
    found: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for rule, automaton in rules.items():
            for arcs in automaton.arcs:
                for symbol, target in arcs:
                    following = begins[rule][target] | (after_rule[rule] if automaton.final[target] else 0)
                    known = after_rule if symbol < 0 else found
                    key = ~symbol if symbol < 0 else symbol
                    if following | known.get(key, 0) != known.get(key, -1):
                        known[key] = following | known.get(key, 0)
                        changed = True
    return found


def _begin(arcs: list[tuple[int, int]], first: dict[int, int]) -> int:
    """The terminals that a state can begin with."""
    mask = 0
    for symbol, _ in arcs:
        mask |= 1 << symbol if symbol >= 0 else first[~symbol]
    return mask


def _first_sets(rules: dict[int, RuleAutomaton]) -> dict[int, int]:
    """rule -> the terminals that it can begin with."""
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
