"""Arrays of a schema as one shape: what holds from which position on, how many items, how many of which kind; knows no bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guided.json_schema.formulas import Formula
from guided.json_schema.strings import least


@dataclass(frozen=True, slots=True)
class Span:
    """Positions first..last of an array (last None: to the end) and what each item there satisfies."""

    first: int
    last: int | None
    formula: Formula


@dataclass(frozen=True, slots=True)
class Count:
    """At least `least` and at most `most` of the items from position `first` on satisfy `formula`."""

    first: int
    formula: Formula
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A set of arrays.

    Attributes:
        spans: conditions on items by position.
        counts: conditions on the number of items of a kind.
        min_items, max_items: bounds of the length; None is no bound.
        unique: no two items are equal; repeated: some two are, which is told apart but not generated.
        evaluated: items that some keyword has looked at, for `unevaluatedItems`: the number of leading ones (None: all)...
        evaluated_kinds: ...and the formulas of `contains` whose matches count as evaluated.
    """

    spans: tuple[Span, ...] = ()
    counts: tuple[Count, ...] = ()
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    repeated: bool = False
    evaluated: int | None = 0
    evaluated_kinds: frozenset[Formula] = frozenset()

    def meet(self, other: ArrayShape) -> ArrayShape | None:
        """The intersection; None where it is plainly empty."""
        if self is ANY_ARRAY or other is ANY_ARRAY:
            return other if self is ANY_ARRAY else self
        return ArrayShape(
            tuple(dict.fromkeys(self.spans + other.spans)),
            tuple(dict.fromkeys(self.counts + other.counts)),
            max(self.min_items, other.min_items),
            least(self.max_items, other.max_items),
            self.unique or other.unique,
            self.repeated or other.repeated,
            None if self.evaluated is None or other.evaluated is None else max(self.evaluated, other.evaluated),
            self.evaluated_kinds | other.evaluated_kinds,
        ).tidy()

    def tidy(self) -> ArrayShape | None:
        """None where lengths contradict each other."""
        if self.max_items is not None and self.min_items > self.max_items:
            return None
        if self.unique and self.repeated:
            return None
        if any(count.most is not None and count.least > count.most for count in self.counts):
            return None
        return self

    def formulas_at(self, position: int) -> list[Formula]:
        """What the item at a position satisfies, counts aside."""
        return [
            span.formula
            for span in self.spans
            if span.first <= position and (span.last is None or position <= span.last)
        ]

    @property
    def regular_from(self) -> int:
        """The position from which on the conditions no longer change."""
        ends = [span.last + 1 for span in self.spans if span.last is not None]
        return max([0, *ends, *(span.first for span in self.spans), *(count.first for count in self.counts)])

    def without_annotations(self) -> ArrayShape:
        if self.evaluated == 0 and not self.evaluated_kinds:
            return self
        return replace(self, evaluated=0, evaluated_kinds=frozenset())


ANY_ARRAY = ArrayShape()
