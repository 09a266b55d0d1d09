"""In: observations of requests; out: their Prometheus metrics, beside vLLM's own. Knows no engine and no HTTP.

Names and labels are in docs/metrics.md; a label takes few values, none of which a client can make up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from guided.vllm_adapters.reports import Measured
from server.observation import BOUNDS, COMPLETED, TRUNCATED, UNCONSTRAINED, Gaps, Observation

_KIND, _ROUTE = ["kind"], ["route", "kind"]
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1)
_WAITING_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class GapMetrics(Collector):
    """Times between tokens, of which there are too many to hand each to a histogram of the library."""

    def __init__(self) -> None:
        self._gaps: defaultdict[tuple[str, str], Gaps] = defaultdict(Gaps)  # of a route and a kind

    def add(self, route: str, kind: str, gaps: Gaps) -> None:
        self._gaps[route, kind].add(gaps)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            "guided_inter_token_seconds",
            "Between one token of an answer and the next, by the engine's clock",
            labels=_ROUTE,
        )
        bounds = [*map(str, BOUNDS), "+Inf"]
        for labels, gaps in self._gaps.items():
            family.add_metric(labels, list(zip(bounds, accumulate(gaps.counts), strict=True)), gaps.seconds)
        yield family


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
        about = "From the arrival of a request, compilation and queue included"
        self._first = Histogram(
            "guided_time_to_first_token_seconds", about, _ROUTE, buckets=_SECONDS, registry=registry
        )
        self._gaps = GapMetrics()
        registry.register(self._gaps)
        about = (
            "Mean probability that the model gave to what the masks of one answer allowed, of those that were measured"
        )
        self._mass = Histogram("guided_allowed_mass", about, _KIND, buckets=_SHARES, registry=registry)
        about = "The least of them in one answer"
        self._least_mass = Histogram("guided_least_allowed_mass", about, _KIND, buckets=_SHARES, registry=registry)
        about = "Tokens of these answers that were the only ones allowed"
        self._forced = Counter("guided_forced_tokens_total", about, _KIND, registry=registry)
        about = "Requests that generate and were answered, from arrival to the last byte"
        self._whole = Histogram("guided_request_seconds", about, _ROUTE, buckets=_SECONDS, registry=registry)

    def record(self, seen: Observation) -> None:
        """Counts a request that is over."""
        self._requests.labels(seen.route, seen.kind, seen.outcome).inc()
        if seen.code is not None:
            self._refused.labels(seen.code).inc()
        if seen.obtained is not None and seen.obtained.tier is not None:
            self._waited.labels(seen.obtained.tier).observe(seen.obtained.end - seen.obtained.begin)
        if seen.kind != UNCONSTRAINED:
            self._count_tight_budgets(seen)
        self._count_times(seen)
        if seen.measured is not None:
            self.measured(seen.kind, seen.measured)

    def _count_tight_budgets(self, seen: Observation) -> None:
        for answer in seen.answers:
            if answer.reason == "length":
                self._truncated.labels(seen.kind).inc()
            elif answer.reason == "stop" and seen.max_tokens is not None and answer.tokens >= seen.max_tokens:
                self._bound.labels(seen.kind).inc()

    def _count_times(self, seen: Observation) -> None:
        for times in seen.times:
            if times.num_generation_tokens and not times.goes_on:
                first = times.arrival_time - seen.begin + times.first_token_latency
                self._first.labels(seen.route, seen.kind).observe(first)
        if any(seen.gaps.counts):
            self._gaps.add(seen.route, seen.kind, seen.gaps)
        if seen.generated and seen.outcome in (COMPLETED, TRUNCATED):
            self._whole.labels(seen.route, seen.kind).observe(seen.end - seen.begin)

    def measured(self, kind: str, measured: Measured) -> None:
        """Counts the masks of one answer."""
        self._mass.labels(kind).observe(measured.mean)
        self._least_mass.labels(kind).observe(measured.least)
        self._forced.labels(kind).inc(measured.forced)
