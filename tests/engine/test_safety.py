"""Keys, ports, ids, clients that leave, and the end of a server that is told to end, on a server of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time

import httpx
import pytest

from tests.live_server import LiveServer, free_port

pytestmark = pytest.mark.engine
KEY, ADMIN_KEY, VLLM_KEY = "sk-team-0123456789", "sk-admin-0123456789", "sk-vllm"
TEAM = {"Authorization": f"Bearer {KEY}"}
PROMPT = "the secret word is heliotrope"


@pytest.fixture(scope="module")
def admin_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def closed(model_folder, tmp_path_factory, admin_port):
    environment = {
        "GUIDED_API_KEYS": f"team={KEY}",
        "GUIDED_ADMIN_KEYS": f"operator={ADMIN_KEY}",
        "GUIDED_ADMIN_PORT": str(admin_port),
        "GUIDED_LOG_FORMAT": "json",
        "GUIDED_BODY_BYTES": "100000",
    }
    log = tmp_path_factory.mktemp("closed") / "server.log"
    flags = ["--api-key", VLLM_KEY, "--shutdown-timeout", "60"]
    with LiveServer.started(model_folder, log, flags, environment) as live:
        yield live


def post(server: LiveServer, path: str, body: dict | str, headers: dict[str, str] | None = TEAM) -> httpx.Response:
    content = body if isinstance(body, str) else json.dumps({"model": server.model, **body})
    headers = {"Content-Type": "application/json", **(headers or {})}
    return httpx.post(server.url + path, content=content, headers=headers, timeout=120)


def metric(port: int, name: str) -> float:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.M))


def until(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("waited a minute in vain")


@pytest.mark.parametrize("path", ["/v1/completions", "/invocations", "/tokenize", "/v1/guided/compile"])
def test_nothing_is_generated_or_revealed_without_a_key(closed, path):
    body = {"prompt": "x", "max_tokens": 1}
    refused = post(closed, path, body, headers=None)
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "missing_api_key"
    assert post(closed, path, body, {"Authorization": "Bearer nonsense"}).status_code == 401


def test_every_kind_of_key_opens_the_api(closed):
    for key in (KEY, ADMIN_KEY, VLLM_KEY):
        answer = post(closed, "/v1/completions", {"prompt": "x", "max_tokens": 1}, {"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
    for path in ("/docs", "/openapi.json", "/version", "/v1/models"):
        assert httpx.get(closed.url + path).status_code == 401
        assert httpx.get(closed.url + path, headers=TEAM).status_code == 200


def test_the_documentation_is_drawn_without_another_server(closed):
    page = httpx.get(closed.url + "/docs", headers=TEAM).text
    used = re.findall(r'(?:src|href)="([^"]+\.(?:js|css))"', page)
    assert len(used) == 2
    for path in used:
        assert path.startswith("/") and httpx.get(closed.url + path).status_code == 200


def test_probes_need_none_and_operators_have_a_port(closed, admin_port):
    for path in ("/health", "/ready"):
        assert httpx.get(closed.url + path).status_code == 200
    assert httpx.get(closed.url + "/metrics", headers=TEAM).status_code == 404
    until(lambda: metric(admin_port, "guided_compile_busy") == 0)  # with what the last server was asked for
    flush = f"http://127.0.0.1:{admin_port}/v1/guided/cache/flush"
    assert httpx.post(flush, headers=TEAM).status_code == 403
    assert httpx.post(flush, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=60).status_code == 200


def test_one_id_in_the_answer_the_headers_and_the_log(closed):
    answer = post(closed, "/v1/completions", {"prompt": PROMPT, "max_tokens": 1}, {**TEAM, "X-Request-Id": "trace-77"})
    assert answer.headers["x-request-id"] == "trace-77"
    assert "trace-77" in answer.json()["id"]
    records = [json.loads(line) for line in closed.log.read_text().splitlines() if line.startswith("{")]
    assert any(r.get("request_id") == "trace-77" and r["caller"] == "team" and r["code"] == "-" for r in records)
    assert any(r.get("code") == "missing_api_key" and " 401" in r["message"] for r in records)
    assert "heliotrope" not in closed.log.read_text()
    assert KEY not in closed.log.read_text() and VLLM_KEY not in closed.log.read_text()


def test_bodies_that_are_too_large_or_too_deep(closed):
    large = post(closed, "/v1/completions", {"prompt": "x" * 100_000})
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    deep = post(closed, "/tokenize", '{"messages": ' + "[" * 600 + "]" * 600 + "}")
    assert deep.status_code == 400 and "512 levels" in deep.json()["error"]["message"]


def test_browsers_of_other_origins_are_not_let_in(closed):
    preflight = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    answer = httpx.options(closed.url + "/v1/completions", headers=preflight)
    assert answer.status_code >= 400 and "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_leaves_ends_its_generation(closed, admin_port, stream):
    until(lambda: metric(admin_port, "vllm:num_requests_running") == 0)
    body = {"prompt": PROMPT, "max_tokens": 3000, "stream": stream, "guided_regex": "[a-z ]{2500,3000}"}

    async def leave() -> None:
        """Closes the connection as soon as the engine works on the answer."""
        async with httpx.AsyncClient(headers=TEAM, timeout=120) as client:
            asking = asyncio.create_task(
                client.post(closed.url + "/v1/completions", json={"model": closed.model, **body})
            )
            await asyncio.to_thread(until, lambda: metric(admin_port, "vllm:num_requests_running") == 1)
            assert not asking.done()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(leave())
    until(lambda: metric(admin_port, "vllm:num_requests_running") == 0)


def test_the_end_waits_for_a_stream_and_takes_nothing_new(closed):
    """The last one for this server, which gets the Ctrl-C of a terminal: so do the engine's processes."""
    body = {"prompt": PROMPT, "stream": True, "max_tokens": 120, "guided_regex": "[a-z ]{100,110}"}
    text = ""
    url = closed.url + "/v1/completions"
    with httpx.stream("POST", url, json={"model": closed.model, **body}, headers=TEAM, timeout=120) as response:
        events = response.iter_lines()
        next(events)
        os.killpg(closed.process.pid, signal.SIGINT)
        until(lambda: httpx.get(closed.url + "/ready").status_code == 503)
        refused = post(closed, "/v1/completions", {"prompt": "x", "max_tokens": 1})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert "retry-after" in refused.headers
        for event in events:
            if event.startswith("data: {"):
                text += json.loads(event[6:])["choices"][0]["text"]
    assert re.fullmatch(r"[a-z ]{90,110}", text), text  # the first event was read before
    assert closed.process.wait(60) == 0
