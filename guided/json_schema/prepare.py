"""From a parsed schema to its checked normal form: what `emit`, `lint`, `describe` and `typical` begin with; knows no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, Unsatisfiable, UnsupportedKeyword
from guided.json_schema.contradiction import find_contradiction
from guided.json_schema.formulas import Formulas, Goal
from guided.json_schema.keywords import TYPES, innermost_first, reachable, undeclared_names
from guided.json_schema.normal_form import NormalForm
from guided.json_schema.references import Document, Node
from guided.limits import Budget


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema that has been read.

    Attributes:
        nodes: the schema objects that its meaning depends on.
        root: the goal of the whole document; it has a value.
    """

    nodes: tuple[Node, ...]
    normal_form: NormalForm
    root: Goal


def prepare(schema: Any, options: Mapping[str, str], budget: Budget) -> Prepared:
    """Reads and checks a schema.

    Raises:
        InvalidConstraint, UnsupportedKeyword, LimitExceeded: as `build_network`.
        Unsatisfiable: no value satisfies it.
    """
    declared_only = options.get("additional_properties", "declared") == "declared"
    document = Document(schema, by_the_letter=not declared_only)
    nodes = tuple(reachable(document, budget))
    formulas = Formulas()
    normal_form = NormalForm(formulas, budget, declared_only)
    normal_form.mentions = undeclared_names(nodes)
    root = formulas.goal([formulas.schema(document.root)])
    try:
        satisfiable = normal_form.satisfiable(root)
    except RecursionError:  # schemas within schemas within schemas
        _work_out(document.root, normal_form)
        satisfiable = normal_form.satisfiable(root)
    if not satisfiable:
        _refuse_repetition(nodes, root)
        message, pointer = find_contradiction(root, normal_form)
        raise Unsatisfiable(message, pointer=pointer)
    return Prepared(nodes, normal_form, root)


def _refuse_repetition(nodes: tuple[Node, ...], root: Goal) -> None:
    """Raises UnsupportedKeyword where there may be values, and only such that `not` around `uniqueItems` asks for."""
    unique = next((node for node in nodes if node.schema.get("uniqueItems")), None)
    if root.verdict is None and unique is not None:
        message = "arrays with equal items, which not around uniqueItems asks for, are not generated, and nothing else is left"
        raise UnsupportedKeyword(message, keyword="uniqueItems", pointer=f"{unique.pointer}/uniqueItems")


def _work_out(root: Node, normal_form: NormalForm) -> None:
    """Works out the schemas from the inside to the outside, so that none has to wait for a long chain of others.

    Raises:
        LimitExceeded: that is not enough.
    """
    goal, schema = normal_form.formulas.goal, normal_form.formulas.schema
    for node in innermost_first(root):
        try:
            normal_form.satisfiable(goal([schema(node)]))
            for kind in TYPES:
                normal_form.alternatives(goal([schema(node)]), kind)
        except RecursionError as error:
            depth = node.pointer.count("/")
            message = f"the schemas inside of this one, which is {depth:,} levels deep, depend on each other in too long chains"
            raise LimitExceeded(message, limit="nesting", pointer=node.pointer) from error
