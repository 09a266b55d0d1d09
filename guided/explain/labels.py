"""A set of characters in, the text that people read out: `a`, `[0-9a-f]`, `[^"\\\\]`, `any`; knows no automaton."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from guided.automaton.charset import ANY, ASCII, CharSet

MAX_RANGES = 10  # shown of one set; the rest is counted
_MAX_BEYOND = 3  # ranges beyond ASCII

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_IN_CLASS = {"\\": "\\\\", "]": "\\]", "^": "\\^", "-": "\\-"}
_HYPHEN = ord("-")


def character_label(character: str) -> str:
    """One character by itself; what a terminal would not show is escaped."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def text_label(text: str) -> str:
    """A text with everything escaped that a terminal would not show."""
    return "".join(map(character_label, text))


def cells(text: str) -> int:
    """Columns of a monospaced font that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def set_label(characters: CharSet, max_ranges: int = MAX_RANGES) -> str:
    """A set as a character class of a regex, the shorter of the class and its complement; one character stands for itself."""
    if len(characters) == 1:
        return character_label(chr(characters.bounds[0]))
    if characters == ANY:
        return "any"
    missing = ~characters
    if 0x10FFFF in characters and len(missing.bounds) <= len(characters.bounds):
        return f"[^{_ranges(missing, max_ranges)}]"
    return f"[{_ranges(characters, max_ranges)}]"


def _ranges(characters: CharSet, max_ranges: int) -> str:
    """Letters and digits first, a hyphen last, where it needs no escape; of many ranges beyond ASCII only their size."""
    ascii_part = sorted(_without_pairs((characters & ASCII).ranges), key=_reading_order)
    beyond = list(_without_pairs((characters - ASCII).ranges))
    shown = ascii_part[:max_ranges]
    if len(beyond) <= _MAX_BEYOND and len(shown) + len(beyond) <= max_ranges:
        shown = sorted([*shown, *beyond], key=_reading_order)
    left = len(characters) - sum(hi - lo + 1 for lo, hi in shown)
    return "".join(_range(lo, hi) for lo, hi in shown) + (f"… {left:,} more" if left else "")


def _without_pairs(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Two neighbours are two members, not a range."""
    for lo, hi in ranges:
        yield from ((lo, lo), (hi, hi)) if hi == lo + 1 else ((lo, hi),)


def _reading_order(bounds: tuple[int, int]) -> tuple[int, int]:
    first = chr(bounds[0])
    kind = (
        0
        if first.islower() and first < "\x80"
        else 1
        if first.isalpha() and first < "\x80"
        else 2
        if first.isdigit()
        else 3
    )
    return (4 if bounds == (_HYPHEN, _HYPHEN) else kind), bounds[0]


def _range(lo: int, hi: int) -> str:
    first, last = _class_member(lo), _class_member(hi)
    if lo == hi:
        return "-" if lo == _HYPHEN else first
    return f"{first}-{last}"


def _class_member(point: int) -> str:
    character = chr(point)
    return _IN_CLASS.get(character) or character_label(character)
