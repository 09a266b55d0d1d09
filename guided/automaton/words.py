"""A list of byte strings -> their trie as states of a network; knows no vocabulary and no syntax.

The strings are sorted; what each shares with the one before it is already in the trie, so the new nodes of a string are its
bytes beyond their longest common prefix. All of that is array arithmetic: no step per character in Python.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from guided.automaton.network import BYTES, Network
from guided.limits import Budget

_BYTES_PER_NODE = 64  # in the network and in its mirror for the kernels


def add_words(network: Network, words: Iterable[bytes], budget: Budget) -> int:
    """Adds a deterministic automaton that matches exactly the given strings (at least one); returns its start state.

    Raises:
        LimitExceeded: the trie needs more memory than the limits allow. Its states are not counted against the limit of
            states: they are data, as the list is, and only those that the output reaches become states of the automaton.
    """
    parent, byte, final = _trie(sorted(set(words)))
    budget.check("a list of strings", memory_bytes=len(final) * _BYTES_PER_NODE)
    label = np.zeros(256, dtype=np.int32)
    for value in np.flatnonzero(np.bincount(byte, minlength=256)).tolist():
        label[value] = network.byte_set_id(1 << value)
    kind = np.full(len(parent), BYTES, dtype=np.int8)
    target = np.arange(1, len(final), dtype=np.int32) + np.int32(len(network.final))
    return network.extend(final, parent, kind, label[byte], target)


def _trie(words: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The trie of sorted, distinct byte strings, nodes in depth-first order.

    Returns:
        (int32[n - 1] parent of node 1.., uint8[n - 1] byte that leads to it, bool[n] a word ends here).
    """
    length = np.fromiter(map(len, words), dtype=np.int32, count=len(words))
    text = np.frombuffer(b"".join(words), dtype=np.uint8)
    begin = np.cumsum(length, dtype=np.int32) - length
    shared = _common_prefixes(text, begin, length)
    fresh = length - shared  # nodes that a word adds
    first = np.cumsum(fresh, dtype=np.int32) - fresh + 1  # id of its first new node; node 0 is the root
    # A new node and the byte that leads to it are equally far apart within one word.
    num_edges = int(fresh.sum())
    byte = text[np.arange(num_edges, dtype=np.int32) + np.repeat(begin + shared - (first - 1), fresh)]
    parent = np.arange(num_edges, dtype=np.int32)  # the node before, except for the first new node of a word
    opens = np.flatnonzero(fresh)
    parent[first[opens] - 1] = _branch_points(shared, first, fresh)[opens]
    final = np.zeros(num_edges + 1, dtype=bool)
    ends = np.where(fresh > 0, first + fresh - 1, 0)  # only the empty string adds no node: it ends at the root
    final[ends] = True
    return parent, byte, final


def _common_prefixes(text: np.ndarray, begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """int32[num_words]: bytes that each word shares with the one before it, compared one column at a time."""
    shared = np.zeros(len(length), dtype=np.int32)
    alive = np.arange(1, len(length))
    depth = 0
    while len(alive):
        alive = alive[(length[alive] > depth) & (length[alive - 1] > depth)]
        alive = alive[text[begin[alive] + depth] == text[begin[alive - 1] + depth]]
        depth += 1
        shared[alive] = depth
    return shared


def _branch_points(shared: np.ndarray, first: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """int32[num_words]: the node at depth `shared` on the path of the word before, where the new nodes hang."""
    node = np.zeros(len(shared), dtype=np.int32)
    owners: list[tuple[int, int]] = []  # stack of (depth of its first new node, that node), of the word before
    rows = zip(shared.tolist(), first.tolist(), fresh.tolist(), strict=True)
    for index, (depth, start, count) in enumerate(rows):
        while owners and owners[-1][0] > depth:
            owners.pop()
        if depth and owners:
            top_depth, top = owners[-1]
            node[index] = top + depth - top_depth
        if count:
            owners.append((depth + 1, start))
    return node
