"""In: resident tables, and states and tokens of many slots as tensors; out: their next states, and masked logits.

The same two steps as in `guided.masking.kernels`, in tensor operations that run on any device: the form for accelerators, and
what the compiled loops for the CPU are compared with. Nothing is read back from the device. Knows no request.
"""

from __future__ import annotations

import torch

from guided.masking.tables import CLASSES, DELTA, DENSE, LISTS, LONGEST_LIST, STATES, Tables

PLAIN = -1  # index number of a slot that is not masked here
STOPPED = -1  # state: a stop token was written
FAILED = -2  # state: this request cannot go on

NEGATIVE_INFINITY = float("-inf")


def walk(
    tables: Tables,
    index: torch.Tensor,
    state: torch.Tensor,
    token: torch.Tensor,
    stops: torch.Tensor,
    longest_token: int,
) -> torch.Tensor:
    """The state of each slot after one more token.

    Args:
        index: int64[n]: number of the slot's index, PLAIN where it has none.
        state: int64[n]: STOPPED and FAILED stay what they are.
        token: int64[n]
        stops: int64[n, k]: the slot's stop tokens, padded with -1.
        longest_token: bytes of the longest token that may be among them.

    Returns:
        int64[n]: STOPPED after a stop token, FAILED after one that is not allowed.
    """
    live = (index >= 0) & (state >= 0)
    known = (token >= 0) & (token < tables.token_begin.shape[0] - 1)
    safe = torch.where(known, token, 0)
    begin = tables.token_begin[safe]
    length = tables.token_begin[safe + 1] - begin
    number = index.clamp(min=0)
    extents = tables.extents[number]
    here = torch.where(live, state, 0)
    alive = live & known & (length > 0)
    for position in range(longest_token):
        reads = alive & (position < length)
        byte = tables.token_data[torch.where(reads, begin + position, 0)].long()
        entry = extents[:, DELTA] + here * extents[:, CLASSES] + tables.class_of[number, byte].long()
        following = tables.delta[torch.where(reads, entry, 0)].long()
        alive = alive & ~(reads & (following < 0))
        here = torch.where(reads & alive, following, here)
    here = torch.where(alive, here, FAILED)
    here = torch.where((stops == token.unsqueeze(1)).any(1), STOPPED, here)
    return torch.where(live, here, state)


def mask_rows(
    tables: Tables,
    logits: torch.Tensor,
    rows: torch.Tensor,
    index: torch.Tensor,
    state: torch.Tensor,
    stops: torch.Tensor,
) -> torch.Tensor:
    """Writes -inf at every token that is not allowed. Where nothing is left only the stop tokens are, with equal logits.

    Args:
        logits: float[rows of the batch, columns], changed in place.
        rows: int64[n]: distinct rows of `logits`; one whose slot is PLAIN and has a state keeps every bit.
        index, state, stops: as for `walk`, per row.

    Returns:
        bool[n]: the other filters of the request left nothing that the constraint allows, and it is not complete.
    """
    ended = state < 0
    masked = (index >= 0) | ended
    at = torch.where(index >= 0, tables.extents[index.clamp(min=0), STATES] + state.clamp(min=0), 0)
    may_stop = (tables.accepting[at] != 0) & ~ended
    picked = logits[rows]  # a copy
    allowed = _allowed(tables, index, at, stops, may_stop, logits.shape[1])
    kept = picked.masked_fill(~allowed, NEGATIVE_INFINITY)
    nothing = ended | ~(kept > NEGATIVE_INFINITY).any(1)
    only_stops = torch.full_like(picked, NEGATIVE_INFINITY)
    only_stops = torch.nn.functional.pad(only_stops, (0, 1))
    only_stops.scatter_(1, _columns(stops, logits.shape[1]), 0.0)
    kept = torch.where(nothing.unsqueeze(1), only_stops[:, :-1], kept)
    logits[rows] = torch.where(masked.unsqueeze(1), kept, picked)
    return masked & nothing & ~ended & ~may_stop


def _allowed(
    tables: Tables, index: torch.Tensor, at: torch.Tensor, stops: torch.Tensor, may_stop: torch.Tensor, columns: int
) -> torch.Tensor:
    """bool[n, columns]: the rows of the states `at`, dense ones unpacked, lists scattered, stop tokens by `may_stop`."""
    extents = tables.extents[index.clamp(min=0)]
    place = tables.place[at].long()
    is_dense = place >= 0
    words = tables.dense[torch.where(is_dense, extents[:, DENSE] + place, 0)]
    words = torch.where(is_dense.unsqueeze(1), words, 0)
    shifts = torch.arange(32, device=words.device, dtype=torch.int32)
    allowed = ((words.unsqueeze(2) >> shifts) & 1).bool().flatten(1)[:, :columns]
    allowed = torch.nn.functional.pad(allowed, (0, columns + 1 - allowed.shape[1]))  # one more, for what is not there
    begin = torch.where(is_dense, 0, extents[:, LISTS] - 1 - place)
    count = torch.where(is_dense, 0, tables.lists[begin].long())
    position = torch.arange(LONGEST_LIST, device=words.device)
    is_listed = position < count.unsqueeze(1)
    listed = tables.lists[torch.where(is_listed, begin.unsqueeze(1) + 1 + position, 0)].long()
    allowed.scatter_(1, _columns(torch.where(is_listed, listed, -1), columns), True)
    allowed.scatter_(1, _columns(stops, columns), may_stop.unsqueeze(1).expand(-1, stops.shape[1]))
    return allowed[:, :columns]


def _columns(tokens: torch.Tensor, columns: int) -> torch.Tensor:
    """Tokens as columns; -1 and what is beyond the logits as the extra last one."""
    return torch.where((tokens >= 0) & (tokens < columns), tokens, columns)
