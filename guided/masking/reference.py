"""In: a recogniser, the bytes of every token and the tokens written so far; out: the tokens allowed next. The slow truth for tests.

Written to be obviously right, not fast: no trie, no arrays, no state kept between calls. Every token is tried from the very
first byte of the output on, one byte at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol


class Recogniser(Protocol):
    """Reads bytes one by one. A state is whatever the recogniser likes; None is the dead state."""

    def start(self) -> Any: ...

    def step(self, state: Any, byte: int) -> Any | None: ...

    def accepts(self, state: Any) -> bool: ...


def read(recogniser: Recogniser, text: bytes) -> Any | None:
    """The state after `text`, or None where no continuation of `text` satisfies the constraint."""
    state = recogniser.start()
    for byte in text:
        state = recogniser.step(state, byte)
        if state is None:
            return None
    return state


def allowed_tokens(
    recogniser: Recogniser,
    token_bytes: Sequence[bytes | None],
    output: Sequence[int],
    stop_tokens: Collection[int],
) -> set[int]:
    """The tokens that may follow `output`.

    Args:
        token_bytes: the bytes of each token, by id; None for special tokens, which are never text.
        output: the tokens written so far.
        stop_tokens: tokens that end the output; once one was written only they are left.
    """
    if any(token in stop_tokens for token in output):
        return set(stop_tokens)
    written = b"".join(token_bytes[token] or b"" for token in output)
    allowed = set()
    for token, text in enumerate(token_bytes):
        if token not in stop_tokens and text and read(recogniser, written + text) is not None:
            allowed.add(token)
    state = read(recogniser, written)
    if state is not None and recogniser.accepts(state):
        allowed.update(stop_tokens)
    return allowed


def masked(logits: Sequence[float], allowed: Collection[int]) -> list[float]:
    """One row of logits with -inf at every token that is not allowed."""
    return [logit if token in allowed else float("-inf") for token, logit in enumerate(logits)]
