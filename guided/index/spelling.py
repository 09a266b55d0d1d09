"""A byte string goes in, the fewest tokens that spell it come out; knows no constraint.

Special tokens are in the string as the byte strings that stand for them (`special_token_bytes`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton.network import special_token_bytes
from guided.vocabulary import Vocabulary

_NO_WAY = 1 << 30


class Speller:
    """Spells texts with the tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        self._trie = trie.byte, trie.subtree_end, trie.token_start, trie.token_ids
        self._first = _first_nodes(trie.byte, trie.subtree_end)
        self._special = {special_token_bytes(name): token for name, token in vocabulary.special_token_ids.items()}
        data, offsets = vocabulary.token_bytes.data, vocabulary.token_bytes.offsets
        self.longest_token = int(np.diff(offsets).max(initial=1))
        self.alone = np.zeros(256, np.bool_)  # bool[256]: bytes that are tokens
        self.alone[data[offsets[:-1][np.diff(offsets) == 1]]] = True
        self.alone[_NOT_IN_TEXT] = True  # as parts of special tokens they cost less than a token

    def spell(self, text: bytes) -> tuple[int, ...] | None:
        """The tokens, as few as can be; None where the vocabulary cannot write the text."""
        tokens: list[int] = []
        for number, piece in enumerate(text.split(b"\xff")):  # special tokens begin and end with it
            if number % 2:
                special = self._special.get(b"\xff" + piece + b"\xff")
                if special is None:
                    return None
                tokens.append(special)
                continue
            spelt = np.empty(len(piece), np.int32)
            count = _spell(*self._trie, self._first, np.frombuffer(bytearray(piece), np.uint8), spelt)
            if count < 0:
                return None
            tokens.extend(spelt[:count].tolist())
        return tuple(tokens)


_NOT_IN_TEXT = [0xC0, 0xC1, *range(0xF5, 0x100)]


@njit(cache=True)
def _first_nodes(byte, subtree_end):
    """int32[256]: the node of each first byte of a token, -1 = none has it."""
    first = np.full(256, -1, np.int32)
    node = 0
    while node < byte.size:
        first[byte[node]] = node
        node = subtree_end[node]
    return first


@njit(cache=True)
def _spell(byte, subtree_end, token_start, token_ids, first, text, tokens):
    """Writes the shortest spelling, found from the end backwards; how many tokens it has, -1 = there is none."""
    size = text.size
    needed = np.full(size + 1, _NO_WAY, np.int64)
    needed[size] = 0
    token_at = np.full(size, -1, np.int32)
    after = np.zeros(size, np.int64)
    for begin in range(size - 1, -1, -1):
        node = first[text[begin]]
        end = begin + 1
        while node >= 0:
            if token_start[node + 1] > token_start[node] and needed[end] + 1 < needed[begin]:
                needed[begin] = needed[end] + 1
                token_at[begin] = token_ids[token_start[node]]
                after[begin] = end
            if end == size:
                break
            child, last = node + 1, subtree_end[node]
            while child < last and byte[child] != text[end]:
                child = subtree_end[child]
            node = child if child < last else -1
            end += 1
    if needed[0] >= _NO_WAY:
        return -1
    count = 0
    begin = 0
    while begin < size:
        tokens[count] = token_at[begin]
        begin = after[begin]
        count += 1
    return count
