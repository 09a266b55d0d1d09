"""How numbers are written: from number shapes to rules over bytes; knows no schema.

Spellings are those of `json.dumps` (and of JSON encoders in general): an integer part, a fraction, and an exponent for very
large and very small magnitudes; digit runs are bounded. Digits are read from the left, the rules carry how the number so far
compares with every bound and what remains of it modulo every step, and exact arithmetic says whether it can be completed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from guided.automaton.network import ByteSet, Network, byte_range
from guided.json_schema.numbers import ANY_NUMBER, NumberShape

MOST_INTEGER_DIGITS = 60
MOST_FRACTION_DIGITS = 24  # repr writes at most 17 significant digits, from 0.0001 on without an exponent
MOST_MANTISSA_DIGITS = 16  # after the point, before an exponent
_SCAN = 10_000  # multiples that are looked at before an interval counts as empty
MOST_LISTED = 40  # so many values are spelled out one by one
_DIGITS = byte_range(0x30, 0x39)
_NONZERO = byte_range(0x31, 0x39)
_MINUS, _POINT, _EXPONENT = 1 << ord("-"), 1 << ord("."), 1 << ord("e")
_LARGE, _SMALL = range(16, 308), range(-323, -4)  # exponents that repr writes


@dataclass(frozen=True, slots=True)
class Prefix:
    """A number half written: sign, digits as one integer, how many before the point, how many after it (None: no point)."""

    negative: bool
    digits: int
    before: int
    after: int | None


class NumberText:
    """The rules of all number shapes of one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._rules: dict[NumberShape, int] = {}
        self._text_rules: dict[Hashable, int] = {}

    def rule(self, shape: NumberShape) -> int:
        """A rule that reads the numbers of the shape."""
        known = self._rules.get(shape)
        if known is None:
            known = self._rules[shape] = self.network.rule(lambda: self._build(shape))
        return known

    def _build(self, shape: NumberShape) -> int:
        if shape == ANY_NUMBER:
            return self._any_number()
        values = shape.finite_values(MOST_LISTED)
        if values is not None:
            return self._listed(values, shape.plain)
        return NumberSpelling(self, shape).start()

    def _listed(self, values: frozenset[Fraction], plain: bool) -> int:
        start, end = self.network.state(), self.network.state(final=True)
        for value in sorted(values):
            for text in sorted({str(value)} if plain else spellings(value)):
                self.network.literal(start, text.encode(), end)
        return start

    def _any_number(self) -> int:
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

        def texts() -> set[str]:
            return {f"{sign}{abs(power):0{width}d}" for power in powers for width in (1, 2) for sign in _signs(power)}

        return self._texts(("any", *powers), texts)

    def canonical_powers(self, powers: tuple[int, ...]) -> int:
        """A rule that reads one of these exponents as `repr` writes it: +16, -07, -123."""
        return self._texts(powers, lambda: {f"{power:+03d}" for power in powers})

    def _texts(self, key: Hashable, texts: Callable[[], set[str]]) -> int:
        """A rule that reads one of some short texts; deterministic."""
        known = self._text_rules.get(key)
        if known is None:
            known = self._text_rules[key] = self.network.rule(lambda: self._trie(texts()))
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


def spellings(value: Fraction) -> set[str]:
    """The texts of one number: as an integer, as `repr` writes the float, and without an exponent where that is short."""
    texts = set()
    if value.denominator == 1:
        texts |= {str(value), f"{value}.0"} if len(str(value)) <= MOST_INTEGER_DIGITS + 40 else {str(value)}
    else:
        texts.add(_decimal(value))
    try:
        number = float(value)
    except OverflowError:
        return texts
    text = repr(number)
    if Fraction(text) == value and number not in (float("inf"), float("-inf")):
        texts.add(text)
    if not value:
        texts |= {"-0", "-0.0"}
    return texts


def _decimal(value: Fraction) -> str:
    """A decimal fraction without an exponent."""
    places = decimal_places(value)
    scaled = abs(value) * 10**places
    assert scaled.denominator == 1
    digits = str(scaled.numerator).rjust(places + 1, "0")
    return ("-" if value < 0 else "") + f"{digits[:-places]}.{digits[-places:]}"


def decimal_places(value: Fraction) -> int:
    """Digits after the point of a decimal fraction."""
    places, denominator = 0, value.denominator
    while denominator % 10 == 0:
        denominator //= 10
        places += 1
    while denominator > 1:
        factor = 2 if denominator % 2 == 0 else 5
        assert denominator % factor == 0, "schemas contain decimal fractions only"
        denominator //= factor
        places += 1
    return places


class NumberSpelling:
    """The rules of one shape with infinitely or very many members; each rule stands for what a prefix leaves to do."""

    def __init__(self, text: NumberText, shape: NumberShape) -> None:
        self.network = text.network
        self.text = text
        self.shape = shape
        points = [point for point in (shape.low, shape.high) if point is not None]
        self.points = sorted({*points, *shape.excluded})
        steps = [*([shape.step] if shape.step is not None else []), *sorted(shape.off_steps)]
        self.places = max(map(decimal_places, (*self.points, *steps)), default=0)
        self.moduli = [int(step * 10**self.places) for step in steps]
        longest = max((len(str(abs(int(point)))) for point in points), default=0)
        both = shape.low is not None and shape.high is not None
        self.most_before = longest if both else max(MOST_INTEGER_DIGITS, longest + 3)
        if shape.step is not None:
            self.most_after = max(1, decimal_places(shape.step))
        else:
            self.most_after = max(MOST_FRACTION_DIGITS, self.places + 3)
        self._scale(shape)
        self._rules: dict[tuple, int] = {}
        self.end = self.network.state(final=True)

    def _scale(self, shape: NumberShape) -> None:
        """The shape in whole numbers, units of the last place that is written or spoken of."""
        self.scale = max(self.places, self.most_after, MOST_MANTISSA_DIGITS)
        one = 10**self.scale
        self.unit = 10 ** (self.scale - self.most_after)
        self.low = None if shape.low is None else int(shape.low * one) + shape.low_open
        self.high = None if shape.high is None else int(shape.high * one) - shape.high_open
        self.grid = self.unit if shape.step is None else int(shape.step * one)
        self.off_steps = [int(step * one) for step in sorted(shape.off_steps)]
        self.excluded = {int(value * one) for value in shape.excluded}

    def start(self) -> int:
        start = self.network.state()
        for negative, source in ((False, start), (True, self.network.state())):
            moves = self.digit_moves(Prefix(negative, 0, 0, None))
            if moves:
                if negative:
                    self.network.edge(start, _MINUS, source)
                self._add(source, moves)
        return start

    # --- rules ------------------------------------------------------------------------------------------------------

    def _rule(self, prefix: Prefix) -> int:
        key = self._key(prefix)
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = self.network.rule(lambda: self._build(prefix))
        return known

    def _build(self, prefix: Prefix) -> int:
        ends = prefix.after != 0 and self.value(prefix) in self.shape
        state = self.network.state(final=ends)
        self._add(state, self.digit_moves(prefix))
        if prefix.after is None and not self.shape.plain:
            pointed = Prefix(prefix.negative, prefix.digits, prefix.before, 0)
            if self._can_complete(pointed):
                self._add(state, [(_POINT, pointed)])
        powers = self._powers(prefix) if prefix.after != 0 else ()
        if powers:
            after = self.network.state()
            self.network.edge(state, _EXPONENT, after)
            self.network.call(after, self.text.canonical_powers(powers), self.end)
        return state

    def _add(self, source: int, moves: list[tuple[ByteSet, Prefix]]) -> None:
        by_rule: dict[int, ByteSet] = {}
        for symbols, prefix in moves:
            rule = self._rule(prefix)
            by_rule[rule] = by_rule.get(rule, 0) | symbols
        for rule, symbols in by_rule.items():
            after = self.network.state()
            self.network.edge(source, symbols, after)
            self.network.call(after, rule, self.end)

    def moves(self, prefix: Prefix) -> list[tuple[ByteSet, Prefix]]:
        """The digits, or the point, that may follow; exponents are left out."""
        moves = self.digit_moves(prefix)
        pointed = Prefix(prefix.negative, prefix.digits, prefix.before, 0)
        if prefix.before and prefix.after is None and not self.shape.plain and self._can_complete(pointed):
            moves.append((_POINT, pointed))
        return moves

    def digit_moves(self, prefix: Prefix) -> list[tuple[ByteSet, Prefix]]:
        """The digits that may follow, each with the prefix it leads to."""
        before, after = prefix.before, prefix.after
        if (after is None and before == 1 and prefix.digits == 0) or (after is None and before >= self.most_before > 0):
            return []  # nothing follows a leading zero
        if after is not None and after >= (
            max(self.most_after, MOST_MANTISSA_DIGITS) if before == 1 else self.most_after
        ):
            return []
        grown = (before + 1, None) if after is None else (before, after + 1)
        candidates = (Prefix(prefix.negative, prefix.digits * 10 + digit, *grown) for digit in range(10))
        return [
            (1 << 0x30 + digit, candidate)
            for digit, candidate in enumerate(candidates)
            if self._can_complete(candidate)
        ]

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def value(self, prefix: Prefix) -> Fraction:
        value = Fraction(prefix.digits, 10 ** (prefix.after or 0))
        return -value if prefix.negative else value

    def _can_complete(self, prefix: Prefix) -> bool:
        """Is some number that begins like this in the shape? By exact arithmetic on the intervals of its completions."""
        scale = self.scale
        if prefix.after is not None:
            width = 10 ** (scale - prefix.after)
            return self._meets(prefix.digits * width, width, prefix.negative) or bool(self._powers(prefix))
        more = self.most_before - prefix.before if prefix.digits else 0
        for digits in range(max(more, 0) + 1):
            width = 10 ** (scale + digits)
            if self._meets(prefix.digits * width, width, prefix.negative):
                return True
        return bool(self._powers(prefix))

    def _meets(self, first: int, width: int, negative: bool) -> bool:
        """Has the shape a member from `first` up to, not including, `first + width`, in units of the last place?"""
        low, high = (first, first + width - self.unit) if not negative else (self.unit - first - width, -first)
        low = low if self.low is None else max(low, self.low)
        high = high if self.high is None else min(high, self.high)
        candidate = -(-low // self.grid) * self.grid
        for _ in range(_SCAN):
            if candidate > high:
                return False
            if candidate not in self.excluded and all(candidate % step for step in self.off_steps):
                return True
            candidate += self.grid
        return False

    def _powers(self, prefix: Prefix) -> tuple[int, ...]:
        """Exponents with which every mantissa of one leading digit, and of as many others, gives a member: so this one too."""
        after = prefix.after or 0
        if prefix.before != 1 or not prefix.digits or after > MOST_MANTISSA_DIGITS or self.shape.plain:
            return ()
        known = self._known_powers.get((prefix.negative, after))
        if known is None:
            step = self.shape.step
            known = self._known_powers[(prefix.negative, after)] = tuple(
                power
                for power in self._decades[prefix.negative]
                if step is None or not Fraction(10) ** (power - after) % step
            )
        return known if prefix.digits == 1 and not after else tuple(power for power in known if power != 308)

    @cached_property
    def _known_powers(self) -> dict[tuple[bool, int], tuple[int, ...]]:
        return {}

    @cached_property
    def _decades(self) -> dict[bool, tuple[int, ...]]:
        return {
            negative: tuple(power for power in (*_LARGE, 308, *_SMALL) if self._whole_decade(power, negative))
            for negative in (False, True)
        }

    def _whole_decade(self, power: int, negative: bool) -> bool:
        """Is every number of magnitude 10^power to 10^(power+1) a member, as far as mantissas are short enough?"""
        shape = self.shape
        low, high = Fraction(10) ** power, Fraction(10) ** (power + 1)
        if negative:
            low, high = -high, -low
        if (shape.low is not None and low < shape.low) or (shape.high is not None and high > shape.high):
            return False
        if (low == shape.low and shape.low_open) or (high == shape.high and shape.high_open):
            return False
        if any(max(abs(low), abs(high)) > step for step in shape.off_steps):
            return False  # smaller ones are no multiples
        return not any(low <= value <= high for value in shape.excluded)

    # --- what tells prefixes apart ------------------------------------------------------------------------------------

    def _key(self, prefix: Prefix) -> tuple:
        """Equal for prefixes with the same completions."""
        relations = tuple(self._relation(prefix, point) for point in self.points)
        residues = tuple(self._residue(prefix, modulus) for modulus in self.moduli)
        exponent = prefix.before == 1 and prefix.digits > 0 and (prefix.digits == 1 and prefix.after is None, True)
        single_zero = prefix.before == 1 and prefix.digits == 0
        before = prefix.before if prefix.after is None else 0
        return prefix.negative, before, prefix.after, single_zero, exponent, relations, residues

    def _relation(self, prefix: Prefix, point: Fraction) -> int:
        """-1, 1: every completion (of as many digits as the point has) is below or above; 0: that is still open."""
        target = -point if prefix.negative else point
        if target < 0:
            return 1
        if prefix.after is None:
            whole = int(target)
            missing = len(str(whole)) - prefix.before
            if missing < 0:
                return 1
            leading = whole // 10**missing
            return (prefix.digits > leading) - (prefix.digits < leading)
        scaled = target * 10**prefix.after
        leading = int(scaled)
        return (prefix.digits > leading) - (prefix.digits < leading)

    def _residue(self, prefix: Prefix, modulus: int) -> tuple[int, bool]:
        """The digits modulo a step (in units of its last place), and whether digits beyond that place make it miss."""
        after = prefix.after or 0
        if after <= self.places:
            return prefix.digits % modulus, False
        beyond = 10 ** (after - self.places)
        return prefix.digits // beyond % modulus, prefix.digits % beyond != 0
