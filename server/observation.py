"""In: what happens to one request on its way; out: one record of it, for metrics and traces. Decides nothing.

A context variable, as the constraint is one (see `server.engine`): it follows the request through every task that is started for it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput
    from vllm.v1.metrics.stats import RequestStateStats

    from guided.vllm_adapters.reports import Measured

UNCONSTRAINED = "none"

COMPLETED, TRUNCATED, REFUSED, FAILED, ABANDONED = "completed", "truncated", "refused", "error", "abandoned"


@dataclass(frozen=True, slots=True)
class Obtained:
    """How a request got its constraint's index.

    Attributes:
        begin, end: Unix time, seconds.
        tier: "memory", "disk", "redis" or "compiled"; None where the constraint was refused.
    """

    begin: float
    end: float
    tier: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Finished:
    """One answer of a constrained request.

    Attributes:
        reason: vLLM's finish reason.
        tokens: the stop token included.
        stats: the engine's times; None where it keeps none, or where the answer was broken off and went on in another request.
    """

    reason: str
    tokens: int
    stats: RequestStateStats | None


@dataclass(slots=True)
class Observation:
    """One request, filled in as it goes.

    Attributes:
        begin: Unix time, seconds; `end` likewise.
        kind: of its constraint, as soon as it is known; of several that contradict each other, the last one.
        status: HTTP status, 0 until the answer begins.
        code: of the refusal.
        broke: an answer that had begun ended in an error.
        complete: the last byte was handed on.
        left: the client has left before that.
        measured: the masks of its answer, where the request asked for a report.
    """

    route: str
    begin: float = field(default_factory=time.time)
    end: float = 0.0
    kind: str = UNCONSTRAINED
    status: int = 0
    code: str | None = None
    broke: bool = False
    complete: bool = False
    left: bool = False
    max_tokens: int | None = None
    obtained: Obtained | None = None
    answers: list[Finished] = field(default_factory=list)
    measured: Measured | None = None

    @property
    def outcome(self) -> str:
        if self.broke or self.status >= 500:
            return FAILED
        if self.status >= 400:
            return REFUSED
        if self.left or not self.status:
            return ABANDONED
        return TRUNCATED if any(answer.reason == "length" for answer in self.answers) else COMPLETED


current: ContextVar[Observation | None] = ContextVar("current_observation", default=None)


def note_kind(kind: str) -> None:
    """The request at hand, if it is observed, has a constraint of this kind."""
    seen = current.get()
    if seen is not None:
        seen.kind = kind


async def watched(
    outputs: AsyncGenerator[RequestOutput, None], seen: Observation, max_tokens: int | None, *, deltas: bool
) -> AsyncGenerator[RequestOutput, None]:
    """Passes the outputs of a constrained generation on and notes how they end.

    Args:
        deltas: each output holds the tokens since the last one, not all of them.
    """
    seen.max_tokens = max_tokens
    counts: dict[int, int] = {}  # number of the sample -> its tokens
    async with aclosing(outputs):
        try:
            async for output in outputs:
                for sample in output.outputs:
                    before = counts.get(sample.index, 0) if deltas else 0
                    counts[sample.index] = before + len(sample.token_ids)
                    if sample.finish_reason is not None:
                        seen.answers.append(_finished(output, sample.finish_reason, counts[sample.index]))
                yield output
        except Exception:
            seen.broke = True
            raise


def _finished(output: RequestOutput, reason: str, tokens: int) -> Finished:
    """The engine's times are those of its last request: of the whole answer only where that one wrote all of it."""
    stats = output.metrics
    whole = stats is not None and stats.num_generation_tokens == tokens
    return Finished(reason, tokens, stats if whole else None)
