"""In: numbers of slots and their new tokens, on the device; out: their states, and masked logits. Knows no request.

Per slot the number of its index, its state and its stop tokens, as tensors on the logits' device. What the host changes is staged
and written by `flush`; from then on nothing is read back.

On the CPU both steps are compiled loops (`kernels`) over the same memory: a tensor form writes several temporaries of the size of the
logits, the loop only what changes, and the smallest tensor operation takes longer than a whole walk. Elsewhere they are tensor
operations (`tensor_ops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from guided.masking import kernels, tensor_ops
from guided.masking.tables import TablePool
from guided.masking.tensor_ops import FAILED, PLAIN, STOPPED

__all__ = ["FAILED", "PLAIN", "STOPPED", "DeviceSlots"]

_NO_VIEWS = (np.zeros(0, np.int64),) * 3

Numbers = Any  # int64[n]: an array or a tensor, see `DeviceSlots.numbers`
_FOR_WALK = ("token_data", "token_begin", "extents", "class_of", "delta")
_FOR_MASK = ("extents", "place", "accepting", "dense", "lists")


class DeviceSlots:
    """Slots 0 .. n - 1 of a batch; all PLAIN at first."""

    def __init__(self, pool: TablePool, slots: int, *, compiled: bool | None = None) -> None:
        """`compiled`: the loops instead of tensor operations; by default where the logits lie on a CPU."""
        self.pool = pool
        self.device = pool.device
        self.compiled = pool.device.type == "cpu" if compiled is None else compiled
        self.index = torch.full((slots,), PLAIN, dtype=torch.int64, device=self.device)  # int64[slots]: number or PLAIN
        self.state = torch.zeros(slots, dtype=torch.int64, device=self.device)  # int64[slots]: or STOPPED, FAILED
        self.consumed = torch.zeros(slots, dtype=torch.int64, device=self.device)  # int64[slots]: output tokens read
        self.stops = torch.full(
            (slots, 1), -1, dtype=torch.int64, device=self.device
        )  # int64[slots, k], padded with -1
        self._staged: dict[int, tuple[int, int, np.ndarray]] = {}  # slot -> index, state, stop tokens
        self._arrays = self._views()

    def _views(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`index`, `state` and `stops` for the compiled loops: the same memory. To make a view takes longer than a walk."""
        return (self.index.numpy(), self.state.numpy(), self.stops.numpy()) if self.compiled else _NO_VIEWS

    def __len__(self) -> int:
        return self.index.shape[0]

    def put(self, slot: int, index: int, state: int, stop_tokens: np.ndarray) -> None:
        """Stages a new occupant of a slot."""
        self._staged[slot] = (index, state, stop_tokens)

    def clear(self, slot: int) -> None:
        """Stages that a slot is PLAIN."""
        self.put(slot, PLAIN, 0, np.zeros(0, np.int64))

    def flush(self) -> None:
        """Writes what was staged; costs nothing where nothing was."""
        if not self._staged:
            return
        slots = np.fromiter(self._staged, np.int64, len(self._staged))
        self._reserve(int(slots.max()) + 1, max(len(stops) for _, _, stops in self._staged.values()))
        stop_rows = np.full((len(slots), self.stops.shape[1]), -1, np.int64)
        for row, (_, _, stops) in zip(stop_rows, self._staged.values(), strict=True):
            row[: len(stops)] = stops
        target = self._tensor(slots)
        self.index[target] = self._tensor(np.array([index for index, _, _ in self._staged.values()], np.int64))
        self.state[target] = self._tensor(np.array([state for _, state, _ in self._staged.values()], np.int64))
        self.consumed[target] = 0
        self.stops[target] = self._tensor(stop_rows)
        self._staged.clear()

    def _reserve(self, slots: int, stops: int) -> None:
        if slots > len(self):
            more = max(slots, 2 * len(self)) - len(self)
            pad = torch.nn.functional.pad
            self.index = pad(self.index, (0, more), value=PLAIN)
            self.state, self.consumed = pad(self.state, (0, more)), pad(self.consumed, (0, more))
            self.stops = pad(self.stops, (0, 0, 0, more), value=-1)
        width = self.stops.shape[1]
        if stops > width:
            self.stops = torch.nn.functional.pad(self.stops, (0, max(stops, 2 * width) - width), value=-1)
        self._arrays = self._views()

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    # --- the two steps ------------------------------------------------------------------------------------------------

    def numbers(self, values: Sequence[int]) -> Numbers:
        """Slots, tokens or rows, as `advance` and `mask` take them: int64[n], where the compiled loops run as an array."""
        array = np.array(values, np.int64)
        return array if self.compiled else self._tensor(array)

    def advance(self, slots: Numbers, token: Numbers, longest_token: int | None = None) -> None:
        """Every slot of `slots`, int64[n] and distinct, reads one token of `token`, int64[n]."""
        if self.compiled:
            kernels.advance(*self.pool.arrays(*_FOR_WALK), *self._arrays, np.asarray(slots), np.asarray(token))
        else:
            self.state[slots] = self.following(slots, self.state[slots], token, longest_token)

    def following(
        self, slots: torch.Tensor, state: torch.Tensor, token: torch.Tensor, longest_token: int | None = None
    ) -> torch.Tensor:
        """int64[n]: the states after `token` from `state`, under the indexes of `slots`; see `tensor_ops.walk`."""
        if self.compiled:
            following = np.empty(len(slots), np.int64)
            index, _, stops = self._arrays
            own = index, state.numpy(), stops, slots.numpy(), token.numpy()
            kernels.walk(*self.pool.arrays(*_FOR_WALK), *own, following)
            return torch.from_numpy(following)
        longest = self.pool.longest_token if longest_token is None else longest_token
        return tensor_ops.walk(self.pool.tables, self.index[slots], state, token, self.stops[slots], longest)

    def mask(self, logits: torch.Tensor, rows: Numbers, slots: Numbers, state: Numbers | None = None) -> Numbers | None:
        """Masks `rows`, int64[n], of the logits by the `slots` and states, int64[n]; see `tensor_ops.mask_rows`.

        `state`: by default the slots' own.

        Returns:
            bool[n]: slots that have no token left; None where there is none and the device need not be asked.
        """
        if not self.compiled:
            state = self.state[slots] if state is None else state
            return tensor_ops.mask_rows(self.pool.tables, logits, rows, self.index[slots], state, self.stops[slots])
        rows, slots = np.asarray(rows), np.asarray(slots)
        index, own_state, stops = self._arrays
        state = own_state[slots] if state is None else np.asarray(state)
        array = logits.numpy() if logits.dtype == torch.float32 else None  # numpy has no bfloat16
        if array is None or array.strides[1] != array.itemsize:
            own = map(torch.from_numpy, (rows, index[slots], state, stops[slots]))
            return tensor_ops.mask_rows(self.pool.tables, logits, *own)
        failed = np.empty(len(rows), np.bool_)
        tables = self.pool.arrays(*_FOR_MASK)
        return failed if kernels.mask_rows(*tables, index, stops, slots, state, array, rows, failed) else None
