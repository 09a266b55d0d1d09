"""In: the compile service; out: Prometheus metrics of caches and compilations, read when they are asked for. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from guided.cache import DISK, REMOTE
from server.compile_service import COMPILED, MEMORY, CompileService


class CompileMetrics(Collector):
    """For `CollectorRegistry.register`."""

    def __init__(self, service: CompileService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        yield from self._caches()
        yield from self._compilations()

    def _caches(self) -> Iterator[Metric]:
        memory, pool, tally = self._service.memory, self._service.pool, self._service.tally
        hits = CounterMetricFamily("guided_cache_hits", "Constraints whose index a tier had", labels=["tier"])
        hits.add_metric([MEMORY], memory.hits)
        for tier in (DISK, REMOTE):
            hits.add_metric([tier], tally.found[tier])
        yield hits
        misses = CounterMetricFamily(
            "guided_cache_misses", "Constraints that a tier was asked for in vain", labels=["tier"]
        )
        misses.add_metric([REMOTE], pool.remote["misses"])
        yield misses
        failures = CounterMetricFamily("guided_cache_failures", "Times that a tier did not answer", labels=["tier"])
        failures.add_metric([REMOTE], pool.remote["failures"])
        yield failures
        uploads = CounterMetricFamily(
            "guided_cache_uploads", "Indexes that were to be shared, by what came of it", labels=["tier", "outcome"]
        )
        for outcome in ("written", "there", "too_large"):
            uploads.add_metric([REMOTE, outcome], pool.remote[outcome])
        yield uploads
        used = GaugeMetricFamily("guided_cache_bytes", "Indexes that a tier holds", labels=["tier"])
        used.add_metric([MEMORY], memory.used_bytes)
        for folder, use in pool.files.items():
            if use["used_bytes"] is not None:
                used.add_metric([folder], use["used_bytes"])
        yield used
        evictions = CounterMetricFamily("guided_cache_evictions", "Indexes dropped to make room", labels=["tier"])
        evictions.add_metric([MEMORY], memory.evictions)
        for folder, use in pool.files.items():
            evictions.add_metric([folder], use["evictions"])
        yield evictions
        age = GaugeMetricFamily(
            "guided_cache_age_seconds", "Since the use of the index not used longest", labels=["tier"]
        )
        age.add_metric([MEMORY], memory.oldest_seconds)
        for folder, use in pool.files.items():
            if use["oldest_seconds"] is not None:
                age.add_metric([folder], use["oldest_seconds"])
        yield age
        yield GaugeMetricFamily("guided_cache_entries", "Constraints in memory", value=len(memory))

    def _compilations(self) -> Iterator[Metric]:
        pool, tally = self._service.pool, self._service.tally
        yield CounterMetricFamily("guided_compilations", "Constraints compiled", value=tally.found[COMPILED])
        for histogram in (tally.seconds, tally.states, tally.bytes):
            yield from histogram.collect()
        refusals = CounterMetricFamily("guided_refusals", "Constraints refused by a worker", labels=["code"])
        for code, count in tally.refusals.items():
            refusals.add_metric([code], count)
        yield refusals
        yield GaugeMetricFamily("guided_compile_queue", "Jobs that wait for a worker", value=len(pool))
        yield GaugeMetricFamily("guided_compile_busy", "Workers with a job", value=pool.busy)
        yield CounterMetricFamily("guided_compile_deaths", "Workers that died or were killed", value=pool.deaths)
        yield CounterMetricFamily("guided_compile_overloads", "Jobs refused since too many wait", value=pool.overloads)
