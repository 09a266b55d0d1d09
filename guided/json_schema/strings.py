"""Strings of a schema as one shape: words, length, patterns and formats, kept symbolic until someone asks; knows no bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

Test = tuple[str, str, bool]  # "pattern" or "format", its text, whether it must hold


@dataclass(frozen=True, slots=True)
class StringShape:
    """A set of strings.

    Attributes:
        words: the only candidates, or None for all strings.
        min_length, max_length: in code points; None is no bound.
        tests: patterns and formats that must or must not hold.
        excluded: strings that are not in the set.
    """

    words: frozenset[str] | None = None
    min_length: int = 0
    max_length: int | None = None
    tests: frozenset[Test] = frozenset()
    excluded: frozenset[str] = frozenset()

    def meet(self, other: StringShape) -> StringShape | None:
        """The intersection; None where it is plainly empty."""
        if self == ANY_STRING:
            return other
        if other == ANY_STRING:
            return self
        words = self.words if other.words is None else other.words if self.words is None else self.words & other.words
        merged = StringShape(
            words,
            max(self.min_length, other.min_length),
            least(self.max_length, other.max_length),
            self.tests | other.tests,
            self.excluded | other.excluded,
        )
        return merged.tidy()

    def tidy(self) -> StringShape | None:
        """Length bounds and exclusions applied to the words; None where nothing is left."""
        if self.max_length is not None and self.min_length > self.max_length:
            return None
        if any((kind, text, not positive) in self.tests for kind, text, positive in self.tests):
            return None
        if self.words is None:
            return self
        words = frozenset(word for word in self.words if self._fits(word) and word not in self.excluded)
        return replace(self, words=words, min_length=0, max_length=None, excluded=frozenset()) if words else None

    def _fits(self, word: str) -> bool:
        return self.min_length <= len(word) and (self.max_length is None or len(word) <= self.max_length)


ANY_STRING = StringShape()


def least(one: int | None, other: int | None) -> int | None:
    """The smaller of two upper bounds, None being no bound."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
