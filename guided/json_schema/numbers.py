"""Numbers of a schema as one shape: an interval, multiples and exceptions in exact arithmetic; knows no spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import ceil, gcd, lcm

_SCAN = 10_000  # multiples that are looked at before a set of them is called empty


@dataclass(frozen=True, slots=True)
class NumberShape:
    """A set of numbers.

    Attributes:
        values: the only candidates, or None for all numbers.
        low, high: bounds, None is no bound; low_open, high_open: the bound itself is not in the set.
        step: every member is a multiple of it (1 for integers); None: no such condition.
        off_steps: no member is a multiple of any of these.
        excluded: numbers that are not in the set.
        plain: written without a fraction or an exponent, as Draft 4 has integers.
    """

    values: frozenset[Fraction] | None = None
    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    step: Fraction | None = None
    off_steps: frozenset[Fraction] = frozenset()
    excluded: frozenset[Fraction] = frozenset()
    plain: bool = False

    def meet(self, other: NumberShape) -> NumberShape | None:
        """The intersection; None where it is empty."""
        if self == ANY_NUMBER:
            return other
        if other == ANY_NUMBER:
            return self
        values = (
            self.values if other.values is None else other.values if self.values is None else self.values & other.values
        )
        low, low_open = _tighter((self.low, self.low_open), (other.low, other.low_open), 1)
        high, high_open = _tighter((self.high, self.high_open), (other.high, other.high_open), -1)
        step = (
            self.step
            if other.step is None
            else other.step
            if self.step is None
            else common_multiple(self.step, other.step)
        )
        merged = NumberShape(
            values,
            low,
            low_open,
            high,
            high_open,
            step,
            self.off_steps | other.off_steps,
            self.excluded | other.excluded,
            self.plain or other.plain,
        )
        return merged.tidy()

    def tidy(self) -> NumberShape | None:
        """A set of candidates stands alone; None where nothing is left."""
        if self.values is not None:
            values = frozenset(value for value in self.values if self._fits(value))
            return NumberShape(values, plain=self.plain) if values else None
        return self if self._has_member() else None

    def __contains__(self, value: Fraction) -> bool:
        return (self.values is None or value in self.values) and self._fits(value)

    def _fits(self, value: Fraction) -> bool:
        return (
            self._in_interval(value)
            and (self.step is None or not value % self.step)
            and not any(not value % step for step in self.off_steps)
            and value not in self.excluded
        )

    def _in_interval(self, value: Fraction) -> bool:
        above = self.low is None or value > self.low or (value == self.low and not self.low_open)
        return above and (self.high is None or value < self.high or (value == self.high and not self.high_open))

    def _has_member(self) -> bool:
        if self.step is None:
            if self.low is None or self.high is None or self.low < self.high:
                return True  # a dense set: what is excluded does not exhaust it
            return self._fits(self.low)
        if any(not self.step % off for off in self.off_steps):
            return False
        return any(self._fits(value) for value in self._multiples())

    def _multiples(self) -> Iterator[Fraction]:
        """Multiples of the step within the interval, from the bound that is nearer to zero, some thousands of them."""
        assert self.step is not None
        if self.low is not None and (self.low > 0 or self.high is None):
            first, direction = ceil(self.low / self.step), 1
        elif self.high is not None:
            first, direction = self.high // self.step, -1
        else:
            first, direction = 0, 1
        for position in range(_SCAN):
            value = (first + direction * position) * self.step
            if not self._in_interval(value) and position > 0:
                return
            yield value

    def some_member(self) -> Fraction:
        """One number of the set, near zero where that is possible."""
        if self.values is not None:
            return min(self.values, key=abs)
        if self.step is not None:
            return next(value for value in self._multiples() if self._fits(value))
        low = self.low if self.low is not None else (self.high or Fraction(0)) - 1
        high = self.high if self.high is not None else low + 1
        inside = (low + (high - low) / parts for parts in count(1))  # ends: what is left out is nowhere dense
        return next(value for value in inside if value in self)

    def finite_values(self, most: int) -> frozenset[Fraction] | None:
        """All members, where these are given or are the multiples in a bounded interval and at most `most`; else None."""
        if self.values is not None:
            return self.values
        if self.low is None or self.high is None:
            return None
        if self.low == self.high:
            return frozenset({self.low})
        if self.step is None or (self.high - self.low) / self.step > most:
            return None
        return frozenset(value for value in self._multiples() if self._fits(value))


ANY_NUMBER = NumberShape()
INTEGER = NumberShape(step=Fraction(1))
PLAIN_INTEGER = NumberShape(step=Fraction(1), plain=True)


def complement(shape: NumberShape) -> list[NumberShape]:
    """Shapes of one condition each, whose union is every number outside of `shape`."""
    if shape.values is not None:
        return [NumberShape(excluded=shape.values)]
    parts = []
    if shape.low is not None:
        parts.append(NumberShape(high=shape.low, high_open=not shape.low_open))
    if shape.high is not None:
        parts.append(NumberShape(low=shape.high, low_open=not shape.high_open))
    if shape.step is not None:
        parts.append(NumberShape(off_steps=frozenset({shape.step})))
    parts.extend(NumberShape(step=step) for step in shape.off_steps)
    if shape.excluded:
        parts.append(NumberShape(values=shape.excluded))
    return parts


def common_multiple(one: Fraction, other: Fraction) -> Fraction:
    """The least number that is a multiple of both."""
    return Fraction(lcm(one.numerator, other.numerator), gcd(one.denominator, other.denominator))


def _tighter(
    one: tuple[Fraction | None, bool], other: tuple[Fraction | None, bool], sign: int
) -> tuple[Fraction | None, bool]:
    """The stricter of two bounds; sign 1 for lower bounds, -1 for upper ones."""
    if one[0] is None or other[0] is None:
        return one if other[0] is None else other
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    return max(one, other, key=lambda bound: sign * bound[0])  # type: ignore[operator]
