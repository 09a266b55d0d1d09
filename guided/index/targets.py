"""A state of an automaton that may still grow goes in, the state after each token comes out. Knows no batch."""

from __future__ import annotations

import numpy as np
from numba import njit

from guided.automaton.kernels import step
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD, DONE, UNKNOWN
from guided.index.token_index import StateId, TokenIndex
from guided.vocabulary import Vocabulary


def token_targets(index: TokenIndex, state: StateId) -> np.ndarray:
    """int32[vocabulary]: the state after each token, DEAD (-1) where it is not allowed.

    Raises:
        LimitExceeded: the automaton outgrew its limits.
    """
    vocabulary = index.vocabulary
    index.automaton.budget.restart()
    targets = text_targets(index.automaton, vocabulary, state)
    for token in vocabulary.special_token_ids.values():  # the trie has text alone; grammars may name special tokens
        following = index.advance(state, token)
        if following is not None:
            targets[token] = following
    return targets


def text_targets(dfa: LazyDfa, vocabulary: Vocabulary, state: StateId) -> np.ndarray:
    """The same for any automaton, special tokens left out."""
    trie = vocabulary.trie
    targets = np.full(vocabulary.size, DEAD, np.int32)
    path = np.empty(trie.max_depth + 1, np.int32)
    walk = trie.byte, trie.depth, trie.subtree_end, trie.token_start, trie.token_ids, path
    dfa.run(lambda: _walk(dfa.network, dfa.machine, *walk, state, targets))
    return targets


@njit(cache=True)
def _walk(network, machine, byte, depth, subtree_end, token_start, token_ids, path, state, targets):
    """Depth first over the byte trie, see guided.vocabulary.trie; dead subtrees are jumped over. Returns a status."""
    path[0] = state
    node = 0
    while node < byte.size:
        source = path[depth[node]]
        byte_class = machine.class_of[byte[node]]
        if machine.delta[source, byte_class] == UNKNOWN:
            status = step(network, machine, source, byte_class)
            if status != DONE:
                return status
        target = machine.delta[source, byte_class]
        if target == DEAD:
            node = subtree_end[node]
            continue
        path[depth[node] + 1] = target
        for k in range(token_start[node], token_start[node + 1]):
            targets[token_ids[k]] = target
        node += 1
    return DONE
