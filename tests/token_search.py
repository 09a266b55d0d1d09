"""The slow truth of how far the end is: masks alone are followed, token by token. Knows nothing of automata."""

from __future__ import annotations

import math

import numpy as np

from guided.index.token_index import TokenIndex


def moves(index: TokenIndex, state: int) -> dict[int, int]:
    """Token that the mask allows -> the state after it."""
    bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
    following = {token: index.advance(state, token) for token in np.flatnonzero(bits).tolist()}
    assert None not in following.values(), "a token of the mask leads on"
    return following


def distances(index: TokenIndex) -> dict[int, float]:
    """State that tokens lead to -> fewest tokens from there to an accepting one; infinite where none do."""
    after, waiting = {}, [index.start]
    while waiting:
        state = waiting.pop()
        if state not in after:
            after[state] = set(moves(index, state).values())
            waiting.extend(after[state])
    far = {state: 0 if index.is_accepting(state) else math.inf for state in after}
    changed = True
    while changed:
        changed = False
        for state, following in after.items():
            needed = min([far[state], *(far[target] + 1 for target in following)])
            changed |= needed < far[state]
            far[state] = needed
    return far
