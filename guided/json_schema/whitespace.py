"""Whitespace between the tokens of a document: from the option to bytes of a network; knows no schema.

A *style* says how the containers around a place are written. The default, what `json.dumps` writes: everything on one line with an
optional space after commas and colons, or indented with one unit (1 to 4 spaces or a tab) per level; a container inside
an indented one may be on one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet
from guided.automaton.encoding import Utf8Encoder, embed_dfa
from guided.automaton.network import Network, byte_set
from guided.errors import InvalidConstraint
from guided.limits import Budget
from guided.regex import pattern_dfa

UNITS = (b"  ", b"    ", b"\t", b" ", b"   ")  # of indentation
MOST_ANY = 20  # whitespace characters in a row with whitespace="any"
_SPACE = byte_set(b" \t\n\r")


@dataclass(frozen=True, slots=True)
class Style:
    """How the containers around a place are written.

    Attributes:
        kind: "line" (on one line), "indented", "outside" (no container yet), "free" (whitespace that does not depend on
            the place).
        unit: what one level is indented by; depth: levels at this place.
    """

    kind: str
    unit: bytes = b""
    depth: int = 0


LINE, OUTSIDE, FREE = Style("line"), Style("outside"), Style("free")


class Whitespace:
    """Adds whitespace to one network."""

    def __init__(self, network: Network, options: dict, budget: Budget) -> None:
        self.network = network
        self.budget = budget
        self.pattern = options.get("whitespace_pattern")
        self.option = options.get("whitespace", "json_dumps")
        self._newlines: dict[Style, int] = {}
        self._free = network.rule(self._build_free)
        self._pattern_dfa = None if self.pattern is None else _whitespace_only(self.pattern, budget)

    @property
    def root(self) -> Style:
        """The style outside of all containers."""
        if self.pattern is not None or self.option == "any":
            return FREE
        return LINE if self.option == "compact" else OUTSIDE

    def inner_styles(self, style: Style) -> Iterator[Style]:
        """The ways in which a container at a place of this style may be written."""
        if style.kind in ("line", "free"):
            yield style
            return
        yield LINE
        units = UNITS if style.kind == "outside" else (style.unit,)
        yield from (Style("indented", unit, style.depth + 1) for unit in units)

    def plain(self, style: Style) -> Style:
        """One style for all that differ only in how containers are broken into lines."""
        return FREE if style.kind == "free" else LINE

    def opened(self, source: int, inner: Style, target: int) -> None:
        """After an opening bracket that something follows."""
        self._break(source, inner, target)

    def comma(self, source: int, inner: Style, target: int) -> None:
        """A comma and what follows it."""
        after = self._before_sign(source, ord(","), inner)
        if inner.kind == "line" and self.option != "compact":
            self.network.edge(after, 1 << 0x20, target)
        self._break(after, inner, target)

    def colon(self, source: int, inner: Style, target: int) -> None:
        """A colon and what follows it."""
        after = self._before_sign(source, ord(":"), inner)
        if inner.kind == "free":
            self.network.call(after, self._free, target)
            return
        self.network.epsilon(after, target)
        if self.option != "compact":
            self.network.edge(after, 1 << 0x20, target)

    def closing(self, source: int, inner: Style, target: int) -> None:
        """Before the closing bracket of a container that is not empty."""
        if inner.kind == "indented":
            self._break(source, Style("indented", inner.unit, inner.depth - 1), target)
        else:
            self._break(source, inner, target)

    def empty(self, source: int, style: Style, target: int) -> None:
        """Between the brackets of an empty container."""
        self._break(source, FREE if style == FREE else LINE, target)

    def _before_sign(self, source: int, sign: int, inner: Style) -> int:
        if inner.kind == "free":
            before = self.network.state()
            self.network.call(source, self._free, before)
            source = before
        after = self.network.state()
        self.network.edge(source, 1 << sign, after)
        return after

    def _break(self, source: int, style: Style, target: int) -> None:
        """Between two tokens: nothing on one line, a new line with its indentation, or what the option allows."""
        if style.kind == "free":
            self.network.call(source, self._free, target)
        elif style.kind == "indented":
            self.network.literal(source, b"\n" + style.unit * style.depth, target)
        else:
            self.network.epsilon(source, target)

    def _build_free(self) -> int:
        network = self.network
        if self._pattern_dfa is not None:
            return embed_dfa(network, self._pattern_dfa, Utf8Encoder(network))
        first = state = network.state(final=True)
        for _ in range(MOST_ANY):
            following = network.state(final=True)
            network.edge(state, _SPACE, following)
            state = following
        return first


def _whitespace_only(pattern: str, budget: Budget) -> CharDfa:
    """The language of a whitespace pattern; of `\\s` only what JSON knows as whitespace.

    Raises:
        InvalidConstraint: it matches nothing, or something that is no whitespace and would break the document.
    """
    dfa = pattern_dfa(pattern, budget=budget)
    beyond = ~CharSet.of(" \t\n\r\f\v")
    used = np.any(dfa.delta >= 0, axis=0).tolist()
    if any(used[number] and characters & beyond for number, characters in enumerate(dfa.classes)):
        raise InvalidConstraint("the whitespace pattern matches more than whitespace", source=pattern, column=0)
    dfa = dfa & pattern_dfa(r"[ \t\n\r]*", budget=budget)
    if dfa.is_empty():
        raise InvalidConstraint(
            "the whitespace pattern matches no JSON whitespace, not even none", source=pattern, column=0
        )
    return dfa
