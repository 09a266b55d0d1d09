"""How numbers may go on, digit by digit: a number shape and what is written so far go in, what may follow comes out; knows no bytes.

Spellings are those of `json.dumps` (and of JSON encoders in general): an integer part, a fraction, and an exponent for very
large and very small magnitudes; digit runs are bounded. Integers are digits: of 1e+53 many clients can't make an integer. What
matters of a prefix is how it compares with every bound and what it is modulo every step; exact arithmetic says whether it can be
completed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache

from guided.json_schema.numbers import NumberShape

MOST_INTEGER_DIGITS = 60
MOST_FRACTION_DIGITS = 24  # repr writes at most 17 significant digits, from 0.0001 on without an exponent
MOST_MANTISSA_DIGITS = 16  # after the point, before an exponent
MOST_DIGITS_BEFORE_ZERO = 16  # of an integer that is written 1.0: encoders write larger floats with an exponent
POINT = "."
_DIGITS = "0123456789"
_SCAN = 10_000  # multiples that are looked at before an interval counts as empty
_LARGE, _SMALL = range(16, 308), range(-323, -4)  # exponents that repr writes


@dataclass(frozen=True, slots=True)
class Prefix:
    """A number half written: sign, digits as one integer, how many before the point, how many after it (None: no point)."""

    negative: bool
    digits: int
    before: int
    after: int | None

    def longer(self, character: str) -> Prefix:
        """One digit or the point more."""
        if character == POINT:
            return Prefix(self.negative, self.digits, self.before, 0)
        digits = self.digits * 10 + int(character)
        if self.after is None:
            return Prefix(self.negative, digits, self.before + 1, None)
        return Prefix(self.negative, digits, self.before, self.after + 1)


def spellings(value: Fraction) -> set[str]:
    """The texts of one number: as an integer, as `repr` writes the float, and without an exponent where that is short."""
    texts = set()
    if value.denominator == 1:
        texts |= {str(value), f"{value}.0"} if len(str(value)) <= MOST_INTEGER_DIGITS + 40 else {str(value)}
    else:
        texts.add(decimal(value))
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


def decimal(value: Fraction) -> str:
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
    """The spellings of one shape with infinitely or very many members, with or without exponents."""

    def __init__(self, shape: NumberShape, exponents: bool = True) -> None:
        self.shape = shape
        self.whole = shape.step is not None and shape.step.denominator == 1
        self.exponents = exponents and not shape.plain and not self.whole
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

    # --- what may follow ----------------------------------------------------------------------------------------------

    def ends(self, prefix: Prefix) -> bool:
        """Is the prefix a whole number of the shape?"""
        return prefix.before > 0 and prefix.after != 0 and self.value(prefix) in self.shape

    def moves(self, prefix: Prefix) -> list[tuple[str, Prefix]]:
        """The digits, or the point, that may follow, with the prefix they lead to, or one of these like the others; without exponents."""
        moves = self._digits(prefix)
        pointed = Prefix(prefix.negative, prefix.digits, prefix.before, 0)
        if self._may_have_point(prefix) and self._can_complete(pointed):
            moves.append((POINT, pointed))
        return moves

    def _may_have_point(self, prefix: Prefix) -> bool:
        if self.shape.plain or not prefix.before or prefix.after is not None:
            return False
        return not self.whole or prefix.before <= MOST_DIGITS_BEFORE_ZERO

    def _digits(self, prefix: Prefix) -> list[tuple[str, Prefix]]:
        before, after = prefix.before, prefix.after
        if (after is None and before == 1 and prefix.digits == 0) or (after is None and before >= self.most_before > 0):
            return []  # nothing follows a leading zero
        if after is not None and after >= (
            max(self.most_after, MOST_MANTISSA_DIGITS) if before == 1 else self.most_after
        ):
            return []
        grown = (before + 1, None) if after is None else (before, after + 1)
        groups = (_DIGITS,) if self._is_settled(prefix) else _DIGITS
        candidates = ((group, Prefix(prefix.negative, prefix.digits * 10 + int(group[0]), *grown)) for group in groups)
        return [(group, candidate) for group, candidate in candidates if self._can_complete(candidate)]

    def _is_settled(self, prefix: Prefix) -> bool:
        """Does it make no difference which digit follows? `key` is the same then, whichever it is."""
        if not prefix.digits or (prefix.before == 1 and prefix.after == 0):
            return False
        if any(modulus > 1 or prefix.after is not None for modulus in self.moduli):
            return False
        return all(self._relation(prefix, point) for point in self.points)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def value(self, prefix: Prefix) -> Fraction:
        value = Fraction(prefix.digits, 10 ** (prefix.after or 0))
        return -value if prefix.negative else value

    def _can_complete(self, prefix: Prefix) -> bool:
        """Is some number that begins like this in the shape? By exact arithmetic on the intervals of its completions."""
        scale = self.scale
        if prefix.after is not None:
            width = 10 ** (scale - prefix.after)
            return self._meets(prefix.digits * width, width, prefix.negative) or bool(self.powers(prefix))
        more = self.most_before - prefix.before if prefix.digits else 0
        for digits in range(max(more, 0) + 1):
            width = 10 ** (scale + digits)
            if self._meets(prefix.digits * width, width, prefix.negative):
                return True
        return bool(self.powers(prefix))

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

    def powers(self, prefix: Prefix) -> tuple[int, ...]:
        """Exponents with which every mantissa of one leading digit, and of as many others, gives a member: so this one too."""
        after = prefix.after or 0
        if not self.exponents:
            return ()
        if prefix.before != 1 or not prefix.digits or after > MOST_MANTISSA_DIGITS:
            return ()
        largest = _fits_largest_power(prefix)
        key = prefix.negative, after, largest
        known = self._known_powers.get(key)
        if known is None:
            least = self._least_power
            known = self._known_powers[key] = tuple(
                power
                for power in self._decades[prefix.negative]
                if least is not None and power - after >= least and (largest or power != 308)
            )
        return known

    @cached_property
    def _known_powers(self) -> dict[tuple[bool, int, bool], tuple[int, ...]]:
        return {}

    @cached_property
    def _least_power(self) -> int | None:
        """The least power of ten that is a multiple of the step, as those above it are then; None: there is none."""
        step = self.shape.step
        if step is None:
            return _SMALL.start - MOST_MANTISSA_DIGITS
        powers = range(_SMALL.start - MOST_MANTISSA_DIGITS, _LARGE.stop + 1)
        return next((power for power in powers if not _power_of_ten(power) % step), None)

    @cached_property
    def _decades(self) -> dict[bool, tuple[int, ...]]:
        return {negative: tuple(self._whole_decades(negative)) for negative in (False, True)}

    @cached_property
    def _least_off_step(self) -> Fraction | None:
        return min(self.shape.off_steps, default=None)

    def _whole_decades(self, negative: bool) -> Iterator[int]:
        """The powers for which each number of magnitude 10^power to 10^(power+1) is a member, as far as mantissas are short enough."""
        shape, off_step = self.shape, self._least_off_step
        least, most, sign = (shape.low, shape.high, 1) if not negative else (shape.high, shape.low, -1)
        least_open, most_open = (shape.low_open, shape.high_open) if not negative else (shape.high_open, shape.low_open)
        least, most = (None if bound is None else sign * bound for bound in (least, most))
        if most is not None and most <= 0:
            return
        excluded = {sign * value for value in shape.excluded}
        for power in (*_LARGE, 308, *_SMALL):
            low, high = _power_of_ten(power), _power_of_ten(power + 1)
            if off_step is not None and high > off_step:
                continue  # smaller ones are no multiples
            if least is not None and least > 0 and (low < least or (low == least and least_open)):
                continue
            if most is not None and (high > most or (high == most and most_open)):
                continue
            if not any(low <= value <= high for value in excluded):
                yield power

    # --- what tells prefixes apart ------------------------------------------------------------------------------------

    def key(self, prefix: Prefix) -> tuple:
        """Equal for prefixes with the same completions."""
        relations = tuple(self._relation(prefix, point) for point in self.points)
        residues = tuple(self._residue(prefix, modulus) for modulus in self.moduli)
        exponent = prefix.before == 1 and prefix.digits > 0 and (_fits_largest_power(prefix), True)
        single_zero = prefix.before == 1 and prefix.digits == 0
        before = prefix.before if prefix.after is None else 0
        return prefix.negative, before, prefix.after, single_zero, exponent, relations, residues

    def _relation(self, prefix: Prefix, point: Fraction) -> int:
        """-1, 1: every completion (of as many digits as the point has) is below or above; 0: that is still open."""
        target = -point if prefix.negative else point
        if target < 0:
            return 1
        if prefix.after is None:
            whole, length = self._whole(target)
            missing = length - prefix.before
            if missing < 0:
                return 1
            leading = whole // 10**missing
        else:
            leading = target.numerator * 10**prefix.after // target.denominator
        return (prefix.digits > leading) - (prefix.digits < leading)

    @staticmethod
    @lru_cache(maxsize=256)
    def _whole(target: Fraction) -> tuple[int, int]:
        """The integer part of a number, and its length."""
        return int(target), len(str(int(target)))

    def _residue(self, prefix: Prefix, modulus: int) -> tuple[int, bool]:
        """The digits modulo a step (in units of its last place), and whether digits beyond that place make it miss."""
        after = prefix.after or 0
        if after <= self.places:
            return prefix.digits % modulus, False
        beyond = 10 ** (after - self.places)
        return prefix.digits // beyond % modulus, prefix.digits % beyond != 0


def _fits_largest_power(prefix: Prefix) -> bool:
    """Of one digit before the point: is it below 1.7, whatever follows? Doubles end at 1.797e308."""
    after = prefix.after or 0
    return prefix.digits // 10 ** (after - 1) < 17 if after else prefix.digits == 1


@cache
def _power_of_ten(power: int) -> Fraction:
    return Fraction(10) ** power
