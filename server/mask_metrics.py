"""In: an engine's instance; out: the Prometheus metric of its masks, read when it is asked for. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from guided.vllm_adapters.mask_times import BOUNDS, read


class MaskMetrics(Collector):
    """For `CollectorRegistry.register`."""

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def collect(self) -> Iterator[Metric]:
        found = read(self._instance)
        if found is None:
            return
        counts, seconds = found
        bounds = [*map(str, BOUNDS), "+Inf"]
        yield HistogramMetricFamily(
            "guided_mask_seconds",
            "Masks of one step of the engine in which a request has a constraint",
            buckets=list(zip(bounds, accumulate(counts), strict=True)),
            sum_value=seconds,
        )
