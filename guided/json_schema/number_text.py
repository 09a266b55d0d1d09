"""How numbers are written: from number shapes to rules over bytes; knows no schema.

The states of a shape that has few of them are the same in every network: they are worked out once and copied. Others are rules
that are built as they are reached.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache

from guided.automaton.network import ByteSet, Network, byte_range, byte_set
from guided.json_schema.number_spelling import (
    MOST_FRACTION_DIGITS,
    MOST_INTEGER_DIGITS,
    NumberSpelling,
    Prefix,
    spellings,
)
from guided.json_schema.numbers import ANY_NUMBER, NumberShape

MOST_LISTED = 40  # so many values are spelled out one by one
MOST_STATES = 2_000  # of a shape that is laid out as a whole
_DIGITS = byte_range(0x30, 0x39)
_NONZERO = byte_range(0x31, 0x39)
_MINUS, _POINT, _EXPONENT = 1 << ord("-"), 1 << ord("."), 1 << ord("e")
START, BELOW = Prefix(False, 0, 0, None), Prefix(True, 0, 0, None)  # nothing is written yet, or a minus sign is


class NumberText:
    """The rules of all number shapes of one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._rules: dict[NumberShape, int] = {}

    def take_over(self, other: NumberText, first: int) -> None:
        """Has the rules of other numbers, whose network has been included: its rules count from `first` here."""
        self._rules |= {shape: first + rule for shape, rule in other._rules.items()}

    def rule(self, shape: NumberShape) -> int:
        """A rule that reads the numbers of the shape."""
        known = self._rules.get(shape)
        if known is None:
            part = number_part(shape)
            known = (
                LateNumber(self.network, NumberSpelling(shape)).rule() if part is None else self.network.include(part)
            )
            self._rules[shape] = known
        return known


@lru_cache(maxsize=1024)
def number_part(shape: NumberShape) -> Network | None:
    """The network of the numbers of a shape; None where it has too many states to be laid out as a whole."""
    part = _Part()
    values = shape.finite_values(MOST_LISTED)
    start: int | None
    if shape == ANY_NUMBER:
        start = part.any_number()
    elif values is not None:
        start = part.listed(values, shape.plain)
    else:
        start = part.spelled(NumberSpelling(shape))
    if start is None:
        return None
    part.network.root = part.network.rule()
    part.network.define(part.network.root, start)
    return part.network


class _Part:
    """Lays out one shape as a whole."""

    def __init__(self) -> None:
        self.network = Network()
        self._powers_of: dict[tuple[int, ...], int] = {}

    def spelled(self, spelling: NumberSpelling) -> int | None:
        """A state for each kind of prefix; None if these are too many."""
        network = self.network
        end = network.state(final=True)
        states = {spelling.key(START): network.state(), spelling.key(BELOW): network.state()}
        waiting = [START, BELOW]
        start, below = states.values()
        for prefix in waiting:  # grows as prefixes are found
            if len(states) > MOST_STATES:
                return None
            source, moves = states[spelling.key(prefix)], spelling.moves(prefix)
            if prefix is BELOW and moves:
                network.edge(start, _MINUS, below)
            reached: dict[int, ByteSet] = {}
            for characters, following in moves:
                key = spelling.key(following)
                if key not in states:
                    states[key] = network.state(final=spelling.ends(following))
                    waiting.append(following)
                reached[states[key]] = reached.get(states[key], 0) | byte_set(characters.encode())
            for target, symbols in reached.items():
                network.edge(source, symbols, target)
            if prefix.after != 0 and (powers := spelling.powers(prefix)):
                after = network.state()
                network.edge(source, _EXPONENT, after)
                network.call(after, self.texts(powers, canonical_powers), end)
        return start

    def listed(self, values: frozenset[Fraction], plain: bool) -> int:
        start, end = self.network.state(), self.network.state(final=True)
        for value in sorted(values):
            for text in sorted({str(value)} if plain else spellings(value)):
                self.network.literal(start, text.encode(), end)
        return start

    def any_number(self) -> int:
        """Any number that a double can hold: also the spellings that no encoder writes, such as 1E5 or 12e-3."""
        network = self.network
        start, unsigned = network.state(), network.state()
        network.edge(start, _MINUS, unsigned)
        zero, one, first = (network.state(final=True) for _ in range(3))
        for source in (start, unsigned):
            network.edge(source, 1 << ord("0"), zero)
            network.edge(source, 1 << ord("1"), one)
            network.edge(source, _NONZERO & ~(1 << ord("1")), first)
        short = self._powers(range(-99, 100))
        long = self._powers((*range(-323, 0), *range(308)))
        huge = self._powers((*range(-323, 0), *range(309)))
        self._real(zero, _DIGITS, short)
        self._real(one, byte_range(0x30, 0x36), huge)
        self._real(one, byte_range(0x37, 0x39), long)
        self._real(first, _DIGITS, long)
        whole = network.state(final=True)
        for source in (one, first):
            network.edge(source, _DIGITS, whole)
        fraction = self._real(whole, _DIGITS, short)
        for _ in range(MOST_INTEGER_DIGITS - 2):
            following = network.state(final=True)
            network.edge(whole, _DIGITS, following)
            whole = following
            network.edge(whole, _POINT, fraction)
            self._exponent(whole, short)
        return start

    def _real(self, whole: int, tenths: ByteSet, exponents: int) -> int:
        """A fraction and an exponent after an integer part; returns the state after the point."""
        network = self.network
        self._exponent(whole, exponents)
        point, digit = network.state(), network.state(final=True)
        network.edge(whole, _POINT, point)
        network.edge(point, tenths, digit)
        self._exponent(digit, exponents)
        for _ in range(MOST_FRACTION_DIGITS - 1):
            following = network.state(final=True)
            network.edge(digit, _DIGITS, following)
            digit = following
            self._exponent(digit, exponents)
        return point

    def _exponent(self, source: int, exponents: int) -> None:
        after, end = self.network.state(), self.network.state(final=True)
        self.network.edge(source, _EXPONENT | 1 << ord("E"), after)
        self.network.call(after, exponents, end)

    def _powers(self, powers: range | tuple[int, ...]) -> int:
        """A rule that reads an exponent in any spelling of at most three digits."""
        return self.texts(tuple(powers), _any_powers)

    def texts(self, key: tuple[int, ...], texts: Callable[[tuple[int, ...]], set[str]]) -> int:
        """A rule that reads one of some short texts; deterministic."""
        known = self._powers_of.get(key)
        if known is None:
            known = self._powers_of[key] = self.network.rule()
            self.network.define(known, self._trie(texts(key)))
        return known

    def _trie(self, texts: set[str]) -> int:
        states = {"": self.network.state()}
        for text in sorted(texts):
            for length in range(1, len(text) + 1):
                if text[:length] not in states:
                    states[text[:length]] = self.network.state(final=text[:length] in texts)
                    self.network.edge(states[text[: length - 1]], 1 << ord(text[length - 1]), states[text[:length]])
        return states[""]


def _signs(power: int) -> tuple[str, ...]:
    return ("-",) if power < 0 else ("", "+", "-") if power == 0 else ("", "+")


def canonical_powers(powers: tuple[int, ...]) -> set[str]:
    """Exponents as `repr` writes them: +16, -07, -123."""
    return {f"{power:+03d}" for power in powers}


def _any_powers(powers: tuple[int, ...]) -> set[str]:
    """Exponents in any spelling."""
    return {f"{sign}{abs(power):0{width}d}" for power in powers for width in (1, 2) for sign in _signs(power)}


class LateNumber:
    """The rules of one shape, each for what a kind of prefix leaves to do."""

    def __init__(self, network: Network, spelling: NumberSpelling) -> None:
        self.network = network
        self.spelling = spelling
        self.end = network.state(final=True)
        self._rules: dict[tuple, int] = {}
        self._powers_of: dict[tuple[int, ...], int] = {}

    def rule(self) -> int:
        """A rule that reads the numbers of the shape."""
        return self.network.rule(self._start)

    def _start(self) -> int:
        start, below = self.network.state(), self.network.state()
        self._add(start, START)
        if self._add(below, BELOW):
            self.network.edge(start, _MINUS, below)
        return start

    def rest(self, prefix: Prefix) -> int:
        """A rule that reads what may follow a prefix."""
        key = self.spelling.key(prefix)
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = self.network.rule(lambda: self._build(prefix))
        return known

    def _build(self, prefix: Prefix) -> int:
        state = self.network.state(final=self.spelling.ends(prefix))
        self._add(state, prefix)
        powers = self.spelling.powers(prefix) if prefix.after != 0 else ()
        if powers:
            after = self.network.state()
            self.network.edge(state, _EXPONENT, after)
            self.network.call(after, self._power(powers), self.end)
        return state

    def _add(self, source: int, prefix: Prefix) -> bool:
        """The digits and the point that may follow; are there any?"""
        by_rule: dict[int, ByteSet] = {}
        for characters, following in self.spelling.moves(prefix):
            rule = self.rest(following)
            by_rule[rule] = by_rule.get(rule, 0) | byte_set(characters.encode())
        for rule, symbols in by_rule.items():
            after = self.network.state()
            self.network.edge(source, symbols, after)
            self.network.call(after, rule, self.end)
        return bool(by_rule)

    def _power(self, powers: tuple[int, ...]) -> int:
        known = self._powers_of.get(powers)
        if known is None:
            known = self._powers_of[powers] = self.network.include(_power_part(powers))
        return known


@cache
def _power_part(powers: tuple[int, ...]) -> Network:
    part = _Part()
    part.network.root = part.texts(powers, canonical_powers)
    return part.network
