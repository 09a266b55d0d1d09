"""In: one row of logits and one packed mask row; out: the row with -inf at every forbidden token. Knows no state and no batch.

Two forms of the same step: a Numba loop for logits on the CPU, tensor operations for any other device.
"""

from __future__ import annotations

import numba
import numpy as np
import torch

NEGATIVE_INFINITY = np.float32(-np.inf)


@numba.njit(cache=True, nogil=True)
def mask_row(
    logits: np.ndarray,  # float32[columns]: changed in place
    words: np.ndarray,  # uint32[words]: bit t set = token t is allowed
    stop_tokens: np.ndarray,  # int64[stops]: tokens that end the output, whatever `words` says of them
    may_stop: bool,
) -> int:
    """Forbids every token that is neither in `words` nor a permitted stop token.

    Returns:
        How many tokens are left to choose from: allowed here and not already -inf before.
    """
    columns = logits.shape[0]
    stop_logits = np.empty(stop_tokens.shape[0], np.float32)
    for i in range(stop_tokens.shape[0]):
        stop_logits[i] = logits[stop_tokens[i]] if may_stop else NEGATIVE_INFINITY
        logits[stop_tokens[i]] = NEGATIVE_INFINITY
    left = 0
    for w in range(min(words.shape[0], (columns + 31) >> 5)):
        word = words[w]
        begin = w << 5
        end = min(begin + 32, columns)
        if word == 0:
            for token in range(begin, end):
                logits[token] = NEGATIVE_INFINITY
            continue
        for token in range(begin, end):
            if (word >> np.uint32(token - begin)) & np.uint32(1) == 0:
                logits[token] = NEGATIVE_INFINITY
            elif logits[token] > NEGATIVE_INFINITY:
                left += 1
    for token in range(
        words.shape[0] << 5, columns
    ):  # columns beyond the vocabulary: padding of the model's last layer
        logits[token] = NEGATIVE_INFINITY
    for i in range(stop_tokens.shape[0]):
        logits[stop_tokens[i]] = stop_logits[i]
        if stop_logits[i] > NEGATIVE_INFINITY:
            left += 1
    return left


def mask_row_tensor(logits: torch.Tensor, words: torch.Tensor, stop_tokens: torch.Tensor, may_stop: bool) -> int:
    """The same step as `mask_row` in tensor operations.

    Args:
        logits: float32[columns] on any device, changed in place.
        words: int32[words] on the same device (torch has no full uint32): bit t set = token t is allowed.
        stop_tokens: int64[stops] on the same device.
    """
    columns = logits.shape[0]
    shifts = torch.arange(32, device=words.device, dtype=torch.int32)
    allowed = ((words.unsqueeze(1) >> shifts) & 1).bool().flatten()[:columns]  # bool[min(32 * words, columns)]
    if allowed.shape[0] < columns:
        allowed = torch.nn.functional.pad(allowed, (0, columns - allowed.shape[0]))
    allowed[stop_tokens] = may_stop
    logits.masked_fill_(~allowed, float("-inf"))
    return int((logits > float("-inf")).sum())
