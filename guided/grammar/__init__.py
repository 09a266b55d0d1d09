"""Grammars: Lark and GBNF text in, a network over bytes out; knows no vocabulary.

text --lark_grammar | gbnf--> RuleSet --rule_automaton, left_recursion--> automata --network_builder--> Network
"""

from __future__ import annotations

from dataclasses import replace

from guided.automaton.network import Network
from guided.errors import InvalidConstraint
from guided.grammar.compile import compile_rules
from guided.grammar.gbnf import LONGEST, read_gbnf
from guided.grammar.lark_grammar import read_lark, warm
from guided.grammar.source import check_length
from guided.grammar.syntax import detect_syntax
from guided.limits import Budget

__all__ = ["build_network", "warm"]

_SHARE = 0.4  # of a compilation's time is for its grammar; the rest is for its states


def build_network(text: str, options: dict[str, str], budget: Budget) -> Network:
    """The network of a grammar.

    Args:
        options: may have "syntax": "lark" | "gbnf"; without it the form of the text decides.

    Raises:
        InvalidConstraint: neither syntax, or a mistake in the grammar, with line and column.
        UnsupportedKeyword: %declare, imports from files, lookarounds that a terminal cannot enforce, ...
        Unsatisfiable: the grammar matches no string.
        LimitExceeded: nested too deeply, too many states, or out of time.
    """
    check_length(text, LONGEST)
    syntax = options.get("syntax") or detect_syntax(text)
    if syntax == "lark":
        warm()  # once per process, so not on this grammar's account
    budget = Budget(replace(budget.limits, seconds=budget.limits.seconds * _SHARE))
    match syntax:
        case "lark":
            return compile_rules(read_lark(text, budget), budget)
        case "gbnf":
            return compile_rules(read_gbnf(text, budget), budget)
    raise InvalidConstraint(f"grammar_syntax must be lark or gbnf, not {syntax!r}")
