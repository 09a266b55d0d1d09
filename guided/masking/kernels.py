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
    words: np.ndarray,  # int32[words]: bit t set = token t is allowed
    stop_tokens: np.ndarray,  # int64[stops]: tokens that end the output, whatever `words` says of them
    may_stop: bool,
) -> bool:
    """Forbids every token that is neither in `words` nor a permitted stop token.

    Returns:
        Whether a token is left to choose from: allowed here and not already -inf before.
    """
    stop_logits = _take_stops(logits, stop_tokens, may_stop)
    left = _keep_bits(logits, words)
    return _put_stops(logits, stop_tokens, stop_logits) or left


def mask_row_tensor(logits: torch.Tensor, words: torch.Tensor, stop_tokens: torch.Tensor, may_stop: bool) -> bool:
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
    return bool((logits > float("-inf")).any())


# --- many slots at once: the compiled form of guided.masking.tensor_ops -----------------------------------------------


@numba.njit(cache=True, nogil=True)
def advance(token_data, token_begin, extents, class_of, delta, index, state, stops, slots, token):
    """Every slot of `slots`, int64[n] and distinct, reads one of `token`, int64[n]: as `walk`, in place.

    `index`, `state` int64[slots of the batch] and `stops` int64[slots of the batch, k] are those of all slots.
    """
    for i in range(slots.shape[0]):
        slot = slots[i]
        state[slot] = _after(
            token_data, token_begin, extents, class_of, delta, index[slot], state[slot], stops[slot], token[i]
        )


@numba.njit(cache=True, nogil=True)
def walk(token_data, token_begin, extents, class_of, delta, index, state, stops, slots, token, following):
    """`tensor_ops.walk` as a loop: the states after `token` from `state`, both int64[n], under the indexes of `slots`, to `following`."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        following[i] = _after(
            token_data, token_begin, extents, class_of, delta, index[slot], state[i], stops[slot], token[i]
        )


@numba.njit(cache=True, nogil=True)
def _after(token_data, token_begin, extents, class_of, delta, index, state, stops, token):
    """The state after one token; the tables as in `tensor_ops.walk`."""
    if index < 0 or state < 0:
        return state
    for stop in stops:
        if stop == token:
            return -1  # STOPPED
    if token < 0 or token >= token_begin.shape[0] - 1 or token_begin[token] == token_begin[token + 1]:
        return -2  # FAILED
    here = state
    for position in range(token_begin[token], token_begin[token + 1]):
        here = np.int64(delta[extents[index, 0] + here * extents[index, 1] + class_of[index, token_data[position]]])
        if here < 0:
            return -2
    return here


@numba.njit(cache=True, nogil=True)
def mask_rows(extents, place, accepting, dense, lists, index, stops, slots, state, logits, rows, failed):
    """`tensor_ops.mask_rows` as a loop over `rows` of float32[rows, columns] by `slots` and their `state`, all int64[n].

    `index` and `stops` as for `advance`. It touches no more than it has to: where a word allows all of its 32 tokens the logits are
    not even read.

    Returns:
        Is a row left without a token? `failed`, bool[n], says which.
    """
    columns = logits.shape[1]
    kept = np.empty(128, np.float32)
    any_failed = False
    for i in range(rows.shape[0]):
        failed[i] = False
        slot = slots[i]
        number = index[slot]
        if number < 0 and state[i] >= 0:
            continue
        row = logits[rows[i]]
        left = False
        may_stop = False
        if state[i] >= 0:
            at = extents[number, 2] + state[i]
            may_stop = accepting[at] != 0
            stop_logits = _take_stops(row, stops[slot], may_stop)
            if place[at] >= 0:
                left = _keep_bits(row, dense[extents[number, 3] + place[at]])
            else:
                left = _keep_list(row, lists, extents[number, 4] - 1 - place[at], kept)
            left |= _put_stops(row, stops[slot], stop_logits)
        if not left:
            failed[i] = state[i] >= 0 and not may_stop
            any_failed |= failed[i]
            row[:] = NEGATIVE_INFINITY
            for stop in stops[slot]:
                if 0 <= stop < columns:
                    row[stop] = 0.0
    return any_failed


@numba.njit(cache=True, nogil=True)
def _take_stops(row, stops, may_stop):
    """The logits of the stop tokens, -inf where they are not allowed; the row has -inf there from now on."""
    taken = np.empty(stops.shape[0], np.float32)
    for k in range(stops.shape[0]):
        taken[k] = NEGATIVE_INFINITY
        if may_stop and 0 <= stops[k] < row.shape[0]:
            taken[k] = row[stops[k]]
    for stop in stops:
        if 0 <= stop < row.shape[0]:
            row[stop] = NEGATIVE_INFINITY
    return taken


@numba.njit(cache=True, nogil=True)
def _put_stops(row, stops, taken):
    """Writes back what `_take_stops` took; is a stop token allowed?"""
    left = False
    for k in range(stops.shape[0]):
        if 0 <= stops[k] < row.shape[0]:
            row[stops[k]] = taken[k]
            left |= taken[k] > NEGATIVE_INFINITY
    return left


@numba.njit(cache=True, nogil=True)
def _keep_bits(row, words):
    """Forbids what `words` does not allow; is a token left?"""
    columns = row.shape[0]
    whole = min(words.shape[0], columns >> 5)
    left = False
    for w in range(whole):
        word = words[w]
        begin = w << 5
        if word == -1:  # all 32
            if not left:
                for token in range(begin, begin + 32):
                    left |= row[token] > NEGATIVE_INFINITY
        elif word == 0:
            for token in range(begin, begin + 32):
                row[token] = NEGATIVE_INFINITY
        else:
            for token in range(begin, begin + 32):  # without a branch, so that it runs in vectors
                row[token] = row[token] if (word >> (token - begin)) & 1 else NEGATIVE_INFINITY
                left |= row[token] > NEGATIVE_INFINITY
    for token in range(whole << 5, columns):  # a last, incomplete word, then columns beyond the vocabulary
        w = token >> 5
        if w >= words.shape[0] or (words[w] >> (token & 31)) & 1 == 0:
            row[token] = NEGATIVE_INFINITY
        else:
            left |= row[token] > NEGATIVE_INFINITY
    return left


@numba.njit(cache=True, nogil=True)
def _keep_list(row, lists, begin, kept):
    """Forbids all but the listed tokens; is one left?"""
    columns = row.shape[0]
    count = lists[begin]
    for k in range(count):
        token = lists[begin + 1 + k]
        kept[k] = row[token] if token < columns else NEGATIVE_INFINITY
    row[:] = NEGATIVE_INFINITY
    left = False
    for k in range(count):
        token = lists[begin + 1 + k]
        if token < columns:
            row[token] = kept[k]
            left |= kept[k] > NEGATIVE_INFINITY
    return left
