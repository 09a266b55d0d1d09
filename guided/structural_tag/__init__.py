"""Structural tags: free text and constraints of other kinds between markers; from the client's JSON to a network.

value --reading--> formats --network_builder, inner--> Network
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.automaton.network import Network
from guided.errors import LimitExceeded
from guided.limits import Budget
from guided.structural_tag.network_builder import write_network
from guided.structural_tag.reading import read

__all__ = ["build_network"]


def build_network(value: Any, options: Mapping[str, str], budget: Budget) -> Network:
    """The network of a structural tag.

    Args:
        value: {"type": "structural_tag", "format": ...} or {"structures": ..., "triggers": ...}, parsed.
        options: of `Constraint.json_schema`, for each JSON in it.

    Raises:
        InvalidConstraint: it is malformed, or a constraint in it is; with the pointer to the place.
        UnsupportedKeyword: it has something that is not enforced.
        Unsatisfiable: no text has this form.
        LimitExceeded: it is too complex.
    """
    try:
        return write_network(read(value), options, budget)
    except RecursionError as error:
        raise LimitExceeded("the structural tag is nested too deeply", limit="nesting") from error
