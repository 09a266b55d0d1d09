"""In: the tokens that each request of the batch wrote; out: the batch's logits, masked. Knows rows and indexes, no engine.

A row of the logits belongs to one request. Rows of requests without a constraint are never touched, not even read. A request with
a closed index lives on the logits' device: all of them are advanced and masked in one step each, and nothing is read back. The
others are resolved on the host, one by one, without the rest having to wait for more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch

from guided.masking.device_slots import FAILED, PLAIN, STOPPED, DeviceSlots
from guided.masking.fit import FitMemo
from guided.masking.host_rows import NOTHING_LEFT, mask_by_words, mask_host_row
from guided.masking.pressure import Pressure, left_of, log_mass
from guided.masking.room import make_room
from guided.masking.slot import Index, Slot
from guided.masking.tables import DEFAULT_BYTES, TablePool
from guided.vocabulary import Vocabulary


class BatchMasker:
    """Masks a batch: `advance` all requests by their new tokens, then `mask` all their rows."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device | str = "cpu",
        *,
        capacity_bytes: int = DEFAULT_BYTES,
        compiled: bool | None = None,
        on_leave: Callable[[Slot], None] | None = None,
    ) -> None:
        """
        Args:
            capacity_bytes: of tables on the device.
            compiled: as for `DeviceSlots`.
            on_leave: is told of every constrained request that leaves the batch.
        """
        self._on_leave = on_leave
        self._device = torch.device(device)
        self._pool = TablePool(vocabulary, self._device, capacity_bytes)
        self._device_slots = DeviceSlots(self._pool, 16, compiled=compiled)
        self._slots: dict[int, Slot] = {}  # row of the batch -> its constrained request
        self._free: list[int] = []  # numbers of slots that were used and are free again
        self._fits = FitMemo(vocabulary)
        self._changed = True  # since the lists below were made
        self._on_device: list[Slot] = []
        self._on_host: list[tuple[int, Slot]] = []  # row, request
        self._measured: dict[int, Pressure] = {}  # row -> where its pressure goes
        self._least_rows = 0  # of logits that have all of them
        self._rows = self._numbers = self._device_slots.numbers([])  # int64[n]: row and slot of those on the device

    def warm_up(self) -> None:
        """Compiles or loads the kernels, so that no request waits for it."""
        zero = self._device_slots.numbers([0])
        logits = torch.zeros((1, 32), device=self._device)
        self._device_slots.advance(zero, zero)
        self._device_slots.mask(logits, zero, zero)
        mask_by_words(logits[0], np.zeros(1, np.uint32), np.zeros(1, np.int64), True)

    def __len__(self) -> int:
        return len(self._slots)

    # --- the batch changes --------------------------------------------------------------------------------------------

    def add(
        self,
        row: int,
        index: Index,
        *,
        output: Sequence[int],
        stop_tokens: Collection[int],
        budget: int | None = None,
        name: str = "?",
        pressure: Pressure | None = None,
    ) -> None:
        """Puts a constrained request into a row; its `output` may already hold tokens, which are replayed.

        Args:
            budget: most output tokens that the request may have; the answer is made to fit. None: it need not.
            pressure: takes what the masks of this request leave of the model's probability.
        """
        self.remove(row)
        slot = Slot(self._new_number(), index, index.start, output, frozenset(stop_tokens), name, pressure=pressure)
        if index.is_closed:
            slot.table = slot.held = self._pool.acquire(index)  # type: ignore[arg-type]  # a TokenIndex
        if budget is not None:
            slot.budget, slot.fit = budget, self._fits.of(index)  # type: ignore[arg-type]
        self._enter(row, slot)

    def add_failed(self, row: int, reason: str | Exception, *, stop_tokens: Collection[int], name: str = "?") -> None:
        """Puts a request into a row whose constraint cannot be enforced: it is ended at its next token."""
        self.remove(row)
        failed = Slot(self._new_number(), None, None, (), frozenset(stop_tokens), name)
        failed.fail(reason)
        self._enter(row, failed)

    def _enter(self, row: int, slot: Slot) -> None:
        self._slots[row] = slot
        table = PLAIN if slot.table is None else slot.table
        self._device_slots.put(slot.number, table, 0, slot.stop_array)
        self._changed = True

    def _new_number(self) -> int:
        return self._free.pop() if self._free else len(self._slots)

    def remove(self, row: int) -> None:
        """Frees a row; nothing happens where no constrained request has it."""
        slot = self._slots.pop(row, None)
        if slot is None:
            return
        if slot.held is not None:
            self._pool.release(slot.held)
        self._free.append(slot.number)
        self._changed = True
        if self._on_leave is not None:
            self._on_leave(slot)

    def move(self, source: int, target: int) -> None:
        """The request in `source`, constrained or not, moves to `target`, whose request is gone."""
        self.remove(target)
        if source in self._slots:
            self._slots[target] = self._slots.pop(source)
            self._changed = True

    def swap(self, a: int, b: int) -> None:
        first, second = self._slots.pop(a, None), self._slots.pop(b, None)
        if first is not None:
            self._slots[b] = first
        if second is not None:
            self._slots[a] = second
        self._changed = True

    # --- one step -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Reads the new tokens of every request. An exception in one request's index fails that request alone."""
        self._follow_changes()
        self._advance_device()
        for slot in self._on_device:
            if slot.budget is not None and slot.fit.may_bind(slot.budget - slot.consumed):  # type: ignore[union-attr]
                self._bring_to_host(slot)
        self._follow_changes()
        if self._on_host:
            make_room((slot for _, slot in self._on_host), self._fits)
        for _, slot in self._on_host:
            try:
                slot.read_new_tokens()
            except Exception as error:  # noqa: BLE001 - whatever one constraint does, the batch goes on
                slot.fail(error)

    def _follow_changes(self) -> None:
        self._device_slots.flush()
        if not self._changed:
            return
        on_device = [(row, slot) for row, slot in self._slots.items() if slot.table is not None]
        self._on_device = [slot for _, slot in on_device]
        self._on_host = [(row, slot) for row, slot in self._slots.items() if slot.table is None]
        self._measured = {row: slot.pressure for row, slot in self._slots.items() if slot.pressure is not None}
        self._rows = self._device_slots.numbers([row for row, _ in on_device])
        self._numbers = self._device_slots.numbers([slot.number for _, slot in on_device])
        self._least_rows = max(self._slots, default=-1) + 1
        self._changed = False

    def _advance_device(self) -> None:
        """In rounds of one token for each request that has one; more than one round after a replay only."""
        while True:
            numbers, tokens = [], []
            for slot in self._on_device:
                if slot.consumed < len(slot.output):
                    numbers.append(slot.number)
                    tokens.append(slot.output[slot.consumed])
                    slot.consumed += 1
            if not tokens:
                return
            read = self._device_slots.numbers
            slots = self._numbers if len(numbers) == len(self._on_device) else read(numbers)
            self._device_slots.advance(slots, read(tokens), self._longest(tokens))

    def _longest(self, tokens: list[int]) -> int | None:
        """Bytes of the longest of the tokens, where the form of the walk asks for it."""
        if self._device_slots.compiled:
            return None
        known = np.clip(np.array(tokens), 0, self._pool.vocabulary_size - 1)
        return int(self._pool.token_lengths[known].max())

    def _bring_to_host(self, slot: Slot) -> None:
        """From now on the request is resolved here. Its state is the one thing that is ever read back."""
        slot.state = int(self._device_slots.state[slot.number])
        slot.stopped = slot.state == STOPPED
        if slot.state == FAILED:
            slot.fail("a token is not allowed by the constraint")
        self._device_slots.put(slot.number, PLAIN, 0, slot.stop_array)
        slot.table = None
        self._changed = True

    def mask(self, logits: torch.Tensor) -> None:
        """Writes -inf at every forbidden token of every constrained row.

        Args:
            logits: float32[rows, columns], changed in place; the columns may be more than the vocabulary has tokens.
        """
        self._follow_changes()
        assert logits.shape[0] >= self._least_rows, f"a batch of {logits.shape[0]} rows"
        if not self._measured:
            self._mask(logits)
            return
        rows = torch.tensor(list(self._measured), device=logits.device)
        before = log_mass(logits, rows)
        self._mask(logits)
        mass, allowed = left_of(logits, rows, before)
        for pressure, step in zip(self._measured.values(), torch.stack([mass, allowed.float()], 1), strict=True):
            pressure.record(step)

    def _mask(self, logits: torch.Tensor) -> None:
        if self._on_device:
            failed = self._device_slots.mask(logits, self._rows, self._numbers)
            # On a device reading it would wait for what the device does.
            if failed is not None and (isinstance(failed, np.ndarray) or failed.device.type == "cpu") and failed.any():
                for slot, has_failed in zip(self._on_device, failed.tolist(), strict=True):
                    if has_failed:
                        slot.fail(NOTHING_LEFT)
        for row, slot in self._on_host:
            mask_host_row(slot, logits[row])
