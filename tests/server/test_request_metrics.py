"""Observations become the metrics that docs/metrics.md lists, and no others."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry

from guided.vllm_adapters.reports import Measured
from server.observation import BOUNDS, Finished, Gaps, Observation, Obtained
from server.request_metrics import RequestMetrics
from server.token_times import Times
from tests.deploy.test_monitoring import declared
from tests.deploy.tools import ROOT

CHAT = "/v1/chat/completions"
TIMES = Times(num_generation_tokens=5, arrival_time=100.5, first_token_latency=0.25)


@pytest.fixture
def registry():
    return CollectorRegistry()


def record(registry, **fields) -> None:
    RequestMetrics(registry).record(Observation(CHAT, begin=100.0, end=103.0, status=200, **fields))


def gaps(*seconds: float) -> Gaps:
    made = Gaps()
    for one in seconds:
        made.count(one)
    return made


def test_a_constrained_answer(registry):
    obtained = Obtained(100.0, 100.125, "compiled", "0" * 64)
    answered = {"answers": [Finished("stop", 5)], "times": [TIMES], "gaps": gaps(0.25, 0.5, 0.125), "generated": True}
    record(registry, kind="json", obtained=obtained, max_tokens=9, **answered)
    value, labels = registry.get_sample_value, {"route": CHAT, "kind": "json"}
    assert value("guided_requests_total", {"route": CHAT, "kind": "json", "outcome": "completed"}) == 1
    assert value("guided_constraint_wait_seconds_sum", {"tier": "compiled"}) == 0.125
    assert value("guided_time_to_first_token_seconds_sum", labels) == 0.75, "half a second before the engine had it"
    assert value("guided_inter_token_seconds_sum", labels) == 0.875
    assert value("guided_request_seconds_sum", labels) == 3.0
    assert value("guided_truncated_answers_total", {"kind": "json"}) is None
    assert value("guided_budget_bound_answers_total", {"kind": "json"}) is None


def test_answers_that_end_with_their_budget(registry):
    answers = [Finished("length", 9), Finished("stop", 9), Finished("stop", 8)]
    record(registry, kind="regex", answers=answers, max_tokens=9)
    value = registry.get_sample_value
    assert value("guided_requests_total", {"route": CHAT, "kind": "regex", "outcome": "truncated"}) == 1
    assert value("guided_truncated_answers_total", {"kind": "regex"}) == 1
    assert value("guided_budget_bound_answers_total", {"kind": "regex"}) == 1
    assert not value("guided_time_to_first_token_seconds_count", {"route": CHAT, "kind": "regex"}), (
        "the engine kept no times"
    )


def test_pressure_where_it_was_measured(registry):
    record(registry, kind="json", answers=[], measured=Measured(mass=[0.5, 0.25], allowed=[3, 1], states=2))
    value = registry.get_sample_value
    assert value("guided_allowed_mass_sum", {"kind": "json"}) == 0.375
    assert value("guided_least_allowed_mass_sum", {"kind": "json"}) == 0.25
    assert value("guided_forced_tokens_total", {"kind": "json"}) == 1


def test_each_time_between_tokens_is_in_its_bucket(registry):
    metrics = RequestMetrics(registry)
    for times in ((0.001, 0.0011, 99.0), (0.04,), ()):
        metrics.record(Observation(CHAT, status=200, kind="choice", gaps=gaps(*times)))
    metrics.record(Observation("/v1/completions", status=200, kind="choice", gaps=gaps(0.04)))
    labels = {"route": CHAT, "kind": "choice"}
    found = [registry.get_sample_value("guided_inter_token_seconds_bucket", {**labels, "le": str(b)}) for b in BOUNDS]
    assert found == [1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]
    assert registry.get_sample_value("guided_inter_token_seconds_count", labels) == 4


def test_an_answer_that_goes_on_had_its_first_token_before(registry):
    times = [TIMES, Times(num_generation_tokens=3, arrival_time=102.0, goes_on=True), Times(arrival_time=100.5)]
    record(registry, kind="json", times=times)
    assert registry.get_sample_value("guided_time_to_first_token_seconds_count", {"route": CHAT, "kind": "json"}) == 1


def test_refusals_by_code(registry):
    metrics = RequestMetrics(registry)
    metrics.record(Observation(CHAT, status=400, code="unsatisfiable", obtained=Obtained(1.0, 2.0, None, "0" * 64)))
    value = registry.get_sample_value
    assert value("guided_refused_requests_total", {"code": "unsatisfiable"}) == 1
    assert value("guided_requests_total", {"route": CHAT, "kind": "none", "outcome": "refused"}) == 1
    assert not [m for m in registry.collect() if m.name == "guided_constraint_wait_seconds" and m.samples]


@pytest.mark.parametrize("kind", ["none", "vllm"])
def test_an_answer_without_a_constraint_of_ours(registry, kind):
    record(registry, kind=kind, answers=[Finished("length", 5)], times=[TIMES], gaps=gaps(0.5), generated=True)
    value, labels = registry.get_sample_value, {"route": CHAT, "kind": kind}
    names = ("guided_time_to_first_token_seconds", "guided_inter_token_seconds", "guided_request_seconds")
    assert [value(f"{name}_count", labels) for name in names] == [1, 1, 1]
    assert value("guided_requests_total", {**labels, "outcome": "truncated"}) == 1
    assert value("guided_truncated_answers_total", {"kind": kind}) == (1 if kind == "vllm" else None)


@pytest.mark.parametrize(
    "fields", [{"generated": False}, {"generated": True, "left": True}, {"generated": True, "broke": True}]
)
def test_what_was_not_answered_or_generates_nothing_has_no_time(registry, fields):
    record(registry, **fields)
    assert registry.get_sample_value("guided_request_seconds_count", {"route": CHAT, "kind": "none"}) is None


def test_the_documentation_lists_every_metric_and_no_other():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(guided_\w+)`", text, re.M))
    series = set().union(*(declared(path) for path in (ROOT / "server").rglob("*.py")))
    assert listed == {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
