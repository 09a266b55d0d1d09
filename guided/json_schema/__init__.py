"""JSON Schema: from a parsed schema and the options of the request to a network over bytes; knows no vocabulary.

    references -> keywords -> formulas -> reading -> normal_form -> prepare -> layout, progress -> emit
                                                                            -> lint, describe, typical

The stages are lazy: only `keywords.reachable` walks the whole schema, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from guided.automaton.char_dfa import CharDfa
from guided.automaton.network import Network
from guided.errors import LimitExceeded, Unsatisfiable
from guided.json_schema.strings import StringShape
from guided.limits import Budget


def build_network(schema: Any, options: Mapping[str, str], budget: Budget) -> Network:
    """The network of the JSON texts whose values satisfy the schema.

    Args:
        schema: a parsed JSON Schema.
        options: of `Constraint.json_schema`: whitespace, whitespace_pattern, additional_properties, property_order, escapes.

    Raises:
        InvalidConstraint: the schema is malformed, or a reference leads nowhere.
        UnsupportedKeyword: a keyword cannot be enforced.
        Unsatisfiable: no value satisfies the schema.
        LimitExceeded: it is too complex.
    """
    network = Network()
    network.root = add_document(network, schema, options, budget)
    return network


def add_document(network: Network, schema: Any, options: Mapping[str, str], budget: Budget) -> int:
    """Adds to a network what `build_network` builds; returns the rule. Same errors."""
    from guided.json_schema.emit import Emitter
    from guided.json_schema.prepare import prepare

    try:
        # Its clock starts again for every rule that is built late.
        prepared = prepare(schema, options, Budget(budget.limits))
        return Emitter(network, prepared.normal_form, dict(options)).document(prepared.root)
    except RecursionError as error:
        raise LimitExceeded("the schema is nested too deeply", limit="nesting") from error


def strings_of(schema: Any, options: Mapping[str, str], budget: Budget) -> CharDfa:
    """The strings that satisfy a schema, without quotes and escapes. Same errors as `build_network`.

    Raises:
        Unsatisfiable: also where all that satisfies it is no string.
    """
    from guided.json_schema.prepare import prepare

    try:
        prepared = prepare(schema, options, budget)
        shapes = prepared.normal_form.alternatives(prepared.root, "string")
        languages = prepared.normal_form.languages
        found = CharDfa.empty()
        for shape in shapes:
            if prepared.normal_form.has_value(shape):
                assert isinstance(shape, StringShape)
                found = found.union(languages.shape(shape), budget)
    except RecursionError as error:
        raise LimitExceeded("the schema is nested too deeply", limit="nesting") from error
    if found.is_empty():
        raise Unsatisfiable("no string satisfies the schema")
    return found


def warm() -> None:
    """Builds what the first schemas with formats and numbers would otherwise wait for: about a second."""
    from guided.json_schema.formats import KNOWN
    from guided.json_schema.number_text import number_part
    from guided.json_schema.numbers import ANY_NUMBER, INTEGER, NumberShape
    from guided.json_schema.string_text import format_part
    from guided.regex import warm as warm_regex

    warm_regex()
    for name in sorted(KNOWN):
        format_part(name, True)
    for shape in (ANY_NUMBER, INTEGER):
        for low in (None, 0, 1):
            bounded = shape.meet(NumberShape(low=None if low is None else Fraction(low)))
            assert bounded is not None
            number_part(bounded)
