"""Observations become the metrics that docs/metrics.md lists, and no others."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from guided.vllm_adapters.reports import Measured
from server.observation import Finished, Observation, Obtained
from server.request_metrics import RequestMetrics
from tests.deploy.test_monitoring import declared
from tests.deploy.tools import ROOT

CHAT = "/v1/chat/completions"
STATS = SimpleNamespace(arrival_time=100.5, first_token_latency=0.25, first_token_ts=7.0, last_token_ts=8.0)


@pytest.fixture
def registry():
    return CollectorRegistry()


def record(registry, **fields) -> None:
    RequestMetrics(registry).record(Observation(CHAT, begin=100.0, end=103.0, status=200, **fields))


def test_a_constrained_answer(registry):
    obtained = Obtained(100.0, 100.125, "compiled", "0" * 64)
    record(registry, kind="json", obtained=obtained, answers=[Finished("stop", 5, STATS)], max_tokens=9)
    value = registry.get_sample_value
    assert value("guided_requests_total", {"route": CHAT, "kind": "json", "outcome": "completed"}) == 1
    assert value("guided_constraint_wait_seconds_sum", {"tier": "compiled"}) == 0.125
    assert (
        value("guided_time_to_first_token_seconds_sum", {"kind": "json"}) == 0.75
    )  # half a second passed before the engine had it
    assert value("guided_inter_token_seconds_sum", {"kind": "json"}) == 0.25
    assert value("guided_request_seconds_sum", {"kind": "json"}) == 3.0
    assert value("guided_truncated_answers_total", {"kind": "json"}) is None
    assert value("guided_budget_bound_answers_total", {"kind": "json"}) is None


def test_answers_that_end_with_their_budget(registry):
    answers = [Finished("length", 9, None), Finished("stop", 9, None), Finished("stop", 8, None)]
    record(registry, kind="regex", answers=answers, max_tokens=9)
    value = registry.get_sample_value
    assert value("guided_requests_total", {"route": CHAT, "kind": "regex", "outcome": "truncated"}) == 1
    assert value("guided_truncated_answers_total", {"kind": "regex"}) == 1
    assert value("guided_budget_bound_answers_total", {"kind": "regex"}) == 1
    assert value("guided_time_to_first_token_seconds_count", {"kind": "regex"}) is None  # the engine kept no times


def test_pressure_where_it_was_measured(registry):
    record(registry, kind="json", answers=[], measured=Measured(mass=[0.5, 0.25], allowed=[3, 1], states=2))
    value = registry.get_sample_value
    assert value("guided_allowed_mass_sum", {"kind": "json"}) == 0.375
    assert value("guided_least_allowed_mass_sum", {"kind": "json"}) == 0.25
    assert value("guided_forced_tokens_total", {"kind": "json"}) == 1


def test_one_token_has_no_time_between(registry):
    record(registry, kind="choice", answers=[Finished("stop", 1, STATS)])
    assert registry.get_sample_value("guided_inter_token_seconds_count", {"kind": "choice"}) is None


def test_refusals_by_code(registry):
    metrics = RequestMetrics(registry)
    metrics.record(Observation(CHAT, status=400, code="unsatisfiable", obtained=Obtained(1.0, 2.0, None, "0" * 64)))
    value = registry.get_sample_value
    assert value("guided_refused_requests_total", {"code": "unsatisfiable"}) == 1
    assert value("guided_requests_total", {"route": CHAT, "kind": "none", "outcome": "refused"}) == 1
    assert not [m for m in registry.collect() if m.name == "guided_constraint_wait_seconds" and m.samples]


def test_an_answer_without_constraint_is_left_to_vllm(registry):
    record(registry)
    assert registry.get_sample_value("guided_request_seconds_count", {"kind": "none"}) is None


def test_the_documentation_lists_every_metric_and_no_other():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(guided_\w+)`", text, re.M))
    series = set().union(*(declared(path) for path in (ROOT / "server").rglob("*.py")))
    assert listed == {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
