"""A network in, the network of the same texts as they stand between the quotes of a JSON string out; knows no schema."""

from __future__ import annotations

from guided.automaton.network import BYTES, EPSILON, RESUME, ByteSet, Network, byte_range, byte_set
from guided.errors import Unsatisfiable

_ESCAPED = byte_range(0x00, 0x1F) | byte_set(b'"\\')
_SHORT = {
    ord("\b"): b"b",
    ord("\f"): b"f",
    ord("\n"): b"n",
    ord("\r"): b"r",
    ord("\t"): b"t",
    ord('"'): b'"',
    ord("\\"): b"\\",
}
_SPECIAL_TOKEN = 1 << 0xFF  # no JSON has one in its strings


def quoted(part: Network) -> Network:
    """Each character as itself where JSON allows it, else as its shortest escape.

    Args:
        part: without late rules.

    Raises:
        Unsatisfiable: all texts have special tokens.
    """
    assert part.is_complete
    network = Network()
    for final in part.final:
        network.state(final=final == 1, exit=final - 2 if final >= 2 else None)
    for start in part.rule_start:
        network.define(network.rule(), start)
    network.root = part.root
    for state in range(len(part.final)):
        for kind, label, target in part.edges_of(state):
            if kind == BYTES:
                _read(network, state, part.byte_sets[label], target)
            elif kind == EPSILON:
                network.epsilon(state, target)
            elif kind == RESUME:
                network.resume(state, label, target)
            else:
                network._edge(state, kind, label, target)
    if not network.trim():
        raise Unsatisfiable("no text can be written as a JSON string")
    return network


def _read(network: Network, source: int, symbols: ByteSet, target: int) -> None:
    plain = symbols & ~_ESCAPED & ~_SPECIAL_TOKEN
    if plain:
        network.edge(source, plain, target)
    for byte in range(0x5D):
        if symbols & _ESCAPED & 1 << byte:
            network.literal(source, b"\\" + _SHORT.get(byte, b"u%04x" % byte), target)
