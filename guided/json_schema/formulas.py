"""What a value must satisfy: boolean combinations of subschemas, interned; knows no keyword.

A `Formula` is a subschema, its negation, a fixed value, or a conjunction or disjunction of formulas; a `Goal` is a set of
formulas that hold together, the obligations of one place in the output. Equal formulas and goals are the same object, so
that everything computed for them is kept on them, and a recursive schema has finitely many goals.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from guided.json_schema.keywords import TYPES, kinds_of
from guided.json_schema.references import ANNOTATIONS, Node


class Formula:
    """kind: "true", "false", "schema", "not" (both of a node), "and", "or" (of formulas), "equal", "differs" (of a
    value), "present", "lacks" (of a property)."""

    __slots__ = ("expansions", "kind", "kinds", "like", "number", "operands")

    def __init__(self, kind: str, operands: tuple, number: int) -> None:
        self.kind = kind
        self.operands = operands
        self.number = number
        self.kinds = TYPES  # of its values, as far as `type` says
        self.like = self  # the first formula that says the same, where that is plain to see
        self.expansions: dict[tuple[str, bool], tuple] = {}  # (type, with annotations) -> shapes

    def __repr__(self) -> str:
        return f"{self.kind}{list(self.operands)}" if self.operands else self.kind


class Goal:
    """Formulas that hold together for one value.

    Attributes:
        kinds: the types of its values, as far as `type` says.
        like: the goal that the same values satisfy, in another place perhaps, on which all is kept that is worked out.
    """

    __slots__ = ("alternatives", "formulas", "kinds", "like", "number", "verdict")

    def __init__(self, formulas: tuple[Formula, ...], number: int) -> None:
        self.formulas = formulas
        self.kinds = TYPES
        for formula in formulas:
            if formula.kinds is not TYPES:
                self.kinds = tuple(kind for kind in self.kinds if kind in formula.kinds)
        self.number = number
        self.like = self
        self.alternatives: dict[str, tuple] = {}  # type -> shapes, satisfiable as far as known
        self.verdict: bool | None = None  # satisfiable, once that is known

    def __repr__(self) -> str:
        return f"Goal({', '.join(map(repr, self.formulas))})"


def exact(number: int | float) -> Fraction:
    """The number that was written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def value_key(value: Any) -> Any:
    """Equal for equal JSON values: 1 and 1.0 are equal, true and 1 are not, and objects have no order."""
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, (int, float)):
        return exact(value)
    if isinstance(value, (str, Fraction)):
        return value
    if isinstance(value, list):
        return ("array", *map(value_key, value))
    return ("object", frozenset((name, value_key(member)) for name, member in value.items()))


class Formulas:
    """The table of all formulas and goals of one schema."""

    def __init__(self) -> None:
        self._known: dict[tuple, Formula] = {}
        self._goals: dict[tuple[Formula, ...], Goal] = {}
        self.true = self._intern("true", ())
        self.false = self._intern("false", ())
        self._values: dict[Any, Any] = {}
        self._of_types: dict[tuple, Formula] = {}  # types -> the first schema that says no more
        self.anything = self.goal(())

    def _intern(self, kind: str, operands: tuple) -> Formula:
        known = self._known.get((kind, operands))
        if known is None:
            known = self._known[(kind, operands)] = Formula(kind, operands, len(self._known))
        return known

    def schema(self, node: Node) -> Formula:
        """What satisfies a subschema. A mere reference is the schema that it leads to, so that all places share it."""
        node = node.meant()
        if node.schema is True or node.schema == {}:
            return self.true
        if node.schema is False:
            return self.false
        formula = self._intern("schema", (node,))
        types = node.schema.get("type")
        if types is not None and formula.kinds is TYPES:
            types = types if isinstance(types, str) else tuple(types)
            formula.kinds = kinds_of(types)
            if node.schema.keys() - ANNOTATIONS == {"type"}:
                formula.like = self._of_types.setdefault((types, node.resource.dialect <= 4), formula)
        return formula

    def equal(self, value: Any) -> Formula:
        """The value is the given one."""
        key = value_key(value)
        self._values.setdefault(key, value)
        return self._intern("equal", (key,))

    def present(self, name: str) -> Formula:
        """The object has a property of this name."""
        return self._intern("present", (name,))

    def value(self, formula: Formula) -> Any:
        """The JSON value of an "equal" or "differs"."""
        return self._values[formula.operands[0]]

    def all_of(self, formulas: Iterable[Formula]) -> Formula:
        return self._combine("and", formulas, self.true, self.false)

    def any_of(self, formulas: Iterable[Formula]) -> Formula:
        return self._combine("or", formulas, self.false, self.true)

    def _combine(self, kind: str, formulas: Iterable[Formula], neutral: Formula, dominant: Formula) -> Formula:
        members: dict[Formula, None] = {}
        for formula in formulas:
            if formula is dominant:
                return dominant
            if formula.kind == kind:
                members.update(dict.fromkeys(formula.operands))
            elif formula is not neutral:
                members[formula] = None
        if not members:
            return neutral
        return next(iter(members)) if len(members) == 1 else self._intern(kind, tuple(members))

    def negation(self, formula: Formula) -> Formula:
        kind, operands = formula.kind, formula.operands
        match kind:
            case "true":
                return self.false
            case "false":
                return self.true
            case "and":
                return self.any_of(map(self.negation, operands))
            case "or":
                return self.all_of(map(self.negation, operands))
        opposite = {
            "schema": "not",
            "not": "schema",
            "equal": "differs",
            "differs": "equal",
            "present": "lacks",
            "lacks": "present",
        }[kind]
        return self._intern(opposite, operands)

    def goal(self, formulas: Iterable[Formula]) -> Goal:
        """The conjunction of formulas, flat, without repetition, in a fixed order."""
        flat = self.all_of(formulas)
        members = flat.operands if flat.kind == "and" else () if flat is self.true else (flat,)
        members = tuple(sorted(members, key=_place))
        known = self._goals.get(members)
        if known is None:
            known = self._goals[members] = Goal(members, len(self._goals))
            if len(members) == 1 and members[0].like is not members[0]:
                known.like = self.goal((members[0].like,))
        return known


def _place(formula: Formula) -> int:
    return formula.number
