"""In: the token history of all requests, on the device; out: the batch's logits, masked. Knows slots and indexes, no engine.

The engine keeps what every request wrote in device memory and tells the host nothing of it. So does this masker: a slot reads its
new tokens from the history there, and under speculative decoding each draft row gets the state after the drafts before it. Only
slots that are resolved on the host (see `guided.masking.slot`) have their tokens, and theirs alone, read back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch

from guided.masking.device_slots import FAILED, PLAIN, STOPPED, DeviceSlots
from guided.masking.fit import FitMemo
from guided.masking.host_rows import mask_by_words, mask_host_row
from guided.masking.room import make_room
from guided.masking.slot import Index, Slot
from guided.masking.tables import DEFAULT_BYTES, TablePool
from guided.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class History:
    """What every slot has been told and has written so far. Tensors on the device."""

    token_ids: torch.Tensor  # int32[slots, length]: prompt, then output
    prompt_len: torch.Tensor  # int32[slots]
    total_len: torch.Tensor  # int32[slots]: prompt and output


@dataclass(frozen=True, slots=True)
class Layout:
    """Which row of the logits belongs to whom in this step."""

    slots: np.ndarray  # int64[requests]: slots of the batch, known on the host
    most_output: np.ndarray  # int64[requests]: upper bound of the output tokens before any of the request's rows
    row_slot: torch.Tensor  # int32[rows]: row -> slot
    row_draft: (
        torch.Tensor
    )  # int32[rows]: row -> how many drafts of this step come before it; rows of a request are adjacent
    row_token: torch.Tensor  # int32[rows]: the last token before the row: a draft where row_draft > 0


class HistoryMasker:
    """Masks the rows of the constrained slots."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device | str,
        slots: int,
        *,
        most_drafts: int = 0,
        capacity_bytes: int = DEFAULT_BYTES,
        compiled: bool | None = None,
    ) -> None:
        """`most_drafts`: draft tokens of a request and step, at most. The others as for `BatchMasker`."""
        self._device = torch.device(device)
        self._pool = TablePool(vocabulary, self._device, capacity_bytes)
        self._device_slots = DeviceSlots(self._pool, slots, compiled=compiled)
        self._most_drafts = most_drafts
        self._fits = FitMemo(vocabulary)
        self._slots: dict[int, Slot] = {}  # constrained requests by slot
        self._replayed: dict[int, int] = {}  # slot -> output tokens that it came with and has not read yet

    def warm_up(self) -> None:
        """Compiles or loads the kernels, so that no request waits for it."""
        empty = torch.zeros(1, dtype=torch.int64, device=self._device)
        logits = torch.zeros((1, 32), device=self._device)
        self._device_slots.advance(empty, empty)
        self._device_slots.mask(logits, empty, empty, empty)
        mask_by_words(logits[0], np.zeros(1, np.uint32), np.zeros(1, np.int64), True)

    # --- slots --------------------------------------------------------------------------------------------------------

    def put(
        self,
        slot: int,
        index: Index,
        *,
        stop_tokens: Collection[int],
        replayed: int = 0,
        budget: int | None = None,
        name: str = "?",
    ) -> None:
        """A constrained request takes a slot, whatever was there; `replayed` of its output tokens are in the history already."""
        self.clear(slot)
        entry = Slot(slot, index, index.start, [], frozenset(stop_tokens), name)
        if index.is_closed:
            entry.table = entry.held = self._pool.acquire(index)  # type: ignore[arg-type]  # a TokenIndex
        if budget is not None:
            entry.budget, entry.fit = budget, self._fits.of(index)  # type: ignore[arg-type]
        self._enter(slot, entry, replayed)

    def put_failed(self, slot: int, reason: str | Exception, *, stop_tokens: Collection[int], name: str = "?") -> None:
        """A request takes a slot whose constraint cannot be enforced: it is ended at its next token."""
        self.clear(slot)
        failed = Slot(slot, None, None, [], frozenset(stop_tokens), name)
        failed.fail(reason)
        self._enter(slot, failed, 0)

    def _enter(self, slot: int, entry: Slot, replayed: int) -> None:
        self._slots[slot] = entry
        self._replayed[slot] = replayed
        self._device_slots.put(slot, PLAIN if entry.table is None else entry.table, 0, entry.stop_array)

    def clear(self, slot: int) -> None:
        """The slot is free, or its new occupant is not constrained."""
        old = self._slots.pop(slot, None)
        if old is None:
            return
        self._replayed.pop(slot, None)
        if old.held is not None:
            self._pool.release(old.held)
        self._device_slots.clear(slot)

    def flush(self) -> None:
        """Writes what `put` and `clear` staged."""
        self._device_slots.flush()

    # --- one step -----------------------------------------------------------------------------------------------------

    def apply(self, logits: torch.Tensor, layout: Layout, history: History) -> bool:
        """Reads the new tokens of the batch's constrained slots and masks their rows, if there are any; the others keep every bit.

        Args:
            logits: float32[rows, columns], changed in place.
        """
        constrained = [position for position, slot in enumerate(layout.slots.tolist()) if slot in self._slots]
        if not constrained:
            return False
        self._bring_near_ends_to_host(layout, constrained)
        self.flush()
        slots = layout.slots[constrained]
        on_device = [slot for slot in slots.tolist() if self._slots[slot].table is not None]
        if on_device:
            self._read_history(on_device, history)
            self._mask_device(logits, layout, constrained)
        on_host = [slot for slot in slots.tolist() if self._slots[slot].table is None]
        if on_host:
            self._mask_host(logits, layout, history, on_host)
        return True

    def _read_history(self, slots: list[int], history: History) -> None:
        """Every slot reads what it has not read yet; as many rounds as the host knows to be enough."""
        rounds = 1 + self._most_drafts + max(self._replayed[slot] for slot in slots)
        for slot in slots:
            self._replayed[slot] = 0
        device, numbers = self._device_slots, self._tensor(slots)
        prompt_len = history.prompt_len[numbers].long()
        written = history.total_len[numbers].long() - prompt_len
        consumed, last = device.consumed[numbers], history.token_ids.shape[1] - 1
        for _ in range(rounds):
            reads = consumed < written
            token = history.token_ids[numbers, (prompt_len + consumed).clamp(max=last)].long()
            state = device.state[numbers]
            device.state[numbers] = torch.where(reads, device.following(numbers, state, token), state)
            consumed = consumed + reads
        device.consumed[numbers] = consumed
        device.state[numbers] = torch.where(consumed < written, FAILED, device.state[numbers])  # never pass by a token

    def _mask_device(self, logits: torch.Tensor, layout: Layout, constrained: list[int]) -> None:
        device = self._device_slots
        if logits.shape[0] == len(layout.slots):  # one row a request, in the order that the host knows
            slots = layout.slots[constrained]
            chosen = [
                (row, s) for row, s in zip(constrained, slots.tolist(), strict=True) if self._slots[s].table is not None
            ]
            rows, numbers = self._tensor([row for row, _ in chosen]), self._tensor([slot for _, slot in chosen])
            states = device.state[numbers]
        else:
            rows, numbers = torch.arange(logits.shape[0], device=self._device), layout.row_slot.long()
            states = self._states_after_drafts(numbers, layout)
        device.mask(logits, rows, numbers, states)

    def _states_after_drafts(self, numbers: torch.Tensor, layout: Layout) -> torch.Tensor:
        """int64[rows]: the slot's state, advanced over the drafts before the row."""
        states = self._device_slots.state[numbers]
        draft, token = layout.row_draft.long(), layout.row_token.long()
        for position in range(1, self._most_drafts + 1):
            reads = draft == position
            # The row above is the same request's; elsewhere it may be of another index, whose states mean nothing here.
            before = torch.where(reads, torch.roll(states, 1), STOPPED)
            states = torch.where(reads, self._device_slots.following(numbers, before, token), states)
        return states

    # --- on the host --------------------------------------------------------------------------------------------------

    def _bring_near_ends_to_host(self, layout: Layout, constrained: list[int]) -> None:
        """Slots whose token budget may bind within this step are resolved on the host from now on."""
        for position in constrained:
            slot = self._slots[int(layout.slots[position])]
            if slot.table is None or slot.budget is None:
                continue
            assert slot.fit is not None
            if slot.fit.may_bind(slot.budget - int(layout.most_output[position])):
                slot.table = None  # it reads its output from the start: the tokens are in the history
                self._device_slots.clear(slot.number)

    def _mask_host(self, logits: torch.Tensor, layout: Layout, history: History, slots: list[int]) -> None:
        make_room((slot for slot in self._slots.values() if slot.table is None), self._fits)
        numbers = self._tensor(slots)
        prompt_len, total_len = history.prompt_len[numbers].tolist(), history.total_len[numbers].tolist()
        for number, begin, end in zip(slots, prompt_len, total_len, strict=True):
            slot = self._slots[number]
            slot.output = [*slot.output, *history.token_ids[number, begin + len(slot.output) : end].tolist()]
            try:
                slot.read_new_tokens()
            except Exception as error:  # noqa: BLE001 - whatever one constraint does, the batch goes on
                slot.fail(error)
        row_slot, row_draft, row_token = (t.tolist() for t in (layout.row_slot, layout.row_draft, layout.row_token))
        for row, number in enumerate(row_slot):
            slot_of_row = self._slots.get(number)
            if slot_of_row is None or slot_of_row.table is not None:
                continue
            drafts = row_token[row - row_draft[row] + 1 : row + 1]
            mask_host_row(slot_of_row.after(drafts) if drafts else slot_of_row, logits[row])

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device, non_blocking=True)
