"""In: the requests that are resolved on the host; out: indexes that have room to grow. Knows no batch."""

from __future__ import annotations

from collections.abc import Iterable

from guided.errors import LimitExceeded
from guided.masking.fit import FitMemo
from guided.masking.slot import Index, Slot


def make_room(slots: Iterable[Slot], fits: FitMemo) -> None:
    """Has every crowded index forget the states that no request is in. The requests go on as if nothing had been.

    Args:
        slots: all requests that hold states of growing indexes.
    """
    going = [slot for slot in slots if slot.failure is None and not slot.stopped]
    for index in {id(slot.index): slot.index for slot in going}.values():
        if index is not None and index.is_crowded:
            _forget(index, [slot for slot in going if slot.index is index], fits)


def _forget(index: Index, slots: list[Slot], fits: FitMemo) -> None:
    try:
        states = index.forget_all_but([slot.state for slot in slots])
    except LimitExceeded as error:
        for slot in slots:
            slot.fail(error)
        return
    fits.forget(index)  # type: ignore[arg-type]  # a TokenIndex
    for slot, state in zip(slots, states, strict=True):
        slot.state = state
        if slot.fit is not None:
            slot.fit = fits.of(index)  # type: ignore[arg-type]
