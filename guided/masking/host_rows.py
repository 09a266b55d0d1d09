"""In: a request that is resolved on the host, and its row of logits; out: the row, masked. Knows no batch."""

from __future__ import annotations

import numpy as np
import torch

from guided.masking.kernels import mask_row, mask_row_tensor
from guided.masking.slot import Slot

NOTHING_LEFT = "the request's other filters leave no token that the constraint allows"


def mask_host_row(slot: Slot, logits: torch.Tensor) -> None:
    """Writes -inf at every forbidden token of float32[columns]. An exception in the index fails this request alone."""
    try:
        _mask(slot, logits)
    except Exception as error:  # noqa: BLE001 - whatever one constraint does, the batch goes on
        slot.fail(error)
        _only_stop(slot, logits)


def _mask(slot: Slot, logits: torch.Tensor) -> None:
    if slot.stopped or slot.failure is not None:
        _only_stop(slot, logits)
        return
    assert slot.index is not None
    may_stop = slot.index.is_accepting(slot.state)
    if mask_by_words(logits, slot.allowed(), slot.stop_array, may_stop):
        return
    # The engine's own filters (allowed_token_ids, bad_words, min_tokens) left nothing of what the constraint allows.
    if not may_stop and slot.failure is None:
        slot.fail(NOTHING_LEFT)
    _only_stop(slot, logits)


def mask_by_words(logits: torch.Tensor, words: np.ndarray, stop_tokens: np.ndarray, may_stop: bool) -> bool:
    """See `kernels.mask_row`; the tensor form for logits on another device."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.stride(0) == 1:
        return mask_row(logits.numpy(), words.view(np.int32), stop_tokens, may_stop)
    device_words = torch.from_numpy(words.view(np.int32)).to(logits.device)
    return mask_row_tensor(logits, device_words, torch.from_numpy(stop_tokens).to(logits.device), may_stop)


def _only_stop(slot: Slot, logits: torch.Tensor) -> None:
    """Leaves the stop tokens alone in the row, with equal finite logits: the softmax of a row of -inf would be NaN."""
    logits.fill_(float("-inf"))
    logits[torch.from_numpy(slot.stop_array).to(logits.device)] = 0.0
