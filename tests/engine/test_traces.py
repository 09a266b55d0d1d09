"""Traces of a live server: one for each request, of its HTTP part and of the engine's, in the trace of the caller."""

from __future__ import annotations

import httpx
import pytest

from tests.live_server import LiveServer
from tests.trace_collector import Collector

pytestmark = pytest.mark.engine

REQUEST, ENGINE = "POST /v1/completions", "llm_request"


@pytest.fixture(scope="module")
def traced(server: LiveServer, collector: Collector):
    if server.process is None:
        pytest.skip("GUIDED_TEST_URL: that server's traces go elsewhere")
    return collector


def post(server: LiveServer, trace_id: str, **body) -> int:
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    body = {"model": server.model, "prompt": "Code:", "max_tokens": 24, **body}
    return httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=120).status_code


def test_a_constrained_request(server, traced):
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    assert post(server, trace_id, guided_regex="[A-Z]{3}-[0-9]{2}") == 200
    spans = {span.name: span for span in traced.spans_of(trace_id, 6)}
    assert set(spans) == {REQUEST, "compile", "queue", "prefill", "decode", ENGINE}
    request = spans.pop(REQUEST)
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert {span.parent_span_id for span in spans.values()} == {request.span_id}
    for span in spans.values():
        assert request.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    assert spans["compile"].end_time_unix_nano <= spans["queue"].start_time_unix_nano
    assert spans["decode"].end_time_unix_nano <= request.end_time_unix_nano


def test_a_refusal_has_no_engine_in_it(server, traced):
    trace_id = "1af7651916cd43dd8448eb211c80319c"
    assert post(server, trace_id, guided_regex="a(?!a)(?=a)") == 400
    assert {span.name for span in traced.spans_of(trace_id, 2)} == {REQUEST, "compile"}


@pytest.mark.parametrize(
    ("trace_id", "fields"),
    [
        ("2af7651916cd43dd8448eb211c80319c", {}),
        ("3af7651916cd43dd8448eb211c80319c", {"guided_regex": "[A-Z]{3}", "guided_decoding_backend": "xgrammar"}),
    ],
    ids=["plain", "xgrammar"],
)
def test_a_request_without_a_constraint_of_ours(server, traced, trace_id, fields):
    assert post(server, trace_id, **fields) == 200
    spans = {span.name: span for span in traced.spans_of(trace_id, 5)}
    assert set(spans) == {REQUEST, "queue", "prefill", "decode", ENGINE}
    assert {spans[name].parent_span_id for name in ("queue", "prefill", "decode")} == {spans[REQUEST].span_id}
