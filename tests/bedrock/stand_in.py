"""A server on this machine that speaks Converse as Bedrock does on the wire: shapes of requests and answers as recorded from it.

boto3 itself is real: it checks what we send by its model of the service, and what it gets back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Scripted = dict[str, Any] | tuple[int, str, str]  # an answer, or status, error type, message


def tool_use(value: Any, stop: str = "tool_use") -> dict[str, Any]:
    """The model calls the tool with `value`."""
    block = {"toolUse": {"toolUseId": "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", "name": "answer", "input": value}}
    return _response([{"text": "I will answer in the form that is asked for."}, block], stop)


def text(value: str, stop: str = "end_turn") -> dict[str, Any]:
    return _response([{"text": value}], stop)


def _response(content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    return {
        "metrics": {"latencyMs": 551},
        "output": {"message": {"content": content, "role": "assistant"}},
        "stopReason": stop,
        "usage": {"inputTokens": 419, "outputTokens": 70, "totalTokens": 489},
    }


class StandIn(ThreadingHTTPServer):
    """Answers with what is in `script`, in order; the last one again and again. Keeps what it was asked.

    `go_on` is set; as long as a test clears it, no answer comes.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Scripted] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []  # model id, body
        self.go_on = threading.Event()
        self.go_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((unquote(self.path.split("/")[2]), body))
        self.server.go_on.wait(60)
        script = self.server.script
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, tuple):
            status, kind, message = answer
            self._send(status, {"message": message}, {"x-amzn-ErrorType": f"{kind}:http://internal.amazon.com/"})
        else:
            self._send(200, answer, {})

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Quiet: the tests look at `asked`."""


@contextmanager
def serving() -> Iterator[StandIn]:
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
