"""In: observations of requests; out: their Prometheus metrics, beside vLLM's own. Knows no engine and no HTTP.

Names and labels are in docs/metrics.md; a label takes few values, none of which a client can make up.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from guided.vllm_adapters.reports import Measured
from server.observation import UNCONSTRAINED, Observation

_KIND = ["kind"]
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
_SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1)
_WAITING_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestMetrics:
    """Counters and histograms of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "guided_requests_total", "Requests by how they ended", ["route", "kind", "outcome"], registry=registry
        )
        self._refused = Counter(
            "guided_refused_requests_total", "Requests answered with an error, by its code", ["code"], registry=registry
        )
        self._truncated = Counter(
            "guided_truncated_answers_total", "Constrained answers that max_tokens ended", _KIND, registry=registry
        )
        self._bound = Counter(
            "guided_budget_bound_answers_total",
            "Complete constrained answers that used all of their max_tokens",
            _KIND,
            registry=registry,
        )
        about = "From a constraint to its index, by where the index was found"
        self._waited = Histogram(
            "guided_constraint_wait_seconds", about, ["tier"], buckets=_WAITING_SECONDS, registry=registry
        )
        about = "From the arrival of a constrained request, its compilation included"
        self._first = Histogram("guided_time_to_first_token_seconds", about, _KIND, buckets=_SECONDS, registry=registry)
        about = "Mean time between the tokens of one constrained answer"
        self._between = Histogram("guided_inter_token_seconds", about, _KIND, buckets=_SHORT_SECONDS, registry=registry)
        about = (
            "Mean probability that the model gave to what the masks of one answer allowed, of those that were measured"
        )
        self._mass = Histogram("guided_allowed_mass", about, _KIND, buckets=_SHARES, registry=registry)
        about = "The least of them in one answer"
        self._least_mass = Histogram("guided_least_allowed_mass", about, _KIND, buckets=_SHARES, registry=registry)
        about = "Tokens of these answers that were the only ones allowed"
        self._forced = Counter("guided_forced_tokens_total", about, _KIND, registry=registry)
        about = "Constrained requests that were answered, from arrival to the last byte"
        self._whole = Histogram("guided_request_seconds", about, _KIND, buckets=_SECONDS, registry=registry)

    def record(self, seen: Observation) -> None:
        """Counts a request that is over."""
        self._requests.labels(seen.route, seen.kind, seen.outcome).inc()
        if seen.code is not None:
            self._refused.labels(seen.code).inc()
        if seen.obtained is not None and seen.obtained.tier is not None:
            self._waited.labels(seen.obtained.tier).observe(seen.obtained.end - seen.obtained.begin)
        for answer in seen.answers:
            if answer.reason == "length":
                self._truncated.labels(seen.kind).inc()
            elif answer.reason == "stop" and seen.max_tokens is not None and answer.tokens >= seen.max_tokens:
                self._bound.labels(seen.kind).inc()
            if answer.stats is not None:
                before = answer.stats.arrival_time - seen.begin
                self._first.labels(seen.kind).observe(before + answer.stats.first_token_latency)
                if answer.tokens > 1:
                    seconds = answer.stats.last_token_ts - answer.stats.first_token_ts
                    self._between.labels(seen.kind).observe(seconds / (answer.tokens - 1))
        if seen.measured is not None:
            self.measured(seen.kind, seen.measured)
        if seen.kind != UNCONSTRAINED and seen.answers and not seen.broke:
            self._whole.labels(seen.kind).observe(seen.end - seen.begin)

    def measured(self, kind: str, measured: Measured) -> None:
        """Counts the masks of one answer."""
        self._mass.labels(kind).observe(measured.mean)
        self._least_mass.labels(kind).observe(measured.least)
        self._forced.labels(kind).inc(measured.forced)
