"""Free text: any text up to the first of some marks, without strings that are to be avoided.

Texts are UTF-8. A mark that is, or contains, the name of a special token of the vocabulary is found as that token as well as by its
letters; no other special token is text. A string to avoid may overlap a mark: then only the mark may go on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from guided.automaton.finder import Finder
from guided.automaton.network import ByteSet, Network, byte_range, special_token_bytes
from guided.automaton.spelling import names_in
from guided.errors import Unsatisfiable

_CONTINUATION = byte_range(0x80, 0xBF)
# The well-formed byte sequences (Unicode standard, table 3-7): state of the character -> (bytes, state after them); "" between two.
_CHARACTER: dict[str, list[tuple[ByteSet, str]]] = {
    "": [
        (byte_range(0x00, 0x7F), ""),
        (byte_range(0xC2, 0xDF), "1"),
        (byte_range(0xE0, 0xE0), "E0"),
        (byte_range(0xE1, 0xEC) | byte_range(0xEE, 0xEF), "2"),
        (byte_range(0xED, 0xED), "ED"),
        (byte_range(0xF0, 0xF0), "F0"),
        (byte_range(0xF1, 0xF3), "3"),
        (byte_range(0xF4, 0xF4), "F4"),
    ],
    "1": [(_CONTINUATION, "")],
    "2": [(_CONTINUATION, "1")],
    "3": [(_CONTINUATION, "2")],
    "E0": [(byte_range(0xA0, 0xBF), "1")],
    "ED": [(byte_range(0x80, 0x9F), "1")],
    "F0": [(byte_range(0x90, 0xBF), "2")],
    "F4": [(byte_range(0x80, 0x8F), "2")],
}

Place = tuple[int, str]  # node of the finder, state of the character


def free_text(network: Network, marks: Mapping[str, int], avoided: Sequence[str] = (), end: int | None = None) -> int:
    """Adds free text to a network; returns the state where it begins.

    Args:
        marks: what the text is searched for, none of them empty -> where the network goes on after the first that is found.
        avoided: what the text before the mark does not contain, none of them empty.
        end: where the network goes on if the text ends without a mark; None: it has to have one.

    Raises:
        Unsatisfiable: no text is left.
    """
    writer = _Writer(network, {mark.encode(): target for mark, target in marks.items()}, avoided)
    writer.explore()
    return writer.write(end)


@dataclass
class _Moves:
    """Where a place of the text leads."""

    symbols: dict[Place, ByteSet] = field(default_factory=dict)  # further places of the text
    leaving: dict[int, ByteSet] = field(default_factory=dict)  # states of the network, by a byte
    named: list[tuple[bytes, Place]] = field(default_factory=list)  # further places, by a special token
    named_leaving: list[tuple[bytes, int]] = field(default_factory=list)


class _Writer:
    def __init__(self, network: Network, marks: Mapping[bytes, int], avoided: Sequence[str]) -> None:
        self._network = network
        self._marks = marks
        self._avoided = [string.encode() for string in avoided]
        self._finder = Finder([*marks, *self._avoided])
        self._nodes = {text: node for node, text in enumerate(self._finder.text)}
        self._names = {  # node before a special token, its byte string, node after it
            (self._nodes[mark[:begin]], name, self._nodes[mark[:end]])
            for mark in marks
            for begin, end, name in [*names_in(mark), (0, len(mark), special_token_bytes(mark.decode()))]
        }
        self._rest: dict[frozenset[tuple[bytes, int]], int] = {}
        self._found: dict[int, tuple[int, ...] | None] = {}
        self._moves: dict[Place, _Moves] = {}

    def explore(self) -> None:
        """Finds all places that the text may reach."""
        waiting: list[Place] = [(0, "")]
        self._moves[0, ""] = _Moves()
        while waiting:
            place = waiting.pop()
            moves = self._moves[place]
            self._read_bytes(place, moves)
            if place[1] == "":
                self._read_names(place[0], moves)
            for target in [*moves.symbols, *(target for _, target in moves.named)]:
                if target not in self._moves:
                    self._moves[target] = _Moves()
                    waiting.append(target)

    def _read_bytes(self, place: Place, moves: _Moves) -> None:
        node, character = place
        row = self._finder.table[node].tolist()
        for symbols, following in _CHARACTER[character]:
            for byte in range(256):
                if not symbols >> byte & 1:
                    continue
                found = self._leaving(row[byte])
                if found is None:
                    target = row[byte], following
                    moves.symbols[target] = moves.symbols.get(target, 0) | 1 << byte
                for state in found or ():
                    moves.leaving[state] = moves.leaving.get(state, 0) | 1 << byte

    def _read_names(self, node: int, moves: _Moves) -> None:
        for suffix in self._finder.suffixes(node):
            for before, name, after in sorted(self._names):
                if before == suffix and all(name != known for known, _ in [*moves.named, *moves.named_leaving]):
                    found = self._leaving(after)
                    if found is None:
                        moves.named.append((name, (after, "")))
                    moves.named_leaving += [(name, state) for state in found or ()]

    def _leaving(self, node: int) -> tuple[int, ...] | None:
        """Where the network goes on if the text ends in this node: nowhere where it must not; None: it is still free text."""
        if not self._finder.complete[node]:
            return None
        if node not in self._found:
            texts = [self._finder.text[suffix] for suffix in self._finder.suffixes(node)]
            found = [self._marks[text] for text in texts if text in self._marks]
            # Where a string to avoid has ended, only marks that had begun may go on: the text ends before them.
            begun = {(mark, len(text)) for mark in self._marks for text in texts if text and mark.startswith(text)}
            self._found[node] = tuple(found) or ((self._inside(frozenset(begun)),) if begun else ())
        return self._found[node]

    def _inside(self, begun: frozenset[tuple[bytes, int]]) -> int:
        """A state from which one of some marks is ended, of which so many bytes are read; the first that is complete counts."""
        if begun not in self._rest:
            state = self._rest[begun] = self._network.state()
            following: dict[bytes, set[tuple[bytes, int]]] = {}
            for mark, size in begun:
                following.setdefault(mark[size : size + 1], set()).add((mark, size + 1))
                for begin, end, name in names_in(mark):
                    if begin == size:
                        following.setdefault(name, set()).add((mark, end))
            for symbol, after in sorted(following.items()):
                complete = sorted({self._marks[mark] for mark, size in after if size == len(mark)})
                for target in complete or [self._inside(frozenset(after))]:
                    self._network.literal(state, symbol, target)
        return self._rest[begun]

    def write(self, end: int | None) -> int:
        """Adds the states from which the text can end; returns that of its beginning."""
        network = self._network
        alive = self._alive(end is not None)
        if (0, "") not in alive:
            listed = ", ".join(repr(string.decode()) for string in self._avoided)
            raise Unsatisfiable(f"no text is left without {listed}")
        states = {place: network.state() for place in self._moves if place in alive}
        for place, state in states.items():
            moves = self._moves[place]
            for target, symbols in moves.symbols.items():
                if target in alive:
                    network.edge(state, symbols, states[target])
            for outside, symbols in moves.leaving.items():
                network.edge(state, symbols, outside)
            for name, target in moves.named:
                if target in alive:
                    network.literal(state, name, states[target])
            for name, outside in moves.named_leaving:
                network.literal(state, name, outside)
            if end is not None and place[1] == "":
                network.epsilon(state, end)
        return states[0, ""]

    def _alive(self, may_end: bool) -> set[Place]:
        """The places from which the text can go on to its end."""
        sources: dict[Place, list[Place]] = {}
        for place, moves in self._moves.items():
            for target in [*moves.symbols, *(target for _, target in moves.named)]:
                sources.setdefault(target, []).append(place)
        waiting = [
            place
            for place, moves in self._moves.items()
            if (may_end and place[1] == "") or moves.leaving or moves.named_leaving
        ]
        alive = set(waiting)
        while waiting:
            for source in sources.get(waiting.pop(), ()):
                if source not in alive:
                    alive.add(source)
                    waiting.append(source)
        return alive
