"""Budgets of one compilation: bytes, states, seconds, memory. Knows nothing of what is compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from guided.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    """What one constraint may cost.

    Attributes:
        constraint_bytes: size of the canonical text, UTF-8.
        states: states of the automaton (of any stage: NFA, DFA, product, interned configurations).
        seconds: time of the compilation, by the clock of its `Budget`.
        memory_bytes: memory of the index: transitions and mask rows.
        nesting: depth of groups, schemas or rules in the source text.
    """

    constraint_bytes: int = 2 << 20
    states: int = 250_000
    seconds: float = 10.0
    memory_bytes: int = 512 << 20
    nesting: int = 1_000


@dataclass(slots=True)
class Budget:
    """`Limits` with a running clock; every stage calls `check` where it may take long."""

    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.monotonic  # seconds; a process that only compiles may count its own CPU time
    deadline: float = 0.0  # of `clock`

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Starts the clock anew: for work that is done later on the same constraint."""
        self.deadline = self.clock() + self.limits.seconds

    def check_size(self, constraint_bytes: int) -> None:
        """Raises LimitExceeded if the text of the constraint is longer than the limits allow."""
        if constraint_bytes > self.limits.constraint_bytes:
            self._refuse(
                "constraint_bytes", f"{constraint_bytes:,} bytes", f"{self.limits.constraint_bytes:,}", "its text"
            )

    def check(self, stage: str, *, states: int = 0, memory_bytes: int = 0, depth: int = 0) -> None:
        """Raises LimitExceeded, naming the limit and the stage, if any of the given amounts is beyond the limits."""
        limits = self.limits
        if states > limits.states:
            self._refuse("states", f"{states:,} states", f"{limits.states:,}", stage)
        if memory_bytes > limits.memory_bytes:
            self._refuse("memory_bytes", f"{memory_bytes >> 20} MiB", f"{limits.memory_bytes >> 20} MiB", stage)
        if depth > limits.nesting:
            self._refuse("nesting", f"nesting depth {depth}", str(limits.nesting), stage)
        if self.clock() > self.deadline:
            self._refuse("seconds", "compilation time", f"{limits.seconds:g} s", stage)

    @staticmethod
    def _refuse(limit: str, reached: str, allowed: str, stage: str) -> None:
        raise LimitExceeded(
            f"the constraint is too complex: {reached} in {stage}, limit {limit} = {allowed}", limit=limit
        )
