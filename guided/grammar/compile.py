"""A `RuleSet` in, a network out: mistakes refused with their place, recursion put in order; knows no grammar syntax."""

from __future__ import annotations

from typing import Any

from guided.automaton.network import Network
from guided.errors import InvalidConstraint, LimitExceeded, Unsatisfiable
from guided.grammar.analysis import callers, inline, nullable_rules, productive_rules
from guided.grammar.follow import followers
from guided.grammar.left_recursion import remove_direct_left_recursion, remove_left_recursion
from guided.grammar.longest_match import watched_rules
from guided.grammar.network_builder import write_network
from guided.grammar.rule_automaton import RuleAutomaton, Symbols, build_nfa, determinise
from guided.grammar.rules import RuleSet, SpecialToken
from guided.grammar.terminals import TerminalAutomata
from guided.grammar.watches import TerminalVariants
from guided.limits import Budget

_MOST_RULES = 3_000  # about a third of a millisecond each


def compile_rules(rule_set: RuleSet, budget: Budget) -> Network:
    """The network of a grammar.

    Raises:
        InvalidConstraint: a rule that matches no string.
        LimitExceeded: too many states, or out of time.
    """
    if len(rule_set.rules) > _MOST_RULES:
        raise LimitExceeded(
            f"the grammar is too complex: {len(rule_set.rules):,} rules, the limit is {_MOST_RULES:,}", limit="states"
        )
    symbols = Symbols(rule_set.rules)
    nfas = [build_nfa(expression, symbols, budget) for expression in rule_set.rules.values()]
    used_by = callers(nfas)
    _refuse_unproductive(rule_set, symbols, productive_rules(nfas, used_by))
    nullable = nullable_rules(nfas, used_by)
    start = symbols.rule_ids[rule_set.start]
    automata = remove_direct_left_recursion([determinise(nfa, nullable, budget) for nfa in nfas], budget)
    rules = remove_left_recursion(inline(automata, start, budget), budget)
    ignore = [symbols.terminal(terminal) for terminal in rule_set.ignore]
    terminals = TerminalVariants(symbols.terminals, TerminalAutomata(budget, rule_set.terminal_places, rule_set.source))
    output = len(symbols.rule_names)  # one more rule: the start rule, or nothing at all if that may be empty
    rules[output] = RuleAutomaton([[(~start, 1)], []], [~start in nullable, True])
    following = followers(rules)
    if rule_set.longest_match:
        terminals.choose_relevant(following.after, ignore)
    root, variants = watched_rules(rules, output, following, ignore, terminals, budget)
    if root is None:
        raise Unsatisfiable("the grammar matches no string")
    network = write_network(root, variants, terminals, budget)
    network.token_places = {
        terminal.name: {"line": place.line, "column": place.column, "source": rule_set.source}
        for terminal, place in rule_set.terminal_places.items()
        if isinstance(terminal, SpecialToken)
    }
    return network


def _refuse_unproductive(rule_set: RuleSet, symbols: Symbols, productive: set[int]) -> None:
    for name in symbols.rule_names:
        if symbols.rule(name) not in productive:
            place = rule_set.places.get(name)
            where: dict[str, Any] = (
                {"line": place.line, "column": place.column, "source": rule_set.source} if place else {}
            )
            raise InvalidConstraint(f"rule {name!r} matches nothing: each of its alternatives needs it again", **where)
