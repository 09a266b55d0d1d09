"""In: the engine's own counts after each of its steps; out: a header that tells them to a router that asks. Counts nothing itself.

The header is ORCA's (`endpoint-load-metrics`), which gateways understand; a request asks for it with `endpoint-load-metrics-format: text`
or `json`. vLLM answers that for whole answers, out of a pass over all its metrics; this is for streams and refusals of constraints too, and
for callers only: the load is none of anybody else's business.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from vllm.v1.metrics.loggers import StatLoggerBase

from server.access import Access, access_to

ASKS, ANSWERS = b"endpoint-load-metrics-format", "endpoint-load-metrics"


@dataclass(slots=True)
class Load:
    """Of all engines behind this gateway.

    Attributes:
        engines: by number: requests that run, requests that wait, share of the KV cache in use.
        steps: that they told of.
    """

    engines: dict[int, tuple[int, int, float]] = field(default_factory=dict)
    steps: int = 0

    def logger(self, vllm_config: Any, engine_index: int = 0) -> StatLoggerBase:
        """For vLLM's `stat_loggers`."""
        return _Recorder(self, engine_index)

    def metrics(self) -> dict[str, float]:
        engines = self.engines.values()
        return {
            "num_requests_running": float(sum(running for running, _, _ in engines)),
            "num_requests_waiting": float(sum(waiting for _, waiting, _ in engines)),
            "kv_cache_usage_perc": max((usage for _, _, usage in engines), default=0.0),
        }

    def header(self, kind: str) -> str | None:
        """None: a format that ORCA does not have."""
        metrics = self.metrics()
        if kind == "json":
            return f"JSON {json.dumps({'named_metrics': metrics})}"
        if kind == "text":
            return "TEXT " + ", ".join(f"named_metrics.{name}={value}" for name, value in metrics.items())
        return None


class _Recorder(StatLoggerBase):
    def __init__(self, load: Load, engine_index: int) -> None:
        self._load = load
        self._engine = engine_index

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        self._load.steps += 1
        if scheduler_stats is not None:
            s = scheduler_stats
            self._load.engines[self._engine] = (s.num_running_reqs, s.num_waiting_reqs, s.kv_cache_usage)

    def log_engine_initialized(self) -> None:
        pass


class LoadReports:
    """Answers requests that ask for the load; vLLM does not see that they did."""

    def __init__(self, app: ASGIApp, load: Load) -> None:
        self.app = app
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = next((value for name, value in scope.get("headers", []) if name == ASKS), None)
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or asked is None or access_to(path) is not Access.CALLER:
            await self.app(scope, receive, send)
            return
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != ASKS]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                header = self._load.header(asked.decode("latin-1").lower())
                if header is not None:
                    MutableHeaders(scope=message)[ANSWERS] = header
            await send(message)

        await self.app(scope, receive, sending)
