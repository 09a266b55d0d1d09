"""Keywords to conditions: a schema object and a type go in, `Part`s come out, each one condition with its negation.

Keywords that say nothing about values of the type are left out. What the schemas inside mean is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from guided.errors import LimitExceeded
from guided.json_schema.arrays import ArrayShape, Count, Span
from guided.json_schema.formats import KNOWN
from guided.json_schema.formulas import Formula, Formulas, exact
from guided.json_schema.keywords import REFERENCES
from guided.json_schema.literals import Literals
from guided.json_schema.numbers import INTEGER, PLAIN_INTEGER, NumberShape, complement
from guided.json_schema.objects import ANY_OBJECT, EVERY_NAME, Atom, Names, ObjectShape, from_atom
from guided.json_schema.references import Node
from guided.json_schema.strings import StringShape

Shape = Literals | NumberShape | StringShape | ArrayShape | ObjectShape
Position = tuple[int, int | None, Formula]  # first and last position (None: to the end) of an array, what holds there


def meet(one: Shape, other: Shape) -> Shape | None:
    """The intersection of two shapes of one type; None where it is plainly empty."""
    mine: Any = one  # of the same class as the other one, which cannot be said of a union
    return mine.meet(other)


@dataclass(frozen=True, slots=True)
class Part:
    """One condition of a schema on values of one type: a shape, or a combination of other schemas.

    Attributes:
        shape: the values that satisfy it, where that is one shape.
        opposite: shapes whose union is the values that do not.
        atoms: conditions on an object whose conjunction is `shape`; `opposite` is then left to who combines them.
        combination: "all", "any", "one" (exactly one), "if", or "unevaluated", of `formulas`.
    """

    shape: Shape | None = None
    opposite: tuple[Shape, ...] = ()
    atoms: tuple[Atom, ...] = ()
    combination: str = ""
    formulas: tuple[Formula, ...] = ()


class Reader:
    """Reads keywords; the table of formulas is all it needs."""

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self._readers: dict[str, Callable[[Node], Iterator[Part]]] = {
            "null": lambda node: iter(()),
            "boolean": lambda node: iter(()),
            "string": _string_parts,
            "number": _number_parts,
            "array": self._array_parts,
            "object": self._object_parts,
        }

    def parts(self, node: Node, kind: str) -> Iterator[Part] | None:
        """The conditions on values of type `kind`, in the order of their keywords; None: no such value is valid."""
        schema = node.schema
        if not _admits(schema.get("type"), kind):
            return None
        return self._all_parts(node, kind)

    def _all_parts(self, node: Node, kind: str) -> Iterator[Part]:
        schema = node.schema
        if kind == "number" and _only_integers(schema.get("type")):
            yield _number_part(PLAIN_INTEGER if node.resource.dialect <= 4 else INTEGER)
        if "const" in schema:
            yield self._value_part([schema["const"]], kind)
        if "enum" in schema:
            yield self._value_part(schema["enum"], kind)
        leaves_read = False
        last: list[Part] = []
        for keyword in schema:
            if keyword in _COMBINATIONS or keyword in REFERENCES:
                yield from self._combination(node, keyword)
            elif keyword in _UNEVALUATED:
                if _UNEVALUATED[keyword] == kind:
                    last.append(Part(combination="unevaluated", formulas=(self.formulas.schema(node.child(keyword)),)))
            elif keyword in _LEAVES and not leaves_read and _LEAVES[keyword] == kind:
                leaves_read = True
                yield from self._readers[kind](node)
        yield from last

    # --- combinations -----------------------------------------------------------------------------------------------

    def _referred(self, node: Node, keyword: str) -> Formula:
        return self.formulas.schema(node.reference(keyword))

    def _members(self, node: Node, keyword: str) -> tuple[Formula, ...]:
        return tuple(
            self.formulas.schema(node.child(keyword, position)) for position in range(len(node.schema[keyword]))
        )

    def _combination(self, node: Node, keyword: str) -> Iterator[Part]:
        child = lambda name: self.formulas.schema(node.child(name)) if name in node.schema else self.formulas.true  # noqa: E731
        if keyword in REFERENCES:
            yield Part(combination="all", formulas=(self._referred(node, keyword),))
        elif keyword == "if":
            yield Part(combination="if", formulas=(child("if"), child("then"), child("else")))
        elif keyword == "not":
            yield Part(combination="all", formulas=(self.formulas.negation(child("not")),))
        elif keyword in ("allOf", "anyOf", "oneOf"):
            yield Part(combination=_COMBINATIONS[keyword], formulas=self._members(node, keyword))

    # --- values -----------------------------------------------------------------------------------------------------

    def _value_part(self, values: list[Any], kind: str) -> Part:
        """`enum` and `const`, for the values of one type."""
        members = [value for value in values if type_of(value) == kind]
        if kind == "string":
            words = frozenset(members)
            return Part(StringShape(words=words) if words else None, (StringShape(excluded=words),))
        if kind == "number":
            numbers = frozenset(map(exact, members))
            return Part(NumberShape(values=numbers) if numbers else None, (NumberShape(excluded=numbers),))
        if kind in ("null", "boolean"):
            literals = frozenset(members)
            rest = (frozenset({None}) if kind == "null" else frozenset({True, False})) - literals
            return Part(Literals(literals) if literals else None, (Literals(rest),) if rest else ())
        return Part(combination="any", formulas=tuple(self.formulas.equal(value) for value in members))

    def fixed(self, formula: Formula, kind: str) -> list[Part] | None:
        """The conditions that make a value of type `kind` equal to the value of an "equal"; None: it has another type."""
        value = self.formulas.value(formula)
        if type_of(value) != kind:
            return None
        if kind == "array":
            spans: list[Position] = [(at, at, self.formulas.equal(member)) for at, member in enumerate(value)]
            return [self._length_part(len(value), len(value)), *self._spans(spans)]
        if kind == "object":
            atoms = [Atom("some", name, formula=self.formulas.equal(member)) for name, member in value.items()]
            atoms.append(Atom("each", names=Names(listed=frozenset(value), outside=True), formula=self.formulas.false))
            return [self.object_part(atoms)]
        return [self._value_part([value], kind)]

    # --- arrays -----------------------------------------------------------------------------------------------------

    def _array_parts(self, node: Node) -> Iterator[Part]:
        schema, schemas = node.schema, self.formulas.schema
        listed = (
            "prefixItems" if "prefixItems" in schema else "items" if isinstance(schema.get("items"), list) else None
        )
        prefix = self._members(node, listed) if listed else ()
        rest = (
            "items"
            if not isinstance(schema.get("items", []), list)
            else "additionalItems"
            if listed == "items"
            else None
        )
        spans: list[Position] = [(position, position, formula) for position, formula in enumerate(prefix)]
        if rest is not None and rest in schema:
            spans.append((len(prefix), None, schemas(node.child(rest))))
            yield Part(ArrayShape(evaluated=None))
        elif prefix:
            yield Part(ArrayShape(evaluated=len(prefix)))
        yield from self._spans(spans)
        low, high = int(schema.get("minItems", 0)), schema.get("maxItems")
        if low or high is not None:
            yield self._length_part(low, None if high is None else int(high))
        if "contains" in schema:
            yield from self._contains(node)
        if schema.get("uniqueItems"):
            yield Part(ArrayShape(unique=True), (ArrayShape(repeated=True, min_items=2),))

    def _spans(self, spans: list[tuple[int, int | None, Formula]]) -> Iterator[Part]:
        for first, last, formula in spans:
            if formula is self.formulas.true:
                continue
            violation = self.formulas.negation(formula)
            if last is None:
                opposite = ArrayShape(counts=(Count(first, violation, 1, None),))
            else:
                opposite = ArrayShape(spans=(Span(first, last, violation),), min_items=first + 1)
            if formula is self.formulas.false:
                yield Part(ArrayShape(max_items=first), (ArrayShape(min_items=first + 1),))
            else:
                yield Part(ArrayShape(spans=(Span(first, last, formula),)), (opposite,))

    @staticmethod
    def _length_part(low: int, high: int | None) -> Part:
        opposite = [ArrayShape(max_items=low - 1)] if low else []
        if high is not None:
            opposite.append(ArrayShape(min_items=high + 1))
        return Part(ArrayShape(min_items=low, max_items=high).tidy(), tuple(opposite))

    def _contains(self, node: Node) -> Iterator[Part]:
        schema = node.schema
        formula = self.formulas.schema(node.child("contains"))
        low = int(schema.get("minContains", 1))
        high = None if "maxContains" not in schema else int(schema["maxContains"])
        yield Part(ArrayShape(evaluated_kinds=frozenset({formula})))
        opposite = [ArrayShape(counts=(Count(0, formula, 0, low - 1),))] if low else []
        if high is not None:
            opposite.append(ArrayShape(counts=(Count(0, formula, high + 1, None),)))
        if opposite:
            yield Part(ArrayShape(counts=(Count(0, formula, low, high),)).tidy(), tuple(opposite))

    # --- objects ----------------------------------------------------------------------------------------------------

    def _object_parts(self, node: Node) -> Iterator[Part]:
        schema = node.schema
        atoms = [
            Atom("each", name, formula=self._at(node, "properties", name)) for name in schema.get("properties", ())
        ]
        patterns = schema.get("patternProperties", {})
        for pattern in patterns:
            atoms.append(
                Atom(
                    "each",
                    names=Names(patterns=frozenset({pattern})),
                    formula=self._at(node, "patternProperties", pattern),
                )
            )
        known = Names(listed=frozenset(schema.get("properties", ())), patterns=frozenset(patterns))
        if "additionalProperties" in schema:
            others = Names(known.listed, known.patterns, outside=True)
            atoms.append(Atom("each", names=others, formula=self._at(node, "additionalProperties")))
        yield self.object_part(atoms)
        yield Part(self._attitude(schema, known))
        yield from self._counts(schema)
        if "propertyNames" in schema:
            formula = self._at(node, "propertyNames")
            forbidden = Names(formulas=frozenset({formula}), outside=True)
            yield self.object_part([Atom("each", names=forbidden, formula=self.formulas.false)])
        yield from self._dependencies(node)

    def _at(self, node: Node, *path: str) -> Formula:
        return self.formulas.schema(node.child(*path))

    @staticmethod
    def _attitude(schema: dict, known: Names) -> ObjectShape:
        """What the schema says of properties that it does not list."""
        opens = any(keyword in schema for keyword in _OPENING)
        evaluated = EVERY_NAME if "additionalProperties" in schema else known
        return ObjectShape(declares="properties" in schema and not opens, opens=opens, evaluated=frozenset({evaluated}))

    def _counts(self, schema: dict) -> Iterator[Part]:
        present = [Atom("some", name, formula=self.formulas.true) for name in schema.get("required", ())]
        if schema.get("minProperties"):
            present.append(Atom("more", bound=int(schema["minProperties"]) - 1))
        if "maxProperties" in schema:
            present.append(Atom("fewer", bound=int(schema["maxProperties"]) + 1))
        yield self.object_part(present)

    def _dependencies(self, node: Node) -> Iterator[Part]:
        for keyword in ("dependentRequired", "dependencies", "dependentSchemas"):
            for name, needed in node.schema.get(keyword, {}).items():
                absent = Atom("lacks", name, formula=self.formulas.false)
                if not isinstance(needed, list):
                    yield Part(
                        combination="if",
                        formulas=(self.formulas.present(name), self._at(node, keyword, name), self.formulas.true),
                    )
                    continue
                for other in needed:
                    present = Atom("some", other, formula=self.formulas.true)
                    lacking = from_atom(opposite_atom(self.formulas, present))
                    both = from_atom(opposite_atom(self.formulas, absent)).meet(lacking)
                    shape = ANY_OBJECT if other == name else ObjectShape(clauses=(frozenset({absent, present}),))
                    yield Part(shape, () if other == name or both is None else (both,))

    def object_part(self, atoms: list[Atom]) -> Part:
        """The conjunction of conditions; trivial ones are dropped."""
        kept = tuple(atom for atom in atoms if not (atom.kind == "each" and atom.formula is self.formulas.true))
        # The order of a property counts even where any value will do.
        named: dict[str, tuple[Formula, ...]] = {atom.name: () for atom in atoms if atom.name is not None}
        rest = []
        for atom in kept:
            if atom.kind == "each" and atom.name is not None:
                named[atom.name] += (atom.claim,)
            else:
                rest.append(atom)
        shape: ObjectShape | None = ObjectShape(named=named) if named else ANY_OBJECT
        for atom in rest:
            shape = None if shape is None else shape.meet(from_atom(atom))
        return Part(shape, atoms=kept)


def opposite_atom(formulas: Formulas, atom: Atom) -> Atom:
    """The negation of one condition."""
    match atom.kind:
        case "some" if atom.name is not None and atom.formula is formulas.true:
            return Atom("lacks", atom.name, formula=formulas.false)
        case "some":
            return Atom("each", atom.name, atom.names, formulas.negation(atom.claim))
        case "lacks":
            return Atom("some", atom.name, formula=formulas.true)
        case "each":
            return Atom("some", atom.name, atom.names, formulas.negation(atom.claim))
        case "fewer":
            return Atom("more", bound=atom.bound - 1)
    return Atom("fewer", bound=atom.bound + 1)


_MOST_BITS = (
    1063  # of a number in a keyword: 320 digits, more than a float has; the time to spell goes with their square
)
_COMBINATIONS = {"allOf": "all", "anyOf": "any", "oneOf": "one", "not": "not", "if": "if"}
_UNEVALUATED = {"unevaluatedItems": "array", "unevaluatedProperties": "object"}
_OPENING = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_LEAVES = {
    **dict.fromkeys(["pattern", "format", "minLength", "maxLength"], "string"),
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], "number"),
    **dict.fromkeys(
        ["items", "prefixItems", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems"], "array"
    ),
    **dict.fromkeys(
        [
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "required",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
        ],
        "object",
    ),
}


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _admits(types: Any, kind: str) -> bool:
    if types is None:
        return True
    names = types if isinstance(types, list) else [types]
    return kind in names or (kind == "number" and "integer" in names)


def _only_integers(types: Any) -> bool:
    names = types if isinstance(types, list) else [types]
    return "integer" in names and "number" not in names


def _string_parts(node: Node) -> Iterator[Part]:
    schema = node.schema
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    if low:
        yield Part(StringShape(min_length=low), (StringShape(max_length=low - 1),))
    if high is not None:
        yield Part(StringShape(max_length=int(high)), (StringShape(min_length=int(high) + 1),))
    for kind in ("pattern", "format"):
        text = schema.get(kind)
        if text is not None and (kind == "pattern" or text in KNOWN):
            yield Part(
                StringShape(tests=frozenset({(kind, text, True)})),
                (StringShape(tests=frozenset({(kind, text, False)})),),
            )


def _number_part(shape: NumberShape) -> Part:
    return Part(shape, tuple(complement(shape)))


def _number_parts(node: Node) -> Iterator[Part]:
    schema = node.schema
    for keyword, exclusive, shape in (("minimum", "exclusiveMinimum", _from), ("maximum", "exclusiveMaximum", _up_to)):
        is_open = schema.get(exclusive)
        if keyword in schema:
            yield _number_part(shape(_bound(node, keyword), is_open is True))
        if is_open is not None and not isinstance(is_open, bool):
            yield _number_part(shape(_bound(node, exclusive), True))
    if "multipleOf" in schema:
        yield _number_part(NumberShape(step=_bound(node, "multipleOf")))


def _from(low: Fraction, is_open: bool) -> NumberShape:
    return NumberShape(low=low, low_open=is_open)


def _up_to(high: Fraction, is_open: bool) -> NumberShape:
    return NumberShape(high=high, high_open=is_open)


def _bound(node: Node, keyword: str) -> Fraction:
    value = exact(node.schema[keyword])
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise LimitExceeded(f"{keyword} has more than 320 digits", limit="digits", pointer=f"{node.pointer}/{keyword}")
    return value
