"""What `unevaluatedItems` and `unevaluatedProperties` add to a shape whose annotations are known; knows no schema."""

from __future__ import annotations

from guided.json_schema.arrays import ArrayShape, Count, Span
from guided.json_schema.formulas import Formula, Formulas
from guided.json_schema.objects import EVERY_NAME, Atom, Names, ObjectShape, from_atom

Container = ArrayShape | ObjectShape


def apply_unevaluated(formulas: Formulas, shape: Container, formula: Formula) -> Container:
    """The condition that everything left unevaluated by `shape` satisfies the formula; all is evaluated then."""
    if isinstance(shape, ArrayShape):
        if shape.evaluated is None:
            return ArrayShape(evaluated=None)
        unless = formulas.any_of((*_in_order(shape.evaluated_kinds), formula))
        if unless is formulas.true:
            return ArrayShape(evaluated=None)
        if unless is formulas.false:
            return ArrayShape(max_items=shape.evaluated, evaluated=None)
        return ArrayShape(spans=(Span(shape.evaluated, None, unless),), evaluated=None)
    names = unevaluated_names(shape)
    everything = ObjectShape(evaluated=frozenset({EVERY_NAME}), opens=True)
    if names is None or formula is formulas.true:
        return everything
    merged = everything.meet(ObjectShape(general=((names, formula),)))
    assert merged is not None
    return merged


def violate_unevaluated(formulas: Formulas, shape: Container, formula: Formula) -> Container | None:
    """The condition that something left unevaluated by `shape` does not satisfy the formula; None: nothing can."""
    violation = formulas.negation(formula)
    if isinstance(shape, ArrayShape):
        if shape.evaluated is None:
            return None
        unless = formulas.all_of((*map(formulas.negation, _in_order(shape.evaluated_kinds)), violation))
        if unless is formulas.false:
            return None
        return ArrayShape(counts=(Count(shape.evaluated, unless, 1, None),))
    names = unevaluated_names(shape)
    if names is None or violation is formulas.false:
        return None
    return from_atom(Atom("some", names=names, formula=violation))


def unevaluated_names(shape: ObjectShape) -> Names | None:
    """The names that no keyword has looked at; None: there are none."""
    if any(names.is_everything for names in shape.evaluated):
        return None
    listed: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    within = []
    for names in shape.evaluated:
        if names.outside or names.within or names.formulas:
            within.append(names)
        else:
            listed |= names.listed
            patterns |= names.patterns
    return Names(listed, patterns, outside=True, within=tuple(sorted(within, key=repr)))


def _in_order(formulas: frozenset[Formula]) -> list[Formula]:
    return sorted(formulas, key=lambda formula: formula.number)
