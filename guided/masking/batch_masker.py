"""In: the tokens that each request of the batch wrote; out: the batch's logits, masked. Knows slots and indexes, no engine.

A slot is the row of a request in the batch. Rows of slots without a constraint are never touched, not even read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from guided.masking.kernels import mask_row, mask_row_tensor

logger = logging.getLogger(__name__)


class Index(Protocol):
    """What the masker needs of a `TokenIndex`."""

    @property
    def start(self) -> Any: ...

    def advance(self, state: Any, token: int) -> Any | None: ...

    def mask(self, state: Any) -> np.ndarray: ...  # uint32[ceil(vocabulary / 32)]

    def is_accepting(self, state: Any) -> bool: ...


@dataclass(slots=True)
class Slot:
    """One constrained request of the batch.

    Attributes:
        index: the compiled constraint, or None where it could not be had (`failure` says why).
        state: automaton state after `consumed` tokens.
        output: the request's output tokens, a live list that its owner appends to.
        stop_tokens: every token at which the engine ends this request.
        stopped: a stop token was written; nothing matters any more.
        failure: why this request cannot go on; it is ended at once, and who reads its output finds it incomplete.
        name: what logs call the request.
    """

    index: Index | None
    state: Any
    output: Sequence[int]
    stop_tokens: frozenset[int]
    name: str
    consumed: int = 0
    stopped: bool = False
    failure: str | None = None
    stop_array: np.ndarray = field(init=False)  # int64[stops]: `stop_tokens` for the kernels

    def __post_init__(self) -> None:
        assert self.stop_tokens, "a constrained request without any stop token could not end"
        self.stop_array = np.array(sorted(self.stop_tokens), dtype=np.int64)

    def read_new_tokens(self) -> None:
        """Advances the state over the tokens that were written since the last call."""
        while self.consumed < len(self.output) and not self.stopped and self.failure is None:
            token = self.output[self.consumed]
            self.consumed += 1
            if token in self.stop_tokens:
                self.stopped = True
                return
            assert self.index is not None
            state = self.index.advance(self.state, token)
            if state is None:
                self.fail(f"token {token} at position {self.consumed - 1} is not allowed by the constraint")
                return
            self.state = state

    def fail(self, reason: str) -> None:
        self.failure = reason
        logger.error("constrained request %s fails: %s", self.name, reason)


class BatchMasker:
    """Masks a batch: `advance` all slots by their new tokens, then `mask` all their rows."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}  # row of the batch -> its constrained request

    @staticmethod
    def warm_up(device: torch.device) -> None:
        """Compiles or loads the kernels for logits on `device`."""
        _mask_row(torch.zeros(32, device=device), np.zeros(1, np.uint32), np.zeros(1, np.int64), True)

    def __len__(self) -> int:
        return len(self._slots)

    def add(
        self, slot: int, index: Index, *, output: Sequence[int], stop_tokens: Collection[int], name: str = "?"
    ) -> None:
        """Puts a constrained request into `slot`; its `output` may already hold tokens, which are replayed."""
        self._slots[slot] = Slot(index, index.start, output, frozenset(stop_tokens), name)

    def add_failed(self, slot: int, reason: str, *, stop_tokens: Collection[int], name: str = "?") -> None:
        """Puts a request into `slot` whose constraint cannot be enforced: it is ended at its next token."""
        failed = Slot(None, None, (), frozenset(stop_tokens), name)
        failed.fail(reason)
        self._slots[slot] = failed

    def remove(self, slot: int) -> None:
        """Frees `slot`; nothing happens where it is free already."""
        self._slots.pop(slot, None)

    def move(self, source: int, target: int) -> None:
        """The request in `source`, constrained or not, moves to `target`, whose request is gone."""
        self.remove(target)
        if source in self._slots:
            self._slots[target] = self._slots.pop(source)

    def swap(self, a: int, b: int) -> None:
        first, second = self._slots.pop(a, None), self._slots.pop(b, None)
        if first is not None:
            self._slots[b] = first
        if second is not None:
            self._slots[a] = second

    def advance(self) -> None:
        """Reads the new tokens of every slot. An exception in one request's index fails that request alone."""
        for slot in self._slots.values():
            try:
                slot.read_new_tokens()
            except Exception as error:  # noqa: BLE001 - whatever one constraint does, the batch goes on
                slot.fail(f"{type(error).__name__}: {error}")

    def mask(self, logits: torch.Tensor) -> None:
        """Writes -inf at every forbidden token of every constrained row.

        Args:
            logits: float32[rows, columns], changed in place; the columns may be more than the vocabulary has tokens.
        """
        for row, slot in self._slots.items():
            assert row < logits.shape[0], f"slot {row} of a batch of {logits.shape[0]}"
            try:
                self._mask_slot(slot, logits[row])
            except Exception as error:  # noqa: BLE001 - as in advance
                slot.fail(f"{type(error).__name__}: {error}")
                _only_stop(slot, logits[row])

    def _mask_slot(self, slot: Slot, logits: torch.Tensor) -> None:
        if slot.stopped or slot.failure is not None:
            _only_stop(slot, logits)
            return
        assert slot.index is not None
        may_stop = slot.index.is_accepting(slot.state)
        if _mask_row(logits, slot.index.mask(slot.state), slot.stop_array, may_stop) > 0:
            return
        # The engine's own filters (allowed_token_ids, bad_words, min_tokens) left nothing of what the constraint allows.
        if not may_stop:
            slot.fail("the request's other filters leave no token that the constraint allows")
        _only_stop(slot, logits)


def _mask_row(logits: torch.Tensor, words: np.ndarray, stop_tokens: np.ndarray, may_stop: bool) -> int:
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.stride(0) == 1:
        return mask_row(logits.numpy(), words, stop_tokens, may_stop)
    device_words = torch.from_numpy(words.view(np.int32)).to(logits.device)
    return mask_row_tensor(logits, device_words, torch.from_numpy(stop_tokens).to(logits.device), may_stop)


def _only_stop(slot: Slot, logits: torch.Tensor) -> None:
    """Leaves the stop tokens alone in the row, with equal finite logits: the softmax of a row of -inf would be NaN."""
    logits.fill_(float("-inf"))
    logits[torch.from_numpy(slot.stop_array).to(logits.device)] = 0.0
