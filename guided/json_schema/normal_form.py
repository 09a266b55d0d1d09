"""Schemas in normal form, on demand: a goal and a type go in, shapes whose union is meant come out; knows no bytes.

A schema is an alternating tree automaton (Comon et al., "Tree Automata Techniques and Applications", 2008, chapter 7): its
states are goals, sets of obligations that hold for one value. The obligations of a value of a given type are expanded
until only conditions on the value itself and goals for its parts are left: a disjunction of shapes. Negation stays
within the shapes, so `not`, `oneOf` and `if` need nothing of their own. Goals are interned; a recursive schema has finitely
many, and which of them have any value at all is a least fixed point over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from guided.errors import InvalidConstraint, LimitExceeded
from guided.json_schema.arrays import ANY_ARRAY, ArrayShape
from guided.json_schema.evaluation import apply_unevaluated, violate_unevaluated
from guided.json_schema.formulas import Formula, Formulas, Goal
from guided.json_schema.keywords import TYPES
from guided.json_schema.languages import Languages
from guided.json_schema.literals import ANY_BOOLEAN, ANY_NULL, Literals
from guided.json_schema.names import NameLanguages
from guided.json_schema.numbers import ANY_NUMBER, NumberShape
from guided.json_schema.objects import ANY_OBJECT, Atom, ObjectShape, from_atom
from guided.json_schema.reading import Part, Reader, Shape, meet, opposite_atom
from guided.json_schema.references import Node
from guided.json_schema.satisfiable import array_has_value, object_has_value
from guided.json_schema.strings import ANY_STRING, StringShape
from guided.limits import Budget

ANY: dict[str, Shape] = {
    "null": ANY_NULL,
    "boolean": ANY_BOOLEAN,
    "number": ANY_NUMBER,
    "string": ANY_STRING,
    "array": ANY_ARRAY,
    "object": ANY_OBJECT,
}

CONTAINERS = (ArrayShape, ObjectShape)
MOST_ALTERNATIVES = 2_000  # of one goal and type


class _Undecided(Exception):
    """A formula is needed whose expansion has begun, for a value further out."""


class NormalForm:
    """The normal form of one schema, worked out as far as someone asks."""

    def __init__(self, formulas: Formulas, budget: Budget, declared_only: bool) -> None:
        self.formulas = formulas
        self.budget = budget
        self.declared_only = declared_only
        self.reader = Reader(formulas)
        self.languages = Languages(budget)
        self.names = NameLanguages(self)
        self.mentions: dict[str, int] = {}  # see `keywords.undeclared_names`
        self._open: dict[Goal, int] = {}  # goals whose satisfiability is being worked out -> depth
        self._lowest: float = inf  # the outermost open goal that an answer depended on
        self._expanding: dict[tuple[Formula, str], int] = {}  # -> how many values deep it began

    # --- goals ------------------------------------------------------------------------------------------------------

    def alternatives(self, goal: Goal, kind: str) -> tuple[Shape, ...]:
        """Shapes whose union is the values of type `kind` that satisfy the goal; plainly empty ones are left out."""
        goal = goal.like
        if kind not in goal.kinds:
            return ()
        known = goal.alternatives.get(kind)
        if known is None:
            known = goal.alternatives[kind] = self._product(goal.formulas, kind, False)
        return known

    def satisfiable(self, goal: Goal) -> bool:
        """Is there a value, as far as the goals that are being worked out allow to say? A yes is final."""
        goal = goal.like
        if goal.verdict is not None:
            return goal.verdict
        if goal in self._open:
            self._lowest = min(self._lowest, self._open[goal])
            return False
        depth = self._open[goal] = len(self._open)
        self.budget.check("looking for contradictions", depth=depth)
        outside, self._lowest = self._lowest, inf
        try:
            found = any(self._has_value_of(goal, kind) for kind in goal.kinds)
        finally:
            del self._open[goal]
        if found or self._lowest >= depth:
            goal.verdict = found
            self._lowest = outside
        else:
            self._lowest = min(outside, self._lowest)
        return found

    def _has_value_of(self, goal: Goal, kind: str) -> bool:
        try:
            return any(self.has_value(shape) for shape in self.alternatives(goal, kind))
        except _Undecided:  # the answer depends on shapes that are being worked out further up
            self._lowest = -1
            return False

    def refuted(self, goal: Goal) -> bool:
        """There is no value, and that is final."""
        return self._finally_not(lambda: self.satisfiable(goal))

    def empty(self, shape: Shape) -> bool:
        """The shape has no value, and that is final."""
        return self._finally_not(lambda: self.has_value(shape))

    def _finally_not(self, ask) -> bool:
        outside, self._lowest = self._lowest, inf
        found = ask()
        final = self._lowest == inf
        self._lowest = min(outside, self._lowest)
        return not found and final

    def has_value(self, shape: Shape) -> bool:
        """Is there a value of this shape? As `satisfiable`."""
        match shape:
            case StringShape():
                return self.languages.has_member(shape)
            case ArrayShape() if shape.repeated:
                self._lowest = -1  # it may have values, but they are not generated: no is not final
                return False
            case ArrayShape():
                return array_has_value(shape, self)
            case ObjectShape():
                return object_has_value(shape, self)
        return True

    def admits(self, formula: Formula, value: Any) -> bool:
        """Does the value satisfy the formula?"""
        return self.satisfiable(self.formulas.goal((formula, self.formulas.equal(value))))

    # --- formulas ---------------------------------------------------------------------------------------------------

    def expand(self, formula: Formula, kind: str, annotated: bool = False) -> tuple[Shape, ...]:
        """Shapes whose union is the values of type `kind` that satisfy the formula.

        Args:
            annotated: the shapes say which items and properties were evaluated; they are disjoint where that differs.
        """
        if kind not in formula.kinds:
            return ()
        known = formula.expansions.get((kind, annotated))
        if known is None:
            begun = self._expanding.get((formula, kind))
            if begun == len(self._open):
                raise InvalidConstraint(
                    "the reference leads back to itself without reading anything", pointer=_pointer(formula)
                )
            if begun is not None:
                raise _Undecided
            self._expanding[(formula, kind)] = len(self._open)
            try:
                known = formula.expansions[(kind, annotated)] = self._expansion(formula, kind, annotated)
            finally:
                del self._expanding[(formula, kind)]
        return known

    def _expansion(self, formula: Formula, kind: str, annotated: bool) -> tuple[Shape, ...]:
        match formula.kind:
            case "true":
                return (ANY[kind],)
            case "false":
                return ()
            case "and":
                return self._product(formula.operands, kind, annotated)
            case "or":
                return self._choice(formula.operands, kind, annotated)
            case "schema":
                return self._schema(formula.operands[0], kind, annotated)
            case "not":
                return self._not_schema(formula.operands[0], kind)
            case "equal":
                parts = self.reader.fixed(formula, kind)
                return () if parts is None else self._conjunction(parts, kind, False)
            case "differs":
                parts = self.reader.fixed(self.formulas.negation(formula), kind)
                return (ANY[kind],) if parts is None else self._violations(parts, kind)
        assert formula.kind in ("present", "lacks")
        if kind != "object":
            return (ANY[kind],) if formula.kind == "lacks" else ()
        atom = Atom("some", formula.operands[0], formula=self.formulas.true)
        return (from_atom(atom if formula.kind == "present" else opposite_atom(self.formulas, atom)),)

    def _schema(self, node: Node, kind: str, annotated: bool) -> tuple[Shape, ...]:
        parts = self.reader.parts(node, kind)
        try:
            return () if parts is None else self._conjunction(parts, kind, annotated)
        except LimitExceeded as error:
            raise _placed(error, node) from error

    def _not_schema(self, node: Node, kind: str) -> tuple[Shape, ...]:
        parts = self.reader.parts(node, kind)
        try:
            return (ANY[kind],) if parts is None else self._violations(parts, kind)
        except LimitExceeded as error:
            raise _placed(error, node) from error

    # --- conjunctions and disjunctions --------------------------------------------------------------------------------

    def _product(self, formulas: Iterable[Formula], kind: str, annotated: bool) -> tuple[Shape, ...]:
        shapes: tuple[Shape, ...] = (ANY[kind],)
        for position, formula in enumerate(formulas):
            found = self.expand(formula, kind, annotated)
            shapes = found if position == 0 and len(found) < 2 else self._meet_all(shapes, found)
            if not shapes:
                break
        return shapes

    def _conjunction(self, parts: Iterable[Part], kind: str, annotated: bool) -> tuple[Shape, ...]:
        """All parts hold. `unevaluated` comes last and looks at the annotations of the others."""
        parts = list(parts)
        looks_back = any(part.combination == "unevaluated" for part in parts)
        inner = annotated or looks_back
        shapes: tuple[Shape, ...] = (ANY[kind],)
        for part in parts:
            if part.combination == "unevaluated":
                shapes = tuple(
                    merged
                    for shape in shapes
                    if isinstance(shape, CONTAINERS)
                    and (merged := meet(shape, apply_unevaluated(self.formulas, shape, part.formulas[0]))) is not None
                )
            else:
                shapes = self._meet_all(shapes, self._part(part, kind, inner))
            if not shapes:
                break
        if looks_back and not annotated:
            shapes = tuple(_without_annotations(shape) for shape in shapes)
        return shapes

    def _part(self, part: Part, kind: str, annotated: bool) -> tuple[Shape, ...]:
        match part.combination:
            case "":
                shape = part.shape
                if shape is None:
                    return ()
                return (shape if annotated else _without_annotations(shape),)
            case "all":
                return self._product(part.formulas, kind, annotated)
            case "any":
                return self._choice(part.formulas, kind, annotated)
            case "one":
                return self._union(
                    (self._exactly(formula, part.formulas, kind, annotated) for formula in part.formulas), kind
                )
        assert part.combination == "if"
        condition, then, otherwise = part.formulas
        negated = self.formulas.negation(condition)
        branches = (
            self._product((condition, then), kind, annotated),
            self._product((negated, otherwise), kind, annotated),
        )
        return self._union(branches, kind)

    def _exactly(self, chosen: Formula, formulas: tuple[Formula, ...], kind: str, annotated: bool) -> tuple[Shape, ...]:
        """`chosen` holds and none of the others; those that cannot hold beside it need no mention."""
        shapes = self.expand(chosen, kind, annotated)
        seen_self = False
        for other in formulas:
            if other is chosen and not seen_self:
                seen_self = True
                continue
            if not shapes:
                break
            if any(self._overlap(shape, other, kind) for shape in shapes):
                shapes = self._meet_all(shapes, self.expand(self.formulas.negation(other), kind))
        return shapes

    def _overlap(self, shape: Shape, other: Formula, kind: str) -> bool:
        """May a value of the shape satisfy the other formula?"""
        for candidate in self.expand(other, kind):
            merged = meet(shape, candidate)
            if merged is not None and not self.empty(merged):
                return True
        return False

    def _choice(self, formulas: tuple[Formula, ...], kind: str, annotated: bool) -> tuple[Shape, ...]:
        """One of the formulas holds, or several."""
        if not annotated:
            return self._union((self.expand(formula, kind) for formula in formulas), kind)
        without: tuple[Shape, ...] = (ANY[kind],)  # none so far
        having: tuple[Shape, ...] = ()
        for formula in formulas:
            holds, fails = self.expand(formula, kind, True), self.expand(self.formulas.negation(formula), kind)
            having = self._meet_all(having, holds) + self._meet_all(having, fails) + self._meet_all(without, holds)
            without = self._meet_all(without, fails)
        return having

    def _union(self, groups: Iterable[tuple[Shape, ...]], kind: str) -> tuple[Shape, ...]:
        shapes: list[Shape] = []
        for group in groups:
            shapes.extend(group)
        return self._tidy(shapes, kind)

    def _meet_all(self, ours: tuple[Shape, ...], theirs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """All intersections that are not empty."""
        if len(ours) == 1 and len(theirs) == 1:
            merged = meet(ours[0], theirs[0])
            return () if merged is None else (merged,)
        if len(ours) * len(theirs) > MOST_ALTERNATIVES * 50:
            self._too_many()
        met = [merged for one in ours for other in theirs if (merged := meet(one, other)) is not None]
        if len(ours) > 1 or len(theirs) > 1:
            met = [shape for shape in met if not self.empty(shape)]
        return self._tidy(met, "")

    def _tidy(self, shapes: list[Shape], kind: str) -> tuple[Shape, ...]:
        """Repetitions dropped, plain sets of values put together, the number of alternatives held in check."""
        if len(shapes) < 2:
            return tuple(shapes)
        if kind and ANY[kind] in shapes and kind not in ("array", "object"):
            return (ANY[kind],)
        distinct: dict[Any, Shape] = {}
        for shape in shapes:
            distinct.setdefault(shape.key() if isinstance(shape, ObjectShape) else shape, shape)
        merged = _merge_values(list(distinct.values()))
        if len(merged) > MOST_ALTERNATIVES:
            self._too_many()
        self.budget.check("merging the branches of the schema")
        return tuple(merged)

    def _too_many(self) -> None:
        raise LimitExceeded("the branches of the schema combine in too many ways", limit="states")

    # --- negation ---------------------------------------------------------------------------------------------------

    def _violations(self, parts: Iterable[Part], kind: str) -> tuple[Shape, ...]:
        """At least one part does not hold."""
        parts = list(parts)
        shapes: list[Shape] = []
        broken: list[Atom] = []
        for part in parts:
            if part.atoms:
                broken.extend(opposite_atom(self.formulas, atom) for atom in part.atoms)
            elif not part.combination:
                shapes.extend(part.opposite)
            elif part.combination == "unevaluated":
                shapes.extend(self._unevaluated_violated(parts, part.formulas[0], kind))
            else:
                shapes.extend(self._violated(part, kind))
        if len(broken) == 1:
            shapes.append(from_atom(broken[0]))
        elif broken:
            shapes.append(ObjectShape(clauses=(frozenset(broken),)))
        return self._tidy(shapes, kind)

    def _violated(self, part: Part, kind: str) -> tuple[Shape, ...]:
        negation, formulas = self.formulas.negation, part.formulas
        match part.combination:
            case "all":
                return self._choice(tuple(map(negation, formulas)), kind, False)
            case "any":
                return self._product(map(negation, formulas), kind, False)
            case "one":
                none = self._product(map(negation, formulas), kind, False)
                two = (
                    self._product((one, other), kind, False)
                    for position, one in enumerate(formulas)
                    for other in formulas[:position]
                )
                return self._union((none, *two), kind)
        condition, then, otherwise = formulas
        first = self._product((condition, negation(then)), kind, False)
        return self._union((first, self._product((negation(condition), negation(otherwise)), kind, False)), kind)

    def _unevaluated_violated(self, parts: list[Part], formula: Formula, kind: str) -> tuple[Shape, ...]:
        """The other parts hold, and something that they leave unevaluated does not satisfy the formula."""
        others = [part for part in parts if part.combination != "unevaluated"]
        shapes: list[Shape] = []
        for shape in self._conjunction(others, kind, True):
            assert isinstance(shape, CONTAINERS)
            violation = violate_unevaluated(self.formulas, shape, formula)
            merged = None if violation is None else meet(shape, violation)
            if merged is not None:
                shapes.append(_without_annotations(merged))
        return tuple(shapes)


def is_anything(goal: Goal, normal_form: NormalForm) -> bool:
    """Does the goal allow every value?"""
    return all(ANY[kind] in normal_form.alternatives(goal, kind) for kind in TYPES)


def _without_annotations(shape: Shape) -> Shape:
    return shape.without_annotations() if isinstance(shape, CONTAINERS) else shape


def _merge_values(shapes: list[Shape]) -> list[Shape]:
    """The same union with plain sets of words, numbers or literals put into one."""
    words: set[str] = set()
    numbers: set = set()
    literals: set = set()
    rest: list[Shape] = []
    for shape in shapes:
        if isinstance(shape, StringShape) and shape.words is not None and not shape.tests:
            words |= shape.words
        elif isinstance(shape, NumberShape) and shape.values is not None and not shape.plain:
            numbers |= shape.values
        elif isinstance(shape, Literals):
            literals |= shape.values
        else:
            rest.append(shape)
    if words:
        rest.append(StringShape(words=frozenset(words)))
    if numbers:
        rest.append(NumberShape(values=frozenset(numbers)))
    if literals:
        rest.append(Literals(frozenset(literals)))
    return rest


def _placed(error: LimitExceeded, node: Node) -> LimitExceeded:
    """The error with the pointer of the innermost schema in which it came up."""
    return error if error.pointer is not None else LimitExceeded(error.message, limit=error.limit, pointer=node.pointer)


def _pointer(formula: Formula) -> str | None:
    return formula.operands[0].pointer if formula.kind in ("schema", "not") else None
