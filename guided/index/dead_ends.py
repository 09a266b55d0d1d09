"""Moves that the vocabulary cannot complete are taken out of a closed index; knows automaton, slices and rows only.

Where every byte is a token by itself, whatever the automaton has begun can be written to its end. A vocabulary of whole
characters or words may lack the one token that would go on: after "a" of `(a|b)c` nothing follows if no token has "c" to itself.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from guided.automaton.machine import CONFIGS, DEAD, DONE, FULL
from guided.index.rows import DENSE_COUNT, DENSE_ROWS, WANTED, intern_row
from guided.index.slices import BYTE, DEPTH, NUM_SLICES, SUBTREE_END, TOKEN_START
from guided.vocabulary import Vocabulary


@lru_cache(maxsize=4)
def spells_every_byte(vocabulary: Vocabulary) -> bool:
    """Is each byte that occurs in the vocabulary's tokens a token by itself?"""
    return bool(np.isin(vocabulary.token_bytes.data, _alone(vocabulary)).all())


@lru_cache(maxsize=4)
def writes_ascii(vocabulary: Vocabulary) -> bool:
    """Is each printable character of ASCII a token by itself?"""
    return bool(np.isin(np.arange(0x20, 0x7F), _alone(vocabulary)).all())


def _alone(vocabulary: Vocabulary) -> np.ndarray:
    tokens = vocabulary.token_bytes
    return tokens.data[tokens.offsets[:-1][np.diff(tokens.offsets) == 1]]


@njit(cache=True)
def drop_moves(machine, slices, rows, dead):
    """Interns rows without the tokens that lead to a dead state (uint8[states]); a status. Slices are walked whole."""
    for state in range(machine.counts[CONFIGS]):
        if rows.counts[DENSE_COUNT] >= rows.dense.shape[0]:
            rows.counts[WANTED] = DENSE_ROWS
            return FULL
        row = rows.dense[rows.counts[DENSE_COUNT]]
        row[:] = 0
        for slice_ in range(NUM_SLICES):
            _walk_live(machine, slices, rows.path, slice_, state, dead, row)
        found = intern_row(rows, row)
        if found < 0:
            return FULL
        rows.row_of[state] = found
    return DONE


@njit(cache=True)
def _walk_live(machine, slices, path, slice_, state, dead, row):
    """Sets the bits of the slice's tokens that lead from a state to one that is not dead."""
    nodes = slices.nodes
    path[0] = state
    node = slices.begin[slice_]
    while node < slices.begin[slice_ + 1]:
        target = machine.delta[path[nodes[node, DEPTH]], machine.class_of[nodes[node, BYTE]]]
        if target == DEAD:
            node = nodes[node, SUBTREE_END]
            continue
        path[nodes[node, DEPTH] + 1] = target
        if not dead[target]:
            for i in range(nodes[node, TOKEN_START], nodes[node + 1, TOKEN_START]):
                token = slices.token_ids[i]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        node += 1
