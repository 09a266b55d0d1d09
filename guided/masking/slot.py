"""In: the tokens of one constrained request; out: which are allowed next. Knows neither the batch nor the device.

This is the way of the slots that are resolved on the host: their index still grows, found no room on the device, or the end of
the token budget is near.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from guided.errors import LimitExceeded
from guided.masking.fit import Fit, Plan
from guided.masking.pressure import Pressure

logger = logging.getLogger(__name__)


class BrokenOff(LimitExceeded):
    """A request ends here, before its answer is complete: what comes next would hold up the batch. See `server.continuation`."""


class Index(Protocol):
    """What the masker needs of a `TokenIndex`."""

    @property
    def start(self) -> Any: ...

    @property
    def is_closed(self) -> bool: ...

    def advance(self, state: Any, token: int) -> Any | None: ...

    def mask(self, state: Any) -> np.ndarray: ...  # uint32[ceil(vocabulary / 32)]

    def is_accepting(self, state: Any) -> bool: ...

    @property
    def is_crowded(self) -> bool: ...

    def forget_all_but(self, states: Sequence[Any]) -> list[Any]: ...


@dataclass(slots=True)
class Slot:
    """One constrained request of the batch.

    Attributes:
        number: of the slot on the device.
        index: the compiled constraint, or None where it could not be had (`failure` says why).
        state: automaton state after `consumed` tokens; only where the slot is resolved on the host.
        output: the request's output tokens, a live list that its owner appends to.
        stop_tokens: every token at which the engine ends this request.
        fit: says which tokens leave an answer that fits the budget.
        budget: most output tokens that the request may have; None where the answer need not fit.
        table: number of the index in the pool; None where the slot is resolved on the host.
        held: number of the index in the pool that has to be released at the end.
        stopped: a stop token was written; nothing matters any more.
        failure: why this request cannot go on; it is ended at once, and who reads its output finds it incomplete.
        plan: tokens that complete the answer from `state`, where the fit asks for one.
        name: what logs call the request.
        pressure: where it is to be measured for this request.
    """

    number: int
    index: Index | None
    state: Any
    output: Sequence[int]
    stop_tokens: frozenset[int]
    name: str
    fit: Fit | None = None
    budget: int | None = None
    table: int | None = None
    held: int | None = None
    consumed: int = 0
    stopped: bool = False
    failure: str | None = None
    plan: Plan | None = None
    pressure: Pressure | None = None
    stop_array: np.ndarray = field(init=False)  # int64[stops]: `stop_tokens` for the kernels

    def __post_init__(self) -> None:
        assert self.stop_tokens, "a constrained request without any stop token could not end"
        self.stop_array = np.array(sorted(self.stop_tokens), dtype=np.int64)

    def read_new_tokens(self) -> None:
        """Advances the state over the tokens that were written since the last call."""
        while self.consumed < len(self.output) and not self.stopped and self.failure is None:
            self.read(self.output[self.consumed])

    def read(self, token: int) -> None:
        """Advances the state over one token."""
        if self.stopped or self.failure is not None:
            return
        self.consumed += 1
        if token in self.stop_tokens:
            self.stopped = True
            return
        assert self.index is not None
        state = self.index.advance(self.state, token)
        if state is None:
            self.fail(f"token {token} at position {self.consumed - 1} is not allowed by the constraint")
            return
        self._go(token, state)

    def _go(self, token: int, state: Any) -> None:
        plans = (self.plan, None if self.fit is None else self.fit.known_plan(self.state))
        following = [plan[1:] for plan in plans if plan and plan[0] == token]
        self.state, self.plan = state, min(following, key=len, default=None)

    def after(self, drafts: Sequence[int]) -> Slot:
        """A copy that has read `drafts` as well, which the request may never write; a forbidden one is no failure to log."""
        ahead = copy.copy(self)
        for token in drafts:
            if ahead.stopped or ahead.failure is not None:
                break
            ahead.consumed += 1
            if token in self.stop_tokens:
                ahead.stopped = True
                continue
            assert self.index is not None
            state = self.index.advance(ahead.state, token) if token >= 0 else None
            if state is None:
                ahead.failure = "a draft that the constraint forbids"
            else:
                ahead._go(token, state)
        return ahead

    def allowed(self) -> np.ndarray:
        """uint32[ceil(vocabulary / 32)]: the tokens that may follow, those among them after which the answer still fits.

        Raises:
            DoesNotFit: none does.
        """
        assert self.index is not None
        words = self.index.mask(self.state)
        if self.budget is None or self.fit is None:
            return words
        words, self.plan = self.fit.narrow(self.state, words, self.budget - self.consumed, self.plan)
        return words

    def fail(self, cause: str | Exception) -> None:
        """Ends the request. That it is broken off is no fault: its answer goes on in another one."""
        self.failure = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        level = logging.DEBUG if isinstance(cause, BrokenOff) else logging.ERROR
        logger.log(level, "constrained request %s ends: %s", self.name, self.failure)


def states_visited(slot: Slot) -> int:
    """How many states the request's output has been in, the start included; by a second walk, so that no step has to count."""
    seen, state = set(), None if slot.index is None else slot.index.start
    for token in slot.output:
        if state is None or token in slot.stop_tokens:
            break
        seen.add(state)
        state = slot.index.advance(state, token)  # type: ignore[union-attr]
    return len(seen | {state} - {None})
