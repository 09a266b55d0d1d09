"""Objects of a schema as one shape: what holds for which property names, which are required, how many; knows no bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guided.json_schema.formulas import Formula
from guided.json_schema.strings import least


@dataclass(frozen=True, slots=True)
class Names:
    """A set of property names.

    Attributes:
        listed: these names...
        patterns: ...the names that match one of these patterns...
        formulas: ...and those that satisfy one of these (as strings).
        outside: the set is everything else instead.
    """

    listed: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    formulas: frozenset[Formula] = frozenset()
    outside: bool = False
    within: tuple[Names, ...] = ()  # sets that are part of this one too, before `outside` turns it over

    @property
    def is_everything(self) -> bool:
        return self.outside and not (self.listed or self.patterns or self.formulas or self.within)


EVERY_NAME = Names(outside=True)


@dataclass(frozen=True, slots=True)
class Atom:
    """One condition on an object.

    kind "some": a property with a name of `names` (or called `name`) has a value that satisfies `formula`;
    "each": all such properties do; "lacks": there is no property `name`; "fewer": fewer than `bound` properties;
    "more": more than `bound`.
    """

    kind: str
    name: str | None = None
    names: Names | None = None
    formula: Formula | None = None
    bound: int = 0

    @property
    def claim(self) -> Formula:
        """`formula`, of a kind of atom that has one."""
        assert self.formula is not None
        return self.formula


Clause = frozenset[Atom]  # one of them holds


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """A set of objects.

    Attributes:
        named: name -> what its value satisfies, in the order in which the schema lists them.
        general: (set of names, formula): every property with such a name has such a value.
        required: names that are present, in order.
        min_count, max_count: bounds of the number of properties; None is no bound.
        clauses: disjunctions, each of which holds.
        declares, opens: some schema lists `properties`; some schema says what other properties are.
        evaluated: names that some keyword has looked at, for `unevaluatedProperties`.
    """

    named: dict[str, tuple[Formula, ...]] = field(default_factory=dict)
    general: tuple[tuple[Names, Formula], ...] = ()
    required: dict[str, None] = field(default_factory=dict)
    min_count: int = 0
    max_count: int | None = None
    clauses: tuple[Clause, ...] = ()
    declares: bool = False
    opens: bool = False
    evaluated: frozenset[Names] = frozenset()

    def meet(self, other: ObjectShape) -> ObjectShape | None:
        """The intersection; None where it is plainly empty."""
        if self is ANY_OBJECT or other is ANY_OBJECT:
            return other if self is ANY_OBJECT else self
        named = dict(self.named)
        for name, formulas in other.named.items():
            named[name] = tuple(dict.fromkeys(named[name] + formulas)) if name in named else formulas
        merged = ObjectShape(
            named,
            tuple(dict.fromkeys(self.general + other.general)),
            {**self.required, **other.required},
            max(self.min_count, other.min_count),
            least(self.max_count, other.max_count),
            tuple(dict.fromkeys(self.clauses + other.clauses)),
            self.declares or other.declares,
            self.opens or other.opens,
            self.evaluated | other.evaluated,
        )
        return merged.tidy()

    def tidy(self) -> ObjectShape | None:
        """None where counts and required names contradict each other."""
        if self.max_count is not None and max(self.min_count, len(self.required)) > self.max_count:
            return None
        return self

    def without_annotations(self) -> ObjectShape:
        return replace(self, evaluated=frozenset()) if self.evaluated else self

    def key(self) -> tuple:
        """Equal for equal shapes."""
        return (
            tuple(self.named.items()),
            self.general,
            tuple(self.required),
            self.min_count,
            self.max_count,
            self.clauses,
            self.declares,
            self.opens,
            self.evaluated,
        )


ANY_OBJECT = ObjectShape()


def from_atom(atom: Atom) -> ObjectShape:
    """The objects that satisfy one condition."""
    match atom.kind:
        case "lacks" if atom.name is not None:
            return ObjectShape(named={atom.name: (atom.claim,)})
        case "fewer":
            return ObjectShape(max_count=atom.bound - 1)
        case "more":
            return ObjectShape(min_count=atom.bound + 1)
        case "each" if atom.name is not None:
            return ObjectShape(named={atom.name: (atom.claim,)})
        case "each" if atom.names is not None:
            return ObjectShape(general=((atom.names, atom.claim),))
        case "some" if atom.name is not None:
            named: dict[str, tuple[Formula, ...]] = {} if atom.claim.kind == "true" else {atom.name: (atom.claim,)}
            return ObjectShape(named=named, required={atom.name: None})
    return ObjectShape(clauses=(frozenset({atom}),))
