"""In: what vLLM's engine client gets for each request; out: the same, its times noted on the request's observation. Decides nothing.

vLLM keeps the times of every request that its statistics need, and hands them out with the last output only, of several answers those of
the last. Here the observation has them from the beginning, whoever reads the outputs: streams, whole answers, beams, parts of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.stats import RequestStateStats

from server.observation import Gaps, current


@dataclass
class Times(RequestStateStats):
    """vLLM's times of one request to its engine: moments by two clocks, see RequestStateStats.

    Attributes:
        gaps: between tokens of the HTTP request that it belongs to.
        goes_on: an answer had tokens before: it was broken off, or is made in steps or turns.
    """

    gaps: Gaps = field(default_factory=Gaps)
    goes_on: bool = False


class TimedOutputs(OutputProcessor):
    """Notes when tokens came. Without vLLM's statistics there are no times, and nothing is noted."""

    def add_request(self, request: Any, *args: Any, **options: Any) -> None:
        """Called within the context of the HTTP request."""
        super().add_request(request, *args, **options)
        seen, state = current.get(), self.request_states[request.request_id]
        if seen is None or state.stats is None or isinstance(state.stats, Times):
            return
        kept = {one.name: getattr(state.stats, one.name) for one in fields(state.stats)}
        goes_on = any(times.num_generation_tokens for times in seen.times)
        state.stats = Times(**kept, gaps=seen.gaps, goes_on=goes_on)
        seen.times.append(state.stats)

    def _update_stats_from_output(self, req_state: Any, engine_core_output: Any, *args: Any) -> None:
        stats = req_state.stats
        before = None if stats is None or req_state.is_prefilling else stats.last_token_ts
        super()._update_stats_from_output(req_state, engine_core_output, *args)
        if before is not None and isinstance(stats, Times) and engine_core_output.new_token_ids:
            stats.gaps.count(stats.last_token_ts - before)
