"""A network and a marker go in; what comes out reads any text up to the first marker, and then what the network reads.

With an opening marker the text is optional: an output that does not begin with it is what the network reads.
"""

from __future__ import annotations

from guided.automaton.free_text import free_text
from guided.automaton.network import Network, special_token_bytes


def read_first(network: Network, marker: str, opening: str | None = None) -> None:
    """Gives the network a new root: any text that ends with its first `marker`, not empty, and then the old root.

    Args:
        opening: the text begins with it, or there is neither text nor marker; None: there is always a marker.
    """
    end = network.state(final=True)
    answer = network.state()
    network.call(answer, network.root, end)
    start = text = free_text(network, {marker: answer})
    if opening is not None:
        start = network.state()
        for spelling in (opening.encode(), special_token_bytes(opening)):
            network.literal(start, spelling, text)
        network.call(start, network.root, end)
    network.root = network.rule()
    network.define(network.root, start)
