"""A network and a marker go in; what comes out reads any text up to the first marker, and then what the network reads.

Texts are UTF-8. Where the vocabulary has a special token of the marker's name, the token is read as well as the marker's letters.
"""

from __future__ import annotations

from guided.automaton.network import Network, byte_range, special_token_bytes

_CONTINUATION = byte_range(0x80, 0xBF)
# The well-formed byte sequences (Unicode standard, table 3-7): state of the character -> (bytes, state after them); "" between two.
_CHARACTER: dict[str, list[tuple[int, str]]] = {
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


def read_first(network: Network, marker: str) -> None:
    """Gives the network a new root: any text that ends with its first `marker`, not empty, and then the old root."""
    data = marker.encode()
    end = network.state(final=True)
    answer = network.state()
    network.call(answer, network.root, end)
    states: dict[tuple[int, str], int] = {(0, ""): network.state()}  # bytes of the marker read, state of the character
    waiting = [(0, "")]
    while waiting:
        here = waiting.pop()
        for target, symbols in _moves(data, *here).items():
            if target[0] == len(data):
                network.edge(states[here], symbols, answer)
                continue
            if target not in states:
                states[target] = network.state()
                waiting.append(target)
            network.edge(states[here], symbols, states[target])
        if here[1] == "":
            network.literal(states[here], special_token_bytes(marker), answer)
    network.root = network.rule()
    network.define(network.root, states[0, ""])


def _moves(marker: bytes, matched: int, character: str) -> dict[tuple[int, str], int]:
    """Where each byte leads: state -> bytes."""
    moves: dict[tuple[int, str], int] = {}
    for symbols, following in _CHARACTER[character]:
        for byte in range(256):
            if symbols >> byte & 1:
                target = _longest(marker, marker[:matched] + bytes([byte])), following
                moves[target] = moves.get(target, 0) | 1 << byte
    return moves


def _longest(marker: bytes, text: bytes) -> int:
    """Bytes of the longest suffix of `text` that begins the marker (Knuth, Morris and Pratt, 1977, without their table)."""
    return next(size for size in range(min(len(marker), len(text)), -1, -1) if text.endswith(marker[:size]))
