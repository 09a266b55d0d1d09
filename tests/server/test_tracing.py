"""Spans of a request: one around it, its stages below, in the trace of the caller; vLLM goes on from there."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from server.observation import Finished, Observation, Obtained
from server.token_times import Times
from server.tracing import Tracing

CHAT = "/v1/chat/completions"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TIMES = Times(
    num_generation_tokens=12,
    arrival_time=100.5,
    queued_ts=7.0,
    scheduled_ts=7.25,
    first_token_ts=8.0,
    last_token_ts=10.0,
)


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("test"))


def trace(tracing, seen: Observation, headers=()) -> dict:
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": list(headers)}
    with tracing.span(scope, seen):
        pass
    return scope


def seconds(span) -> tuple[float, float]:
    return span.start_time / 1e9, span.end_time / 1e9


def test_a_request_and_its_stages(tracing, exporter):
    obtained = Obtained(100.0, 100.125, "redis", "ab" * 32)
    seen = Observation(CHAT, begin=100.0, end=103.5, status=200, kind="json", obtained=obtained)
    seen.answers, seen.times = [Finished("stop", 12)], [TIMES, Times()]
    trace(tracing, seen)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert list(spans) == ["compile", "queue", "prefill", "decode", f"POST {CHAT}"]
    request = spans[f"POST {CHAT}"]
    assert request.kind == SpanKind.SERVER and request.parent is None and seconds(request) == (100.0, 103.5)
    assert request.attributes == {
        "http.route": CHAT,
        "guided.kind": "json",
        "guided.outcome": "completed",
        "http.response.status_code": 200,
        "gen_ai.response.finish_reasons": ("stop",),
    }
    stages = [spans[name] for name in ("compile", "queue", "prefill", "decode")]
    assert {span.parent.span_id for span in stages} == {request.context.span_id}
    assert [seconds(span) for span in stages] == [(100.0, 100.125), (100.5, 100.75), (100.75, 101.5), (101.5, 103.5)]
    assert spans["compile"].attributes == {"guided.digest": "ab" * 32, "guided.cache": "redis"}
    assert spans["decode"].attributes["gen_ai.usage.output_tokens"] == 12


def test_the_caller_s_trace_goes_on_and_vllm_s_span_comes_below(tracing, exporter):
    headers = [(b"traceparent", CALLER.encode()), (b"tracestate", b"vendor=1"), (b"accept", b"*/*")]
    scope = trace(tracing, Observation(CHAT, end=1.0, status=200), headers)
    (span,) = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == CALLER[3:52]
    handed_on = dict(scope["headers"])
    assert handed_on[b"traceparent"].decode() == f"00-{CALLER[3:35]}-{span.context.span_id:016x}-01"
    assert handed_on[b"tracestate"] == b"vendor=1" and handed_on[b"accept"] == b"*/*"


@pytest.mark.parametrize("garbage", [b"", b"00-zz-11-01", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"])
def test_a_caller_s_garbage_begins_a_trace_of_its_own(tracing, exporter, garbage):
    trace(tracing, Observation(CHAT, end=1.0, status=200), [(b"traceparent", garbage)])
    assert exporter.get_finished_spans()[0].parent is None


def test_a_refusal(tracing, exporter):
    seen = Observation(CHAT, end=1.0, status=400, code="unsatisfiable", obtained=Obtained(0.0, 0.5, None, "00"))
    trace(tracing, seen)
    compiled, request = exporter.get_finished_spans()
    assert compiled.attributes["guided.cache"] == "refused"
    assert request.attributes["error.type"] == "unsatisfiable" and request.status.status_code == StatusCode.UNSET


def test_an_error(tracing, exporter):
    trace(tracing, Observation(CHAT, end=1.0, status=500))
    assert exporter.get_finished_spans()[0].status.status_code == StatusCode.ERROR
