"""A network and a marker go in; what comes out reads any text up to the first marker, and then what the network reads."""

from __future__ import annotations

from guided.automaton.free_text import free_text
from guided.automaton.network import Network


def read_first(network: Network, marker: str) -> None:
    """Gives the network a new root: any text that ends with its first `marker`, not empty, and then the old root."""
    end = network.state(final=True)
    answer = network.state()
    network.call(answer, network.root, end)
    start = free_text(network, {marker: answer})
    network.root = network.rule()
    network.define(network.root, start)
