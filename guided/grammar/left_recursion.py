"""Rule automata in, rule automata of the same languages without left recursion out; knows no terminals.

The left-corner transform (Rosenkrantz and Lewis, "Deterministic Left Corner Parsing", 1970; Johnson, "Finite-state
Approximation of Constraint-based Grammars using Left-corner Grammar Transforms", 1998), on automata instead of productions
and only inside a strongly connected component C of the relation "A can begin with B" (so far Moore, "Removing Left Recursion
from Context-Free Grammars", 2000):

    A begins with any arc of any B in C whose symbol is outside C: the innermost left corner.
    Where B is through, a left corner of some D in C that begins with B is through: go on in D after its first arc.
    Where A is through, A may end.

So direct recursion becomes a loop, and indirect recursion a walk through copies of the component's automata. Hidden recursion
(behind a part that may be empty) is direct here, since the rules no longer match the empty string.
"""

from __future__ import annotations

from guided.grammar.components import is_cyclic, strong_components
from guided.grammar.rule_automaton import RuleAutomaton, RuleNfa, determinise
from guided.limits import Budget


def remove_direct_left_recursion(rules: list[RuleAutomaton], budget: Budget) -> list[RuleAutomaton]:
    """The same rules, none of which begins with a direct call of itself: such a rule is a loop, and may not be recursive at all."""
    return [
        determinise(_Copies([rule], {rule: automaton}).nfa(rule), set(), budget)
        if any(symbol == ~rule for symbol, _ in automaton.arcs[0])
        else automaton
        for rule, automaton in enumerate(rules)
    ]


def remove_left_recursion(rules: dict[int, RuleAutomaton], budget: Budget) -> dict[int, RuleAutomaton]:
    """The same rules by number, none of which begins with itself, directly or through others.

    Raises:
        LimitExceeded: the copies of mutually left-recursive rules are too many.
    """
    numbers = list(rules)
    positions = {rule: position for position, rule in enumerate(numbers)}
    corners = [[positions[~symbol] for symbol, _ in rules[rule].arcs[0] if symbol < 0] for rule in numbers]
    rewritten = dict(rules)
    for component in strong_components(corners):
        if is_cyclic(component, corners):
            members = [numbers[position] for position in component]
            copies = _Copies(members, rules)
            budget.check("left recursion of the grammar", states=len(members) * copies.size)
            for rule in members:
                rewritten[rule] = determinise(copies.nfa(rule), set(), budget)
    return rewritten


class _Copies:
    """The states of all automata of a component in one numbering; 0 and 1 are the start and final state of the result."""

    def __init__(self, component: list[int], rules: dict[int, RuleAutomaton]) -> None:
        self.component = component
        self.rules = rules
        self.base: dict[int, int] = {}
        self.size = 2
        for rule in component:
            self.base[rule] = self.size - 1  # the start state has no copy
            self.size += len(rules[rule].arcs) - 1
        self.after_corner: dict[int, list[int]] = {
            rule: [] for rule in component
        }  # B -> states after a first arc over B
        for rule in component:
            for symbol, target in rules[rule].arcs[0]:
                if ~symbol in self.base:
                    self.after_corner[~symbol].append(self.base[rule] + target)

    def nfa(self, goal: int) -> RuleNfa:
        """The automaton of one rule of the component."""
        nfa = RuleNfa()
        nfa.arcs = [[] for _ in range(self.size)]
        nfa.empty = [[] for _ in range(self.size)]
        for rule in self.component:
            base = self.base[rule]
            automaton = self.rules[rule]
            nfa.arcs[nfa.start] += [
                (symbol, base + target) for symbol, target in automaton.arcs[0] if ~symbol not in self.base
            ]
            for state in range(1, len(automaton.arcs)):
                nfa.arcs[base + state] = [(symbol, base + target) for symbol, target in automaton.arcs[state]]
                if automaton.final[state]:
                    nfa.empty[base + state] = self.after_corner[rule] + ([nfa.final] if rule == goal else [])
        return nfa
