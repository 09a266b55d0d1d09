"""In: rows of logits before and after they are masked; out: how much of the model's own probability is left in them. Knows no request.

Low pressure: the constraint allows what the model wants to write anyway. A mass near 0: the model is made to write something else.
"""

from __future__ import annotations

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


def log_mass(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """float32[n]: before the masks, the logarithm of what the exponentials of each of `rows`, int64[n], come to.

    Filters of the engine that came before (allowed_token_ids, bad_words) count as the model's own will.
    """
    return torch.logsumexp(logits[rows], 1)


def left_of(logits: torch.Tensor, rows: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """After the masks: float32[n], the probability that is left of what `log_mass` found, and int64[n], the tokens that are."""
    kept = logits[rows]
    mass = torch.exp(torch.logsumexp(kept, 1) - before).clamp(max=1.0).masked_fill(before.isneginf(), 0.0)
    return mass, (kept > float("-inf")).sum(1)
