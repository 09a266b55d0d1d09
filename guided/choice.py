"""A list of strings -> a deterministic network over bytes; knows no vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from guided.automaton.network import Network
from guided.automaton.words import add_words
from guided.errors import InvalidConstraint, LimitExceeded
from guided.limits import Budget

MAX_CHOICES = 50_000


def build_network(choices: Sequence[str], budget: Budget) -> Network:
    """The network that matches exactly the given strings.

    Raises:
        InvalidConstraint: the list is empty.
        LimitExceeded: more than 50,000 strings, or a trie of them that needs more memory than the limits allow.
    """
    if not choices:
        raise InvalidConstraint("the list of choices is empty")
    if len(choices) > MAX_CHOICES:
        raise LimitExceeded(f"{len(choices):,} choices, at most {MAX_CHOICES:,} are allowed", limit="choices")
    network = Network()
    network.root = network.rule()
    network.define(network.root, add_words(network, [choice.encode() for choice in choices], budget))
    return network
