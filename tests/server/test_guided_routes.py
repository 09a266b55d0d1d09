"""The routes for constraints without prompts, and the metrics, on a real compile service."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest

from guided.cache import Disk, Files
from guided.compiler import compile as compile_index
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.limits import Limits
from guided.workers import Pool, PoolOptions
from server.compile_metrics import CompileMetrics
from server.compile_service import CompileService
from server.constraint_middleware import ConstraintMiddleware
from server.routes import guided
from tests.index.test_token_index import VOCABULARY

COMPILE, PLOT, FLUSH = "/v1/guided/compile", "/v1/guided/plot", "/v1/guided/cache/flush"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    pool = Pool(VOCABULARY, PoolOptions(folder, limits=Limits(seconds=2.0, states=5_000), nice=0))
    files = Files.at(folder, VOCABULARY, rebuild=lambda c: writable_network(c, VOCABULARY))
    service = CompileService(VOCABULARY, pool, files, memory_bytes=64 << 20)
    app = FastAPI(on_startup=[service.start], on_shutdown=[service.close])
    app.state.compile_service, app.state.thinking = service, None
    app.include_router(guided.router)
    app.add_middleware(ConstraintMiddleware, compile_service=service)
    with TestClient(app) as client:
        client.service = service
        yield client


def test_compile(client):
    answer = client.post(COMPILE, json={"guided_regex": "[ab]{2,4}"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["digest"] == Constraint.regex("[ab]{2,4}").digest
    assert found["closed"] is True and found["states"] > 3 and found["bytes"] > 0
    assert (found["fewest_tokens"], found["most_tokens"]) == (1, 4)
    assert found["fewest_tokens"] <= found["typical_tokens"] <= found["most_tokens"] < found["max_tokens"] + 1
    assert {"network", "first row", "closing"} <= set(found["seconds"])


def test_every_spelling(client):
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    spellings = [
        {"guided_json": schema},
        {"structured_outputs": {"json": schema}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
    ]
    digests = {client.post(COMPILE, json=body).json()["digest"] for body in spellings}
    assert digests == {Constraint.json_schema(schema).digest}
    assert client.post(COMPILE, json={"guided_ref": digests.pop()}).json()["warnings"] is not None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"model": "x"}', None),
        (b'{"guided_regex": "a(b"}', "guided_regex:2"),
        (b'{"guided_regxe": "a"}', "guided_regxe"),
        (b'{"guided_regex": "a", "whitespace": "any"}', "whitespace"),
        (b'{"guided_regex": "a", "tool_choice": "required"}', "tool_choice"),
        (b'{"guided_regex": "a", "guided_decoding_backend": "xgrammar"}', "guided_decoding_backend"),
    ],
)
def test_refusals(client, body, param):
    answer = client.post(COMPILE, content=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("body", "label"),
    [
        ({"guided_regex": "CVE-[0-9]{4}"}, "CVE-"),
        ({"guided_choice": ["yes", "no"]}, "yes"),
        ({"guided_json": {"properties": {"a": {"type": "boolean"}}, "required": ["a"]}}, '{"a":'),
        ({"guided_grammar": 'start: "(" start ")" | "x"'}, "x"),
    ],
)
def test_plot(client, body, label):
    answer = client.post(PLOT, json=body)
    assert answer.headers["content-type"] == "image/svg+xml"
    picture = ElementTree.fromstring(answer.text)
    assert sum(element.tag.endswith("circle") for element in picture.iter()) >= 2
    assert any(label in "".join(element.itertext()) for element in picture.iter() if element.tag.endswith("text"))


def test_a_large_picture_is_cut(client):
    answer = client.post(PLOT, json={"guided_regex": "(?=.*[0-9])(?=.*[a-z])[0-9a-zA-Z]{8,40}"})
    assert "dashed circles stand for the rest" in answer.text
    assert len(answer.content) < 200_000


def test_a_picture_of_what_is_refused(client):
    answer = client.post(PLOT, json={"guided_regex": "a(b"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "guided_regex:2")


def test_flush_and_metrics(client):
    registry = CollectorRegistry()
    registry.register(CompileMetrics(client.service))

    def metric(name: str) -> float:
        text = generate_latest(registry).decode()
        return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    client.post(COMPILE, json={"guided_choice": ["metric"]})
    before, hits = metric("guided_compilations_total"), metric('guided_cache_hits_total{tier="memory"}')
    client.post(COMPILE, json={"guided_choice": ["metric"]})
    assert metric('guided_cache_hits_total{tier="memory"}') > hits
    assert metric("guided_cache_entries") >= 1 and metric('guided_cache_bytes{tier="memory"}') > 0
    assert client.post(FLUSH, json={"tier": "memory"}).json()["error"]["code"] == "unknown_parameter"
    removed = client.post(FLUSH).json()["removed"]
    assert removed["memory"] >= 1 and removed["disk"] >= 1
    assert client.post(FLUSH, json={}).json()["removed"]["memory"] == 0
    assert metric("guided_cache_entries") == 0
    assert metric('guided_cache_bytes{tier="disk"}') == 0
    client.post(COMPILE, json={"guided_choice": ["metric"]})
    assert metric("guided_compilations_total") == before + 1


def test_a_warm_restart_knows_what_is_on_disk(tmp_path):
    constraint = Constraint.choice(["restart"])
    disk = Disk(tmp_path, VOCABULARY)
    disk.save(compile_index(constraint, VOCABULARY), constraint)
    registry = CollectorRegistry()
    service = CompileService(
        VOCABULARY,
        Pool(VOCABULARY, PoolOptions(tmp_path, nice=0)),
        Files.at(tmp_path, VOCABULARY),
        memory_bytes=1 << 20,
    )
    registry.register(CompileMetrics(service))
    assert 'guided_cache_bytes{tier="disk"}' not in generate_latest(registry).decode(), "0 would be a lie"

    async def start() -> None:
        await service.start()
        await service.close()

    asyncio.run(start())
    assert registry.get_sample_value("guided_cache_bytes", {"tier": "disk"}) >= 4096
    assert registry.get_sample_value("guided_cache_age_seconds", {"tier": "disk"}) >= 0
