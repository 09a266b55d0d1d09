"""In: a closed index and a state; out: the tokens after which the answer can still be finished in n more. Knows no request.

The model's own choice is left alone until the budget binds: `horizon` says from how many tokens on it never does.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING

import numba
import numpy as np

from guided.index.shortest import UNREACHABLE
from guided.index.spelling import Speller

if TYPE_CHECKING:
    from guided.index.token_index import TokenIndex

Plan = tuple[int, ...]  # tokens that complete an answer

_MEMO_STATES = 64  # states whose tokens are remembered: 2 bytes a token each
_NEVER = np.iinfo(
    np.uint16
).max  # tokens to the end of an answer, where the token is not allowed or the end is this far


class DoesNotFit(Exception):
    """The request's budget fits no answer."""


def packed(allowed: np.ndarray) -> np.ndarray:
    """uint32[ceil(n / 32)] from bool[n]: bit t % 32 of word t // 32."""
    words = np.zeros(-(-allowed.size // 32) * 4, np.uint8)
    bits = np.packbits(allowed, bitorder="little")
    words[: bits.size] = bits
    return words.view(np.uint32)


class Completions:
    """The shortest completions of one closed index, asked for token by token."""

    def __init__(self, index: TokenIndex, speller: Speller) -> None:
        assert index.is_closed
        self._index = index
        self._speller = speller
        delta, self._class_of, self._accepting = (index.to_arrays()[k] for k in ("delta", "class_of", "accepting"))
        self._delta = np.ascontiguousarray(delta)
        self._after: OrderedDict[int, np.ndarray] = OrderedDict()  # state -> uint16[vocabulary]

    def narrow(self, state: int, words: np.ndarray, left: int, plan: Plan | None) -> tuple[np.ndarray, Plan | None]:
        """See `Fit.narrow`; exact, so no plan is needed."""
        needed = int(self.min_tokens[state])
        if needed > left:
            raise DoesNotFit(f"{left} tokens are left, the shortest answer needs {needed} more")
        return words & self.fitting(state, left - 1), None

    def known_plan(self, state: int) -> None:
        """See `Fit.known_plan`."""
        return

    def may_bind(self, tokens_left: int) -> bool:
        """Could some allowed token leave too little of `tokens_left`? Exact distances are found only when bytes say so."""
        return tokens_left <= self._byte_horizon + 1 and tokens_left <= self.horizon

    @cached_property
    def _byte_horizon(self) -> int:
        """No state is further from an accepting one, in bytes that are tokens; very large where some state has no such way."""
        spelt = np.zeros(self._delta.shape[1], np.bool_)
        spelt[self._class_of[self._speller.alone]] = True
        return int(_most_bytes(self._delta[:, spelt], self._accepting))

    @cached_property
    def min_tokens(self) -> np.ndarray:
        """int64[states]: fewest tokens from a state to an accepting one; costs a walk over the vocabulary for each state."""
        index = self._index
        return np.array([index.min_tokens(state) for state in range(index.num_states)], np.int64)

    @cached_property
    def horizon(self) -> int:
        """With more tokens left than this every allowed token leaves an answer that fits."""
        return int(self.min_tokens[self.min_tokens < UNREACHABLE].max(initial=0)) + 1

    def fitting(self, state: int, tokens_after: int) -> np.ndarray:
        """uint32[ceil(vocabulary / 32)]: the allowed tokens after which `tokens_after` tokens can complete the answer."""
        after = self._after.get(state)
        if after is None:
            if len(self._after) >= _MEMO_STATES:
                self._after.popitem(last=False)
            after = self._after[state] = self._tokens_after(state)
        self._after.move_to_end(state)
        return packed(after <= min(tokens_after, int(_NEVER) - 1))

    def _tokens_after(self, state: int) -> np.ndarray:
        """uint16[vocabulary]: for each token the fewest tokens that complete the answer after it."""
        vocabulary, trie = self._index.vocabulary, self._index.vocabulary.trie
        after = np.full(vocabulary.size, _NEVER, np.uint16)
        needed = np.minimum(self.min_tokens, _NEVER).astype(np.uint16)
        path = np.empty(trie.max_depth + 1, np.int32)
        _walk(
            *(self._delta, self._class_of, needed, state, path),
            *(trie.byte, trie.depth, trie.subtree_end, trie.token_start, trie.token_ids, after),
        )
        for token in vocabulary.special_token_ids.values():  # the trie has text alone; grammars may name special tokens
            following = self._index.advance(state, token)
            if following is not None:
                after[token] = needed[following]
        return after


@numba.njit(cache=True, nogil=True)
def _walk(delta, class_of, needed, state, path, byte, depth, subtree_end, token_start, token_ids, after):
    """Depth first over the byte trie, see guided.vocabulary.trie; dead subtrees are jumped over."""
    path[0] = state
    node = 0
    while node < byte.shape[0]:
        target = delta[path[depth[node]], class_of[byte[node]]]
        if target < 0:
            node = subtree_end[node]
            continue
        path[depth[node] + 1] = target
        for k in range(token_start[node], token_start[node + 1]):
            after[token_ids[k]] = needed[target]
        node += 1


@numba.njit(cache=True, nogil=True)
def _most_bytes(delta, accepting):
    """The largest number of bytes that the shortest completion of any state has, by relaxation in rounds."""
    states, classes = delta.shape
    far = np.int64(1 << 40)
    distance = np.full(states, far, np.int64)
    for state in range(states):
        if accepting[state]:
            distance[state] = 0
    changed = True
    while changed:
        changed = False
        for state in range(states - 1, -1, -1):
            best = distance[state]
            for c in range(classes):
                target = delta[state, c]
                if target >= 0 and distance[target] + 1 < best:
                    best = distance[target] + 1
            if best < distance[state]:
                distance[state] = best
                changed = True
    return distance.max()
