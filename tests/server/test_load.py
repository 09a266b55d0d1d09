"""The load header: for who asks, on every kind of answer, of all engines together."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

from server.load import Load, LoadReports
from tests.server.asgi import ask, echo


def loaded() -> Load:
    load = Load()
    for engine, (running, waiting, usage) in enumerate([(3, 1, 0.25), (2, 0, 0.5)]):
        stats = SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)
        recorder = load.logger(None, engine)
        recorder.record(stats, None)
        recorder.record(None, None)  # a step without news
    return load


def header(kind: str | None, path: str = "/v1/completions") -> str | None:
    seen = {}

    async def app(scope, receive, send) -> None:
        seen["asked"] = b"endpoint-load-metrics-format" in dict(scope["headers"])
        await echo(scope, receive, send)

    headers = {} if kind is None else {"endpoint-load-metrics-format": kind}
    answer = asyncio.run(ask(LoadReports(app, loaded()), "POST", path, headers))
    assert answer.status == 200 and seen["asked"] is (path == "/ready")
    return answer.headers.get("endpoint-load-metrics")


def test_both_formats():
    metrics = {"num_requests_running": 5.0, "num_requests_waiting": 1.0, "kv_cache_usage_perc": 0.5}
    kind, _, report = header("JSON").partition(" ")
    assert (kind, json.loads(report)) == ("JSON", {"named_metrics": metrics})
    assert header("text") == "TEXT " + ", ".join(f"named_metrics.{name}={value}" for name, value in metrics.items())


def test_only_for_who_asks_in_a_format_that_there_is():
    assert header(None) is None
    assert header("binary") is None
    assert header("text", path="/ready") is None


def test_before_the_first_step_there_is_no_load():
    assert set(Load().metrics().values()) == {0.0}
