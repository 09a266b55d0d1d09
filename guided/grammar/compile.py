"""A `RuleSet` in, a network out: mistakes refused with their place, recursion put in order; knows no grammar syntax."""

from __future__ import annotations

from guided.automaton.network import Network
from guided.errors import InvalidConstraint, Unsatisfiable
from guided.grammar.analysis import callers, inline, nullable_rules, productive_rules
from guided.grammar.left_recursion import remove_left_recursion
from guided.grammar.network_builder import NetworkBuilder
from guided.grammar.rule_automaton import Symbols, build_nfa, determinise
from guided.grammar.rules import RuleSet
from guided.limits import Budget


def compile_rules(rule_set: RuleSet, budget: Budget) -> Network:
    """The network of a grammar.

    Raises:
        InvalidConstraint: a rule that matches no string.
        LimitExceeded: too many states, or out of time.
    """
    symbols = Symbols(rule_set.rules)
    nfas = [build_nfa(expression, symbols, budget) for expression in rule_set.rules.values()]
    used_by = callers(nfas)
    _refuse_unproductive(rule_set, symbols, productive_rules(nfas, used_by))
    nullable = nullable_rules(nfas, used_by)
    start = symbols.rule_ids[rule_set.start]
    rules = {rule: determinise(nfas[rule], nullable, budget) for rule in inline(nfas, start, budget)}
    rules = remove_left_recursion(rules, budget)
    network = NetworkBuilder(symbols, rule_set.ignore, budget).build(
        rules, start, symbols.rule(rule_set.start) in nullable
    )
    if not network.trim():
        raise Unsatisfiable("the grammar matches no string")
    return network


def _refuse_unproductive(rule_set: RuleSet, symbols: Symbols, productive: set[int]) -> None:
    for name in symbols.rule_names:
        if symbols.rule(name) not in productive:
            place = rule_set.places.get(name)
            where = {"line": place.line, "column": place.column, "source": rule_set.source} if place else {}
            raise InvalidConstraint(f"rule {name!r} matches nothing: each of its alternatives needs it again", **where)
