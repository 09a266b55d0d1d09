"""The report gets into what vLLM answers, and nothing else of it changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from guided.vllm_adapters.reports import Measured
from server.errors import RequestRefused
from server.observation import Observation, Obtained
from server.report import Report, refuse_several_answers, reporting

MEASURED = Measured(mass=[0.5, 0.25, 1.0], allowed=[9, 1, 1], states=4)


def made(tokens: int | None = None, measured: Measured | None = None) -> Report:
    seen = Observation("/v1/completions", obtained=Obtained(100.0, 100.0125, "disk", "abc"), measured=measured)
    return Report(seen, tokens)


def sent(report: Report, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def run() -> None:
        async def send(message: Any) -> None:
            found.append(message)

        through = reporting(send, report)
        for message in messages:
            await through(message)

    asyncio.run(run())
    return found


def start(kind: str, status: int = 200, **headers: str) -> dict[str, Any]:
    pairs = [(b"content-type", kind.encode()), *((k.encode(), v.encode()) for k, v in headers.items())]
    return {"type": "http.response.start", "status": status, "headers": pairs}


def body(content: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.fixture
def report() -> Report:
    return made(3, MEASURED)


def test_a_json_response_has_it_beside_its_own_fields(report):
    first, second = sent(
        report, [start("application/json", **{"content-length": "14"}), body(b'{"ch', True), body(b'oices":[]}')]
    )
    answer = json.loads(second["body"])
    assert answer["choices"] == []
    assert answer["guided"] == {
        "constraint": "abc", "cache": "disk", "compile_ms": 12.5, "tokens": 3, "states": 4, "forced_tokens": 2,
        "mass": {"mean": pytest.approx(0.58333, rel=1e-4), "min": 0.25}, "token_mass": [0.5, 0.25, 1.0], "token_allowed": [9, 1, 1],
    }  # fmt: skip
    assert dict(first["headers"])[b"content-length"] == str(len(second["body"])).encode()


def test_a_stream_has_it_where_it_says_how_the_answer_finished(report):
    going_on = b'data: {"choices":[{"delta":{"content":"\xc3\xa4"},"finish_reason":null}]}\n\n'
    last = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    rest = [b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n', b"data: [DONE]\n\n"]
    chunks = [going_on, last, *rest]
    _, *found = sent(report, [start("text/event-stream; charset=utf-8"), *(body(chunk, True) for chunk in chunks)])
    assert [message["body"] for message in found if b'"guided"' not in message["body"]] == [going_on, *rest]
    event = json.loads(found[1]["body"].removeprefix(b"data: "))
    assert event["guided"]["tokens"] == 3 and event["choices"][0]["finish_reason"] == "stop"
    assert found[1]["body"].endswith(b"}\n\n")


def test_the_responses_api_has_it_in_the_response(report):
    event = b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r"}}\n\n'
    _, found = sent(report, [start("text/event-stream"), body(event)])
    name, data = found["body"].decode().split("\n")[:2]
    assert name == "event: response.completed"
    assert json.loads(data.removeprefix("data: "))["response"]["guided"]["cache"] == "disk"


@pytest.mark.parametrize("messages", [
    [start("application/json", 400), body(b'{"error":{}}')],
    [start("text/event-stream"), body(b"data: [DONE]\n\n"), body(b": comment\n\n")],
])  # fmt: skip
def test_errors_and_other_events_pass_as_they_are(report, messages):
    assert sent(report, messages) == messages


def test_without_an_answer_there_is_nothing_to_report():
    messages = [start("application/json", **{"content-length": "13"}), body(b'{"choices":1}')]
    assert sent(made(), messages) == messages


def test_a_worker_that_cannot_tell_leaves_the_rest():
    found = made(tokens=2).body()
    assert found["tokens"] == 2
    assert [found[name] for name in ("states", "forced_tokens", "mass", "token_mass", "token_allowed")] == [None] * 5


@pytest.mark.parametrize(
    ("request_body", "field"), [({"n": 2}, "n"), ({"prompt": ["a", "b"]}, "prompt"), ({"prompt": [[1], [2]]}, "prompt")]
)
def test_several_answers_are_refused(request_body, field):
    with pytest.raises(RequestRefused) as refused:
        refuse_several_answers(request_body)
    assert refused.value.param == field


@pytest.mark.parametrize(
    "request_body", [{}, {"n": None}, {"n": 1, "prompt": "a"}, {"prompt": ["a"]}, {"prompt": [1, 2, 3]}]
)
def test_one_answer_passes(request_body):
    refuse_several_answers(request_body)
