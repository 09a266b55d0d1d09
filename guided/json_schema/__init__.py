"""JSON Schema: from a parsed schema and the options of the request to a network over bytes; knows no vocabulary.

    references -> keywords -> formulas -> reading -> normal_form -> prepare -> layout, progress -> emit
                                                                            -> lint, describe, typical

The stages are lazy: only `keywords.reachable` walks the whole schema, once.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from guided.automaton.network import Network
from guided.errors import LimitExceeded
from guided.limits import Budget


def build_network(schema: Any, options: dict, budget: Budget) -> Network:
    """The network of the JSON texts whose values satisfy the schema.

    Args:
        schema: a parsed JSON Schema.
        options: of `Constraint.json_schema`: whitespace, whitespace_pattern, additional_properties, property_order.

    Raises:
        InvalidConstraint: the schema is malformed, or a reference leads nowhere.
        UnsupportedKeyword: a keyword cannot be enforced.
        Unsatisfiable: no value satisfies the schema.
        LimitExceeded: it is too complex.
    """
    try:
        return _build_network(
            schema, options, Budget(budget.limits)
        )  # its clock starts again for every rule that is built late
    except RecursionError as error:
        raise LimitExceeded("the schema is nested too deeply", limit="nesting") from error


def _build_network(schema: Any, options: dict, budget: Budget) -> Network:
    from guided.json_schema.emit import Emitter
    from guided.json_schema.prepare import prepare

    prepared = prepare(schema, options, budget)
    return Emitter(prepared.normal_form, options).root(prepared.root)


def warm() -> None:
    """Builds what the first schemas with formats and numbers would otherwise wait for: about a second."""
    from guided.json_schema.formats import KNOWN
    from guided.json_schema.number_text import number_part
    from guided.json_schema.numbers import ANY_NUMBER, INTEGER, NumberShape
    from guided.json_schema.string_text import format_part
    from guided.regex import warm as warm_regex

    warm_regex()
    for name in sorted(KNOWN):
        format_part(name)
    for shape in (ANY_NUMBER, INTEGER):
        for low in (None, 0, 1):
            bounded = shape.meet(NumberShape(low=None if low is None else Fraction(low)))
            assert bounded is not None
            number_part(bounded)
