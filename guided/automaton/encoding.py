"""How a character is written as bytes, as UTF-8 or inside a JSON string: sets and automata become parts of a network.

A set of code points of one encoded length is a set of fixed-length digit strings: lead and continuation digits of 6
bits in UTF-8, hex digits of 4 bits in `\\uXXXX`. Splitting its ranges digit by digit (Thompson's construction for
UTF-8, as in Cox, "Regular Expression Matching in the Wild", 2010) and sharing equal remainders gives the minimal
deterministic automaton of the encoded set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.char_nfa import CharNfa
from guided.automaton.charset import ANY, ASCII, CharSet
from guided.automaton.network import BYTES, CALL, EPSILON, ByteSet, Network, byte_range, byte_set

Ranges = tuple[tuple[int, int], ...]
Digits = Sequence[tuple[int, list[ByteSet]]]  # per position: (bits below it, digit -> the bytes that write it)


class Encoder(Protocol):
    """How one code point of a set is written; adds to the network that it was made for."""

    network: Network

    def char(self, source: int, characters: CharSet, target: int) -> None:
        """From source to target over exactly one character of the set."""

    def plan(self, characters: CharSet) -> tuple[ByteSet, int]:
        """(the single bytes that are characters of the set, the rule that reads all its other encodings or -1)."""

    def text(self, source: int, text: str, target: int) -> None:
        """From source to target over exactly this text."""


class _RuleEncoder(ABC):
    """Byte edges for the ASCII part of a set, one shared rule per distinct rest."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._plans: dict[CharSet, tuple[ByteSet, int]] = {}  # set -> (single bytes, rule for the rest or -1)

    def char(self, source: int, characters: CharSet, target: int) -> None:
        """From source to target over exactly one character of the set; an empty set adds nothing."""
        single, rule = self.plan(characters)
        if single:
            self.network.edge(source, single, target)
        if rule >= 0:
            self.network.call(source, rule, target)

    def plan(self, characters: CharSet) -> tuple[ByteSet, int]:
        """(the single bytes that are characters of the set, the rule that reads all its other encodings or -1)."""
        plan = self._plans.get(characters)
        if plan is None:
            plan = self._plans[characters] = self._plan(characters)
        return plan

    def text(self, source: int, text: str, target: int) -> None:
        """From source to target over exactly this text; lone surrogates are an error of ours."""
        for character in text[:-1]:
            following = self.network.state()
            self.char(source, CharSet.of(character), following)
            source = following
        if text:
            self.char(source, CharSet.of(text[-1]), target)
        else:
            self.network.epsilon(source, target)

    @abstractmethod
    def _plan(self, characters: CharSet) -> tuple[ByteSet, int]:
        """`plan`, made for the first time."""


class Utf8Encoder(_RuleEncoder):
    """A character is its UTF-8 bytes."""

    def text(self, source: int, text: str, target: int) -> None:
        self.network.literal(source, text.encode(), target)

    def _plan(self, characters: CharSet) -> tuple[ByteSet, int]:
        single = _ascii_bytes(characters)
        rest = characters - ASCII
        if not rest:
            return single, -1
        return single, _rule(self.network, lambda start, end: add_utf8(self.network, start, rest, end))


class JsonStringEncoder(_RuleEncoder):
    """A character as it may stand between the quotes of a JSON string.

    Raw UTF-8 for what needs no escape, the short escapes of RFC 8259, and `\\uXXXX` in either hex case: for every
    character with `unicode_escapes`, else only for control characters that have no short escape. Characters beyond
    U+FFFF are surrogate pairs; a lone surrogate cannot be written. Those of unusual sets
    beyond ASCII are late rules.
    """

    def __init__(self, network: Network, unicode_escapes: bool = True) -> None:
        super().__init__(network)
        self.unicode_escapes = unicode_escapes
        self._beyond_ascii: dict[tuple[str, CharSet], int] = {}  # (kind of encoding, characters) -> rule

    def take_over(self, other: JsonStringEncoder, first: int) -> None:
        """Has the rules of another encoder, whose network has been included: its rules count from `first` here."""
        self._beyond_ascii |= {key: first + rule for key, rule in other._beyond_ascii.items()}
        self._plans |= {
            characters: (single, first + rule if rule >= 0 else -1)
            for characters, (single, rule) in other._plans.items()
        }

    def _plan(self, characters: CharSet) -> tuple[ByteSet, int]:
        single, short, wide, escaped = _spellings(characters, self.unicode_escapes)
        if not (wide or escaped or short):
            return single, -1
        return single, _rule(self.network, lambda start, end: self._build(start, wide, short, escaped, end))

    def _build(self, start: int, wide: CharSet, short: ByteSet, escaped: CharSet, end: int) -> None:
        """Everything but single bytes. What lies beyond ASCII is often the same for many sets, and has rules of its own."""
        network = self.network
        if wide:
            network.call(start, self._shared("raw", wide), end)
        if escaped or short:
            backslash = network.state()
            network.edge(start, 1 << ord("\\"), backslash)
            if short:
                network.edge(backslash, short, end)
            _add_ascii_escapes(network, backslash, _ascii_bytes(escaped), end)
            if escaped - ASCII:
                network.call(backslash, self._shared("hex", escaped - ASCII), end)

    def _shared(self, kind: str, characters: CharSet) -> int:
        """A rule for characters beyond ASCII: their UTF-8 bytes, or their hex escapes after the backslash."""
        known = self._beyond_ascii.get((kind, characters))
        if known is None:
            part = lambda: self.network.include(_wide_part(kind, characters))  # noqa: E731
            # That of all of them is wanted nearly always, those of others may be large.
            rule = part() if characters == _WIDE else self.network.rule(lambda: self.network.rule_start[part()])
            known = self._beyond_ascii[(kind, characters)] = rule
        return known


@lru_cache(maxsize=4096)
def _spellings(characters: CharSet, unicode_escapes: bool) -> tuple[ByteSet, ByteSet, CharSet, CharSet]:
    """Of a set: bytes that are written as they are, letters of short escapes, characters beyond ASCII, those that `\\u` may write."""
    raw = characters - _MUST_ESCAPE
    short = byte_set(ord(letter) for letter, value in _SHORT_ESCAPES.items() if value in characters)
    return _ascii_bytes(raw), short, raw - ASCII, characters if unicode_escapes else characters & _ONLY_HEX


@lru_cache(maxsize=256)
def _wide_part(kind: str, characters: CharSet) -> Network:
    """The network of one character beyond ASCII; it is the same in every network."""
    network = Network()
    add = add_utf8 if kind == "raw" else _add_hex_escapes
    network.root = _rule(network, lambda start, end: add(network, start, characters, end))
    return network


_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MUST_ESCAPE = CharSet.range(0, 0x1F) | CharSet.of('"\\')
_ONLY_HEX = CharSet.range(0, 0x1F) - CharSet.of("\b\f\n\r\t")

_WIDE = ANY - ASCII
# Characters that encoders write in one way, and those that they may escape.
SPELT_ONCE = byte_range(0x20, 0x7E) & ~byte_set(b'"\\/')
SPELT_OTHERWISE = ANY - CharSet.of(*(chr(code) for code in range(0x20, 0x7F) if SPELT_ONCE >> code & 1))

_CONTINUATION: list[ByteSet] = [1 << (0x80 + digit) for digit in range(64)]
_HEX: list[ByteSet] = [byte_set({ord(f"{digit:x}"), ord(f"{digit:X}")}) for digit in range(16)]

# Encoded length -> (code points, digit positions). The lead byte is a digit like the others.
_UTF8: tuple[tuple[CharSet, Digits], ...] = (
    (CharSet.range(0, 0x7F), [(0, [1 << b for b in range(128)])]),
    (CharSet.range(0x80, 0x7FF), [(6, [1 << (0xC0 + d) for d in range(32)]), (0, _CONTINUATION)]),
    (
        CharSet.range(0x800, 0xFFFF),
        [(12, [1 << (0xE0 + d) for d in range(16)]), (6, _CONTINUATION), (0, _CONTINUATION)],
    ),
    (
        CharSet.range(0x10000, 0x10FFFF),
        [(18, [1 << (0xF0 + d) for d in range(8)]), (12, _CONTINUATION), (6, _CONTINUATION), (0, _CONTINUATION)],
    ),
)


def _ascii_bytes(characters: CharSet) -> ByteSet:
    """The bytes of the ASCII members."""
    single = 0
    for lo, hi in characters.ranges:
        if lo >= 0x80:
            break
        single |= byte_range(lo, min(hi, 0x7F))
    return single


def _rule(network: Network, build) -> int:
    """A rule whose states `build(start, end)` adds now; `end` has no edges, so calls in last position cost no stack."""
    rule = network.rule()
    start, end = network.state(), network.state(final=True)
    build(start, end)
    network.define(rule, start)
    return rule


def add_utf8(network: Network, source: int, characters: CharSet, target: int) -> None:
    """From source to target over the UTF-8 bytes of one character of the set."""
    shared: dict[tuple[int, Ranges], int] = {}  # continuation bytes are alike behind any lead byte
    for members, digits in _UTF8:
        part = characters & members
        if part:
            _DigitTree(network, digits, target, shared).grow(source, part.ranges)


def _add_ascii_escapes(network: Network, backslash: int, characters: ByteSet, target: int) -> None:
    """From the state after a backslash to target over the `u00XX` of an ASCII character."""
    by_second: dict[ByteSet, ByteSet] = {}  # the spellings of the last digit -> those of the digit before it
    for digit in range(8):
        second = sum(_HEX[last] for last in range(16) if characters >> (16 * digit + last) & 1)
        if second:
            by_second[second] = by_second.get(second, 0) | _HEX[digit]
    if by_second:
        prefix = network.state()
        network.literal(backslash, b"u00", prefix)
        for second, first in by_second.items():
            following = network.state()
            network.edge(prefix, first, following)
            network.edge(following, second, target)


def _add_hex_escapes(network: Network, backslash: int, characters: CharSet, target: int) -> None:
    """From the state after a backslash to target over `uXXXX` or a surrogate pair `uXXXX\\uXXXX`."""
    if not characters:
        return
    prefix = network.state()
    network.edge(backslash, 1 << ord("u"), prefix)
    basic = characters & CharSet.range(0, 0xFFFF)
    if basic:
        _DigitTree(network, [(12, _HEX), (8, _HEX), (4, _HEX), (0, _HEX)], target).grow(prefix, basic.ranges)
    pairs = tuple((lo - 0x10000, hi - 0x10000) for lo, hi in (characters - CharSet.range(0, 0xFFFF)).ranges)
    if pairs:
        # 20 bits: the high surrogate D[8-B]xx writes the upper ten, the low one D[C-F]xx the lower ten.
        high = [(18, _HEX[8:12]), (14, _HEX), (10, _HEX)]
        low = [(8, _HEX[12:16]), (4, _HEX), (0, _HEX)]
        _SurrogatePairs(network, [*high, *low], target).grow_pairs(prefix, pairs)


class _DigitTree:
    """Adds the digit strings of a set of numbers to a network; equal remainders of equal length share their state."""

    def __init__(
        self, network: Network, digits: Digits, target: int, states: dict[tuple[int, Ranges], int] | None = None
    ) -> None:
        self.network = network
        self.digits = digits
        self.target = target
        self._states = {} if states is None else states  # (digits still to come, their ranges) -> state

    def grow(self, source: int, ranges: Ranges, position: int = 0) -> None:
        """From source to target over the digits from `position` on of each number in the ranges."""
        shift, symbols = self.digits[position]
        by_rest: dict[Ranges, ByteSet] = {}
        for digit, rest in _split(ranges, shift):
            by_rest[rest] = by_rest.get(rest, 0) | symbols[digit]
        for rest, label in by_rest.items():
            self.network.edge(source, label, self.after(position, rest))

    def after(self, position: int, rest: Ranges) -> int:
        """The state that reads the remaining digits after `position`."""
        if position == len(self.digits) - 1:
            return self.target
        remaining = (len(self.digits) - 1 - position, rest)
        state = self._states.get(remaining)
        if state is None:
            state = self._states[remaining] = self.network.state()
            self.between(state, rest, position + 1)
        return state

    def between(self, state: int, rest: Ranges, position: int) -> None:
        self.grow(state, rest, position)


class _SurrogatePairs(_DigitTree):
    """Six digits with the fixed parts of a surrogate pair around them: `d` first, and `\\ud` after the third."""

    def grow_pairs(self, source: int, ranges: Ranges) -> None:
        following = self.network.state()
        self.network.edge(source, _HEX[13], following)
        self.grow(following, ranges)

    def between(self, state: int, rest: Ranges, position: int) -> None:
        if position == 3:
            following = self.network.state()
            escape = self.network.state()
            self.network.literal(state, b"\\u", escape)
            self.network.edge(escape, _HEX[13], following)
            state = following
        self.grow(state, rest, position)


def _split(ranges: Ranges, shift: int) -> list[tuple[int, Ranges]]:
    """(digit, ranges of the remainders) of each leading digit, ascending; a digit is the number >> shift."""
    full = ((0, (1 << shift) - 1),)
    found: dict[int, list[tuple[int, int]]] = {}
    mask = (1 << shift) - 1
    for lo, hi in ranges:
        first, last = lo >> shift, hi >> shift
        for digit in range(first, last + 1):
            low = lo & mask if digit == first else 0
            high = hi & mask if digit == last else mask
            found.setdefault(digit, []).append((low, high))
    return [(digit, full if rest == [(0, mask)] else tuple(rest)) for digit, rest in found.items()]


# --- whole automata -------------------------------------------------------------------------------------------------


def embed_nfa(network: Network, nfa: CharNfa, encoder: Encoder, target: int | None = None) -> int:
    """Adds an automaton over characters to the network; returns its start state.

    Args:
        target: where accepting states lead; None: they are final states of the rule. States that reach no accepting
            state are left out.

    Raises nothing: an empty language gives a start state without edges, which the caller must not use.
    """
    part = _Part(network, encoder)
    alive = nfa.live()
    number, count = [], 0
    for lives in alive:
        number.append(count)
        count += lives
    states = [state for state, lives in enumerate(alive) if lives]
    accepting = set(nfa.accepting)
    # What leads, unread, only to the end may as well be an end itself: configurations have one state less.
    ends = {s for s in accepting if not nfa.arcs[s] and not nfa.empty[s]} if target is None else set()
    for source, state in enumerate(states):
        for characters, following in nfa.arcs[state]:
            if alive[following]:
                part.char(source, characters, number[following])
        for following in nfa.empty[state]:
            if following in ends:
                accepting.add(state)
            elif alive[following]:
                part.edge(source, EPSILON, 0, number[following])
    base = part.add([state in accepting for state in states], target)
    return base + number[nfa.start] if alive[nfa.start] else network.state()


def embed_dfa(network: Network, dfa: CharDfa, encoder: Encoder, target: int | None = None) -> int:
    """`embed_nfa` for a deterministic automaton (trimmed, as every `CharDfa` operation leaves it)."""
    part = _Part(network, encoder)
    for source, characters, following in dfa.edges():
        part.char(source, characters, following)
    return part.add(dfa.accepting.tolist(), target)


class _Part:
    """States and edges on their way into a network, in one piece: states count from the first of them."""

    def __init__(self, network: Network, encoder: Encoder) -> None:
        self.network = network
        self.encoder = encoder
        self.edges: list[int] = []  # source, kind, label, target of one edge after the other
        self._labels: dict[CharSet, tuple[int, int]] = {}  # set -> (id of its single bytes or -1, rule or -1)

    def edge(self, source: int, kind: int, label: int, target: int) -> None:
        self.edges += (source, kind, label, target)

    def char(self, source: int, characters: CharSet, target: int) -> None:
        labels = self._labels.get(characters)
        if labels is None:
            single, rule = self.encoder.plan(characters)
            labels = self._labels[characters] = (self.network.byte_set_id(single) if single else -1, rule)
        if labels[0] >= 0:
            self.edges += (source, BYTES, labels[0], target)
        if labels[1] >= 0:
            self.edges += (source, CALL, labels[1], target)

    def add(self, accepting: list[bool], target: int | None) -> int:
        """Moves all of it into the network; accepting states are final, or lead on to `target`. Returns the first state."""
        base = len(self.network.final)
        source, kind, label, following = np.array(self.edges, dtype=np.int32).reshape(-1, 4).T
        final = np.array(accepting, dtype=bool)
        if target is None:
            return self.network.extend(final, source, kind, label, following + base)
        ends = np.flatnonzero(final).astype(np.int32)
        return self.network.extend(
            np.zeros(len(final), dtype=bool),
            np.concatenate([source, ends]),
            np.concatenate([kind, np.full_like(ends, EPSILON)]),
            np.concatenate([label, np.zeros_like(ends)]),
            np.concatenate([following + base, np.full_like(ends, target)]),
        )
