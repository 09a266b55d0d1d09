"""In: rows of logits before and after they are masked; out: how much of the model's own probability is left in them. Knows no request.

Low pressure: the constraint allows what the model wants to write anyway. A mass near 0: the model is made to write something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


class Pressure:
    """What was measured for one request, a step at a time; stays on the device until it is read."""

    def __init__(self, name: str = "?") -> None:
        """`name`: who asked for it."""
        self.name = name
        self._steps: list[torch.Tensor] = []  # float32[2]: mass, allowed tokens

    def record(self, step: torch.Tensor) -> None:
        self._steps.append(step)

    def read(self) -> tuple[list[float], list[int]]:
        """Per step the probability of the allowed tokens together, and their number; waits for the device."""
        if not self._steps:
            return [], []
        mass, allowed = torch.stack(self._steps).T.tolist()
        return mass, [int(count) for count in allowed]


@contextmanager
def measured(logits: torch.Tensor, rows: Sequence[int], pressures: Sequence[Pressure]) -> Iterator[None]:
    """Measures what is done to `rows` of the logits, float32[rows, columns], in the body.

    Filters of the engine that came before (allowed_token_ids, bad_words) count as the model's own will.
    """
    chosen = torch.tensor(rows, device=logits.device)
    before = torch.logsumexp(logits[chosen], 1)
    yield
    kept = logits[chosen]
    mass = torch.exp(torch.logsumexp(kept, 1) - before).clamp(max=1.0).masked_fill(before.isneginf(), 0.0)
    allowed = (kept > float("-inf")).sum(1)
    for pressure, step in zip(pressures, torch.stack([mass, allowed.float()], 1), strict=True):
        pressure.record(step)
