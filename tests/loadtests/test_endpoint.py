"""What the load tests ask of an endpoint: its key, and metrics that are there."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from loadtests import by_kind, disconnects, mixed, openapi
from loadtests.requests import calm, metric, samples, stream
from tests.live_server import LiveServer

KEY = "sk-0123456789abcdef"
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
guided_cache_bytes{tier="memory"} 5.0
guided_cache_bytes{tier="disk"} 7.0
guided_compile_busy 0.0
guided_compile_queue 0.0
"""


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """No automaton runs here: overrides the fixture that compiles for them."""


class Endpoint(BaseHTTPRequestHandler):
    """Wants a key for all of the API; /elsewhere has the metrics, /metrics has none, as with an admin port."""

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.answer(200, METRICS)
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self.answer(401, '{"error": {"message": "no key"}}')
        elif self.path == "/v1/models":
            self.answer(200, '{"data": [{"id": "m"}]}')
        elif self.path == "/openapi.json":
            self.answer(200, json.dumps({"paths": {"/a": {"post": {"requestBody": {}}}}}))
        else:
            self.answer(404, "{}")

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        model = json.loads(self.rfile.read(length))["model"]
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self.answer(401, '{"error": {"message": "no key"}}')
            return
        choice = {"text": model, "finish_reason": "stop"}
        self.answer(200, f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def ask(server: LiveServer):
    async with httpx.AsyncClient() as client:
        return await stream(client, server, max_tokens=1)


def test_every_way_to_ask_sends_the_key(url, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    server = LiveServer.at(f"{url}/")
    assert (server.url, server.model) == (url, "m")
    assert server.client.models.list().data[0].id == "m"
    answer = asyncio.run(ask(server))
    assert (answer.status, answer.text, answer.finished) == (200, "m", True)
    assert openapi.operations(url) == 1


def test_without_a_key_the_status_says_why(url, monkeypatch):
    monkeypatch.delenv("API_KEY", raising=False)
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        LiveServer.at(url)
    assert asyncio.run(ask(LiveServer(url, "m"))).status == 401


def test_metrics_that_are_not_there_are_not_zero(url, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    with pytest.raises(LookupError, match=r"404.*--metrics-url"):
        metric(LiveServer.at(url), "vllm:num_requests_running")
    with pytest.raises(LookupError, match="404"):
        asyncio.run(calm(LiveServer.at(url)))
    server = LiveServer.at(url, f"{url}/elsewhere")
    assert metric(server, "vllm:num_requests_running") == 4
    assert metric(server, "vllm:num_requests_running", 'guided_cache_bytes{tier="disk"}') == 11
    assert asyncio.run(calm(server)) < 60
    with pytest.raises(LookupError, match="guided_compilations_total"):
        metric(server, "guided_compilations_total")


def test_samples_of_one_metric():
    assert samples(METRICS, "vllm:num_requests_running") == [3.0, 1.0]
    assert samples(METRICS, "guided_cache_bytes") == [5.0, 7.0]
    assert samples(METRICS, 'guided_cache_bytes{tier="memory"}') == [5.0]
    with pytest.raises(LookupError):
        samples(METRICS, "guided_cache")


@pytest.mark.parametrize("test", [by_kind, mixed])
def test_a_server_that_drops_constraints_does_not_pass(url, test, monkeypatch, capsys):
    """This one answers "m" whatever the constraint, as `vllm serve` would to fields that it does not know."""
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setattr("sys.argv", ["", "--url", url, "--rounds", "1", "--streams", "4"])
    with pytest.raises(SystemExit) as end:
        test.main()
    assert end.value.code == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    if test is mixed:
        assert (last["wrong"], last["failed"]) == (3, 0)  # choice in both batches that have guided streams, json in one
    else:
        assert {kind: f["wrong"] for kind, f in last["kinds"].items()} == {
            "plain": 0,
            "choice": 4,
            "regex": 0,
            "json": 4,
            "grammar": 0,
        }


def test_disconnects_need_metrics_that_show_something(url, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setattr("sys.argv", ["", "--url", url])
    with pytest.raises(LookupError, match=r"404.*--metrics-url"):
        disconnects.main()
