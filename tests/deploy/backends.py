"""Small HTTP servers that stand for model pods: they answer with their name and keep what they were asked."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import inet_aton
from typing import Any, TypeVar

Server = TypeVar("Server", bound=socketserver.BaseServer)


class Backend(ThreadingHTTPServer):
    """Answers every POST with a chat completion whose content is `answer`, every GET with 200.

    The first `busy` POSTs get a 503 to ask again at once. With `hangs_up` it reads a POST and closes the connection without a byte, as a
    process does that dies while it generates.
    """

    daemon_threads = True

    def __init__(
        self, answer: str, address: tuple[str, int] = ("127.0.0.1", 0), *, hangs_up: bool = False, busy: int = 0
    ) -> None:
        super().__init__(address, _Handler)
        self.answer = answer
        self.hangs_up = hangs_up
        self.busy = busy
        self.asked: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(json.loads(body))
        if self.server.hangs_up:
            self.close_connection = True
            return
        if self.server.busy >= len(self.server.asked):
            self._reply({}, 503)
            return
        self._reply({"choices": [{"message": {"content": self.server.answer}}]})

    def _reply(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet: the tests look at `asked`."""


class NameServer(socketserver.ThreadingUDPServer):
    """Answers every question for an IPv4 address with `addresses`, as a headless service does; others with nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Question)
        self.addresses: list[str] = []
        self.names: set[str] = set()


class _Question(socketserver.BaseRequestHandler):
    server: NameServer

    def handle(self) -> None:
        data, socket = self.request
        labels, at = [], 12
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question = data[12 : at + 5]
        is_ipv4 = question[-4:-2] == b"\0\1"
        self.server.names.add(".".join(labels))
        answers = [b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + inet_aton(a) for a in self.server.addresses if is_ipv4]
        head = data[:2] + b"\x84\0\0\1" + len(answers).to_bytes(2, "big") + b"\0\0\0\0"
        socket.sendto(head + question + b"".join(answers), self.client_address)


@contextmanager
def serving(backend: Server) -> Iterator[Server]:
    thread = threading.Thread(target=backend.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        backend.shutdown()
        backend.server_close()
        thread.join()
