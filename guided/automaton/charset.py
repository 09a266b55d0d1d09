"""Sets of Unicode scalar values as sorted ranges: built from characters and ranges, combined by the set algebra; knows no encoding.

A set is kept as its *boundaries*: the code points at which membership flips, in ascending order. `[a-cx]` is
(97, 100, 120, 121). Every operation of the algebra is then one merge of two sorted sequences. Surrogates
(U+D800..U+DFFF) are no characters: no set contains them and the complement leaves them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np

_SURROGATES = (0xD800, 0xE000)
_EVERYTHING = (0, *_SURROGATES, 0x110000)

# Truth tables of the operations, indexed by (in left) + 2 * (in right).
_OR, _AND, _MINUS = (False, True, True, True), (False, False, False, True), (False, True, False, False)


class CharSet:
    """A frozen, hashable set of code points.

    Attributes:
        bounds: even-length tuple of ascending code points; members are bounds[0] <= c < bounds[1], bounds[2] <= c < ...
    """

    __slots__ = ("_hash", "bounds")

    def __init__(self, bounds: tuple[int, ...] = ()) -> None:
        self.bounds = bounds
        self._hash = hash(bounds)

    # --- construction -----------------------------------------------------------------------------------------------

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(*members: str | int) -> CharSet:
        """The set of the given characters: strings (each character of them) or code points."""
        points = {ord(c) for m in members if isinstance(m, str) for c in m} | {m for m in members if isinstance(m, int)}
        return CharSet.from_ranges((point, point) for point in points)

    @staticmethod
    def range(lo: str | int, hi: str | int) -> CharSet:
        """The code points lo..hi, both included; empty if lo > hi."""
        return CharSet.from_ranges([(_point(lo), _point(hi))])

    @staticmethod
    def from_ranges(ranges: Iterable[tuple[int, int]]) -> CharSet:
        """The union of inclusive ranges in any order; surrogates are left out."""
        bounds: list[int] = []
        crosses = False
        for lo, hi in sorted(ranges):
            if lo > hi:
                continue
            crosses |= lo < _SURROGATES[1] and hi >= _SURROGATES[0]
            if bounds and lo <= bounds[-1]:
                bounds[-1] = max(bounds[-1], hi + 1)
            else:
                bounds += (lo, hi + 1)
        built = CharSet(tuple(bounds))
        return built & ANY if crosses else built

    @staticmethod
    def any() -> CharSet:
        """Every Unicode scalar value."""
        return ANY

    @staticmethod
    def none() -> CharSet:
        """The empty set."""
        return NONE

    # --- algebra ----------------------------------------------------------------------------------------------------

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet(_merge(self.bounds, other.bounds, _OR))

    def __and__(self, other: CharSet) -> CharSet:
        left = _clip(self.bounds, other.bounds)
        return CharSet(_merge(left, _clip(other.bounds, left), _AND))

    def __sub__(self, other: CharSet) -> CharSet:
        return CharSet(_merge(self.bounds, _clip(other.bounds, self.bounds), _MINUS))

    def __invert__(self) -> CharSet:
        return CharSet(_merge(_EVERYTHING, self.bounds, _MINUS))

    def __le__(self, other: CharSet) -> bool:
        """Is this a subset of the other?"""
        return not self - other

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Disjoint, non-adjacent inclusive (lo, hi) in ascending order."""
        return tuple((lo, hi - 1) for lo, hi in zip(self.bounds[::2], self.bounds[1::2], strict=True))

    def __contains__(self, character: str | int) -> bool:
        return bool(bisect_right(self.bounds, _point(character)) & 1)

    def __iter__(self) -> Iterator[int]:
        """The code points in ascending order."""
        for lo, hi in self.ranges:
            yield from range(lo, hi + 1)

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __len__(self) -> int:
        return sum(self.bounds[1::2]) - sum(self.bounds[::2])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharSet) and self.bounds == other.bounds

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        shown = ", ".join(f"{lo:#x}" if lo == hi else f"{lo:#x}-{hi:#x}" for lo, hi in self.ranges[:8])
        return f"CharSet({shown}{', ...' if len(self.bounds) > 16 else ''})"


def _point(character: str | int) -> int:
    return ord(character) if isinstance(character, str) else character


def _clip(bounds: tuple[int, ...], span: tuple[int, ...]) -> tuple[int, ...]:
    """The ranges of a set that can meet a set with boundaries `span`: it saves the merge from walking a large set."""
    if not bounds or not span:
        return ()
    if span[0] <= bounds[0] and bounds[-1] <= span[-1]:
        return bounds
    first = max(bisect_right(bounds, span[0]) - 1, 0) & -2
    last = (bisect_right(bounds, span[-1]) + 1) & -2
    return bounds[first:last]


def _merge(left: tuple[int, ...], right: tuple[int, ...], keep: tuple[bool, ...]) -> tuple[int, ...]:
    """The boundaries of the set whose membership is `keep[in left + 2 * in right]`; keep[0] must be False."""
    bounds: list[int] = []
    i = j = 0
    inside = False
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i] < right[j]):
            point = left[i]
            i += 1
        elif i == len(left) or right[j] < left[i]:
            point = right[j]
            j += 1
        else:
            point = left[i]
            i += 1
            j += 1
        if keep[(i & 1) + 2 * (j & 1)] != inside:
            inside = not inside
            bounds.append(point)
    return tuple(bounds)


ANY = CharSet(_EVERYTHING)
NONE = CharSet()
ASCII = CharSet((0, 0x80))


def partition(sets: Iterable[CharSet]) -> tuple[list[CharSet], np.ndarray]:
    """The coarsest partition of all characters in which every given set is a union of blocks ("minterms").

    Returns:
        (blocks, members): disjoint sets that cover every scalar value, and bool[num_sets, num_blocks]: the
        block is part of the set. Cf. D'Antoni and Veanes, "Minimization of Symbolic Automata", 2014.
    """
    sets = list(sets)
    flips: dict[int, int] = {}  # code point -> bit i set = membership in set i flips here; the last bit is that of ANY
    for index, characters in enumerate((*sets, ANY)):
        for point in characters.bounds:
            flips[point] = flips.get(point, 0) ^ (1 << index)
    points = sorted(flips)
    bounds: dict[int, list[int]] = {}  # in which sets -> boundaries of the block
    inside = 0
    for begin, end in pairwise(points):
        inside ^= flips[begin]
        if inside >> len(sets):
            bounds.setdefault(inside, []).extend((begin, end))
    members = np.array([[inside >> row & 1 for inside in bounds] for row in range(len(sets))], dtype=bool)
    return [CharSet(tuple(block)) for block in bounds.values()], members.reshape(len(sets), len(bounds))
