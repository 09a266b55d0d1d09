"""The vocabulary is cut into slices of like tokens, so that a state that reads any text needs no walk over them all.

Inside a JSON string, or under `[^\\n]*`, nearly every token is allowed, and a walk over the trie would find that out
one node at a time. A slice is a set of tokens written in one alphabet (a *profile*), known by their number of
characters. If from a state every character of the profile leads on, j times in a row, then all tokens of the slice with
up to j characters are allowed: one bitwise or. `guided.index.reach` does that check; only the tokens of the last
slice, and of slices that fail it, are walked. The idea of slices is llguidance's ("slicer"); there they are regexes tested
by containment, here a few steps of the automaton decide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton.network import ByteSet, byte_set, special_token_bytes
from guided.automaton.packed import packed
from guided.vocabulary import Vocabulary
from guided.vocabulary.trie import TokenBytes, Trie

PLAIN, PLAIN_UNICODE, QUOTED, LONG, OTHER = range(5)
"""Profiles: printable ASCII but quote and backslash; the same with other scripts; ASCII with quote or backslash; the first two with more
characters, or with the beginning of another one at the end; the rest: control characters, ends of characters, special tokens."""
NUM_SLICED = 3  # decided by the check; LONG is where PLAIN_UNICODE goes on for ever; OTHER is always walked
NUM_SLICES = 5
MAX_CHARS = 24  # longer tokens are LONG or OTHER
BYTE, DEPTH, SUBTREE_END, TOKEN_START = range(4)  # columns of Slices.nodes
_INVALID = 255  # bytes that no valid UTF-8 has: never allowed, in no trie


@packed
class Slices(NamedTuple):
    """The tries of the slices behind one another, and the rows of the first three by length."""

    nodes: (
        np.ndarray
    )  # int32[nodes + 1, 4]: BYTE, DEPTH, SUBTREE_END, TOKEN_START as in `Trie`, indices into all; see `_nodes`
    token_ids: np.ndarray  # int32[tokens]
    begin: np.ndarray  # int32[NUM_SLICES + 1]: slice s is nodes begin[s] .. begin[s + 1] - 1
    first: np.ndarray  # int32[n, 2]: the nodes of depth 0 and their bytes, side by side: most states read few of them
    first_begin: (
        np.ndarray
    )  # int32[NUM_SLICES + 1]: those of slice s are first[first_begin[s] .. first_begin[s + 1] - 1]
    up_to: np.ndarray  # uint32[NUM_SLICED, MAX_CHARS + 1, words]: tokens with at most so many characters
    has_length: np.ndarray  # uint8[NUM_SLICED, MAX_CHARS + 1]: the slice has a token of so many characters
    longest: np.ndarray  # int64[NUM_SLICED]: characters of the slice's longest token
    profile: np.ndarray  # uint8[NUM_SLICED, 128]: ASCII characters of the profile
    unicode: np.ndarray  # uint8[NUM_SLICED]: the profile has all characters beyond ASCII
    long: np.ndarray  # uint32[words]: the tokens of LONG


@lru_cache(maxsize=4)
def slices_of(vocabulary: Vocabulary) -> Slices:
    """The slices of a vocabulary, made once; special tokens go under the byte strings by which grammars name them."""
    tokens, special_token_ids = vocabulary.token_bytes, vocabulary.special_token_ids
    group = np.empty(len(tokens), np.uint8)
    chars = np.empty(len(tokens), np.int64)
    _classify(tokens.data, tokens.offsets, group, chars)
    has_text = np.diff(tokens.offsets) > 0
    tries = [Trie.build(tokens, np.flatnonzero(has_text & (group == profile))) for profile in range(OTHER)]
    tries.append(_rest(tokens, np.flatnonzero(has_text & (group == OTHER)), special_token_ids))
    begin = np.cumsum([0] + [len(trie) for trie in tries])
    up_to = _rows_by_length(group, chars, has_text)
    nodes = _nodes(tries, begin)
    first = np.flatnonzero(nodes[:-1, DEPTH] == 0)
    return Slices(
        nodes=nodes,
        token_ids=np.concatenate([trie.token_ids for trie in tries]),
        begin=begin.astype(np.int32),
        first=np.column_stack([first, nodes[first, BYTE]]).astype(np.int32),
        first_begin=np.searchsorted(first, begin).astype(np.int32),
        up_to=up_to,
        has_length=np.any(np.diff(up_to, axis=1, prepend=np.uint32(0)), axis=2).astype(np.uint8),
        longest=np.array([chars[has_text & (group == p)].max(initial=0) for p in range(NUM_SLICED)], np.int64),
        profile=_profiles(),
        unicode=np.array([0, 1, 0], np.uint8),
        long=pack_bits(has_text & (group == LONG)),
    )


def _rest(tokens: TokenBytes, ids: np.ndarray, special_token_ids: dict[str, int]) -> Trie:
    pieces = [tokens[token_id] for token_id in ids] + [special_token_bytes(name) for name in special_token_ids]
    all_ids = np.concatenate([ids, np.fromiter(special_token_ids.values(), np.int64)]).astype(np.int32)
    trie = Trie.build(TokenBytes.from_pieces(pieces))
    return Trie(trie.byte, trie.depth, trie.subtree_end, trie.token_start, all_ids[trie.token_ids])


@lru_cache(maxsize=4)
def unwritable_bytes(vocabulary: Vocabulary) -> ByteSet:
    """The bytes of valid UTF-8 that no token of the vocabulary has."""
    used = np.bincount(vocabulary.token_bytes.data, minlength=256)
    return byte_set(byte for byte in range(0xF5) if not used[byte])


def _nodes(tries: list[Trie], begin: np.ndarray) -> np.ndarray:
    """The nodes of all tries in one table; one more row ends the last node's tokens, with the greatest depth of all."""
    nodes = np.zeros((begin[-1] + 1, 4), np.int32)
    first_token = 0
    for trie, at in zip(tries, begin, strict=False):
        part = nodes[at : at + len(trie)]
        part[:, BYTE] = trie.byte
        part[:, DEPTH] = trie.depth
        part[:, SUBTREE_END] = trie.subtree_end + np.int32(at)
        part[:, TOKEN_START] = trie.token_start[:-1] + np.int32(first_token)
        first_token += len(trie.token_ids)
    nodes[-1, TOKEN_START] = first_token
    nodes[-1, DEPTH] = nodes[:, DEPTH].max()
    return nodes


def _rows_by_length(group: np.ndarray, chars: np.ndarray, has_text: np.ndarray) -> np.ndarray:
    words = -(-len(group) // 32)
    rows = np.zeros((NUM_SLICED, MAX_CHARS + 1, words), np.uint32)
    for profile in range(NUM_SLICED):
        for length in range(1, MAX_CHARS + 1):
            rows[profile, length] = pack_bits(has_text & (group == profile) & (chars <= length))
    return rows


def pack_bits(allowed: np.ndarray) -> np.ndarray:
    """bool[vocab] -> uint32[ceil(vocab / 32)]; bit t % 32 of word t // 32 is token t."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, bool)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)


def _profiles() -> np.ndarray:
    profile = np.zeros((NUM_SLICED, 128), np.uint8)
    profile[:, 0x20:] = 1
    profile[:QUOTED, [ord('"'), ord("\\")]] = 0
    return profile


@njit(cache=True)
def _classify(data, offsets, group, chars):
    """Slice and number of characters of every token."""
    for token in range(offsets.size - 1):
        group[token], chars[token] = _profile_of(data[offsets[token] : offsets[token + 1]])


@njit(cache=True)
def _profile_of(piece):
    count = 0
    pending = 0  # continuation bytes that the current character still needs
    lead = 0
    special = quoted = beyond = False
    for byte in piece:
        if byte == 0xC0 or byte == 0xC1 or byte >= 0xF5:
            return _INVALID, 0
        if (byte & 0xC0) == 0x80:
            special = special or pending == 0 or _is_ill_formed(lead, byte)
            pending -= 1
            lead = 0
            continue
        special = special or pending != 0 or byte < 0x20
        quoted = quoted or byte == 0x22 or byte == 0x5C
        beyond = beyond or byte >= 0x80
        pending = 0 if byte < 0x80 else 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        lead = byte
        count += 1
    if special or (quoted and (beyond or count > MAX_CHARS)):
        return OTHER, count
    if pending != 0 or count > MAX_CHARS:
        return LONG, count
    return (QUOTED if quoted else PLAIN_UNICODE if beyond else PLAIN), count


@njit(cache=True)
def _is_ill_formed(lead, second):
    """Does no character begin with these bytes? See table 3-7 of the Unicode standard."""
    return (
        (lead == 0xE0 and second < 0xA0)
        or (lead == 0xED and second > 0x9F)
        or (lead == 0xF0 and second < 0x90)
        or (lead == 0xF4 and second > 0x8F)
    )
