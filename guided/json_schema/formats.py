"""The formats of Draft 2020-12 as automata over characters; knows no schema and no bytes."""

from __future__ import annotations

from guided.automaton.char_dfa import CharDfa
from guided.limits import Budget

KNOWN: frozenset[str] = frozenset()


def format_dfa(name: str, budget: Budget) -> CharDfa:
    """The strings of a known format."""
    raise AssertionError(name)
