"""A stand-in for an OpenTelemetry collector: takes spans over OTLP/HTTP and keeps them."""

from __future__ import annotations

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Listens on a free port of this machine while it is entered."""

    def __init__(self) -> None:
        self._spans: list[Any] = []
        self._arrived = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._keep(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Collector:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def flags(self) -> list[str]:
        """For the server whose spans are wanted."""
        return ["--otlp-traces-endpoint", f"http://127.0.0.1:{self._http.server_port}/v1/traces"]

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def spans_of(self, trace_id: str, count: int, patience_seconds: float = 60) -> list[Any]:
        """The spans of a trace (hex id) once there are so many, or what there is when nobody waits any longer."""
        deadline = time.monotonic() + patience_seconds
        with self._arrived:
            while True:
                found = [span for span in self._spans if span.trace_id.hex() == trace_id]
                left = deadline - time.monotonic()
                if len(found) >= count or left <= 0:
                    return found
                self._arrived.wait(left)

    def _keep(self, request: ExportTraceServiceRequest) -> None:
        spans = [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]
        with self._arrived:
            self._spans += spans
            self._arrived.notify_all()
