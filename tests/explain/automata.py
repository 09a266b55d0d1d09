"""Automata of patterns and schemas, as the tests of this folder and of the plot need them."""

from __future__ import annotations

from guided.automaton.lazy_dfa import LazyDfa
from guided.compiler import build_network
from guided.constraint import Constraint
from guided.limits import Budget, Limits


def automaton(constraint: Constraint | str) -> LazyDfa:
    """The automaton of a constraint, a string being a regex; time is no matter here."""
    budget = Budget(Limits(seconds=300))
    wanted = Constraint.regex(constraint) if isinstance(constraint, str) else constraint
    return LazyDfa(build_network(wanted, budget), budget)
