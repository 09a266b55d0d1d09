"""In: what happens to one request on its way; out: one record of it, for metrics and traces. Decides nothing.

A context variable, as the constraint is one (see `server.engine`): it follows the request through every task that is started for it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

    from guided.vllm_adapters.reports import Measured
    from server.token_times import Times

UNCONSTRAINED, HANDED_OVER = "none", "vllm"  # kinds of constraints that are not ours
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)  # seconds

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
    """One answer of a request.

    Attributes:
        reason: vLLM's finish reason.
        tokens: the stop token included.
    """

    reason: str
    tokens: int


@dataclass(slots=True)
class Gaps:
    """Times between the tokens of answers.

    Attributes:
        counts: how many were longer than one of BOUNDS and no longer than the next.
        seconds: of all together.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def count(self, seconds: float) -> None:
        """One gap. For every token of every answer, on the event loop: it does nothing else."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def add(self, others: Gaps) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, others.counts, strict=True)]
        self.seconds += others.seconds


@dataclass(slots=True)
class Observation:
    """One request, filled in as it goes.

    Attributes:
        begin: Unix time, seconds; `end` likewise.
        kind: of its constraint, as soon as it is known; of several that contradict each other, the last one. HANDED_OVER: vLLM enforces it.
        status: HTTP status, 0 until the answer begins.
        code: of the refusal.
        broke: an answer that had begun ended in an error.
        complete: the last byte was handed on.
        left: the client has left before that.
        generated: the engine was asked, and the request is one that generates.
        background: the answer is made after the response, or while it is sent.
        over: called when it is made, if the response is over by then.
        in_steps: an answer is made in many requests to the engine, none of which ends it (beam search).
        times: of its requests to the engine, as that keeps them; none where it keeps no times.
        gaps: between the tokens of its answers, likewise.
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
    generated: bool = False
    background: bool = False
    over: Callable[[], None] | None = None
    in_steps: bool = False
    max_tokens: int | None = None
    obtained: Obtained | None = None
    answers: list[Finished] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps)
    measured: Measured | None = None

    @property
    def outcome(self) -> str:
        if 400 <= self.status < 500:  # nothing had begun that could break
            return REFUSED
        if self.broke or self.status >= 500:
            return FAILED
        if self.left or not self.status:
            return ABANDONED
        return TRUNCATED if any(answer.reason == "length" for answer in self.answers) else COMPLETED


current: ContextVar[Observation | None] = ContextVar("current_observation", default=None)


def note_kind(kind: str) -> None:
    """The request at hand, if it is observed, has a constraint of this kind."""
    seen = current.get()
    if seen is not None:
        seen.kind = kind


def note_steps() -> None:
    """The answer of the request at hand is made in steps."""
    seen = current.get()
    if seen is not None:
        seen.in_steps = True


async def in_background(seen: Observation, work: Awaitable[None]) -> None:
    """Waits for work that makes the answer of a request; what is noted of that counts when both are over."""
    try:
        await work
    finally:
        seen.background = False
        if seen.over is not None:
            seen.over()


async def watched(
    outputs: AsyncGenerator[RequestOutput, None], seen: Observation, max_tokens: int | None, *, deltas: bool
) -> AsyncGenerator[RequestOutput, None]:
    """Passes the outputs of a generation on and notes how they end.

    Args:
        deltas: each output holds the tokens since the last one, not all of them.
    """
    seen.generated, seen.max_tokens = True, max_tokens
    counts: dict[int, int] = {}  # number of the sample -> its tokens
    async with aclosing(outputs):
        try:
            async for output in outputs:
                for sample in output.outputs:
                    before = counts.get(sample.index, 0) if deltas else 0
                    counts[sample.index] = before + len(sample.token_ids)
                    if sample.finish_reason is not None and not seen.in_steps:
                        seen.answers.append(Finished(sample.finish_reason, counts[sample.index]))
                yield output
        except Exception:
            seen.broke = True
            raise
