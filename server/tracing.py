"""In: a request and its observation; out: OpenTelemetry spans, where vLLM exports its own. Configures nothing.

vLLM sets up export and sampling (`--otlp-traces-endpoint`, OTEL_* variables) and writes one span for each request to its engine, without
the compilation before it. Here each HTTP request gets a span around that, with what happened as its children:

    POST /v1/chat/completions
        compile, queue, prefill, decode
        llm_request (vLLM's own)

The trace of the caller, if there is one (`traceparent`), is continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from server.observation import FAILED, Observation

if TYPE_CHECKING:
    from server.token_times import Times

_PROPAGATOR = TraceContextTextMapPropagator()
_NONE: Mapping[str, str | int] = {}
_HEADERS = (b"traceparent", b"tracestate")


class Tracing:
    """Spans of requests, by a tracer of the provider that vLLM has set up."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def span(self, scope: Scope, seen: Observation) -> Iterator[None]:
        """For the time of the request. vLLM finds this span in the request's headers and goes on from there."""
        span = self._tracer.start_span(
            f"{scope['method']} {seen.route}", _caller(scope), SpanKind.SERVER, start_time=_ns(seen.begin)
        )
        _hand_on(scope, trace.set_span_in_context(span))
        try:
            yield
        finally:
            self._describe(span, seen)
            span.end(_ns(seen.end))

    def _describe(self, span: Span, seen: Observation) -> None:
        within = trace.set_span_in_context(span)
        span.set_attributes({"http.route": seen.route, "guided.kind": seen.kind, "guided.outcome": seen.outcome})
        if seen.status:
            span.set_attribute("http.response.status_code", seen.status)
        if seen.code is not None:
            span.set_attribute("error.type", seen.code)
        if seen.outcome == FAILED:
            span.set_status(Status(StatusCode.ERROR))
        if seen.obtained is not None:
            attributes = {"guided.digest": seen.obtained.digest, "guided.cache": seen.obtained.tier or "refused"}
            self._child("compile", within, seen.obtained.begin, seen.obtained.end, attributes)
        if seen.answers:
            span.set_attribute("gen_ai.response.finish_reasons", [answer.reason for answer in seen.answers])
        for times in seen.times:
            if times.num_generation_tokens:
                self._engine(times, within)

    def _engine(self, times: Times, within: Context) -> None:
        """The engine's clock may be another host's, so only its intervals are used, one after the other from the arrival there."""
        attributes = {"gen_ai.usage.output_tokens": times.num_generation_tokens}
        begin = times.arrival_time
        moments = (times.queued_ts, times.scheduled_ts, times.first_token_ts, times.last_token_ts)
        for name, since, until in zip(("queue", "prefill", "decode"), moments, moments[1:], strict=False):
            end = begin + until - since
            self._child(name, within, begin, end, attributes if name == "decode" else _NONE)
            begin = end

    def _child(self, name: str, within: Context, begin: float, end: float, attributes: Mapping[str, str | int]) -> None:
        """A span of the past, Unix times in seconds."""
        self._tracer.start_span(name, within, start_time=_ns(begin), attributes=attributes).end(_ns(end))


def _caller(scope: Scope) -> Context:
    found = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _HEADERS}
    return _PROPAGATOR.extract(found, Context())


def _hand_on(scope: Scope, context: Context) -> None:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    rest = [(name, value) for name, value in scope["headers"] if name not in _HEADERS]
    scope["headers"] = [*rest, *((name.encode(), value.encode("latin-1")) for name, value in carrier.items())]


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
