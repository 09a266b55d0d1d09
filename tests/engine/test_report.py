"""`guided_options.report`: what the response tells of the constraint and of its masks."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.engine.requests import curl
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine

PATTERN = "(yes|no): [0-9]{4}"


def asked(server: LiveServer, **fields: Any) -> dict[str, Any]:
    options = {"report": True, **fields.pop("guided_options", {})}
    body = {"model": server.model, "guided_regex": PATTERN, "guided_options": options, "max_tokens": 40, **fields}
    return body | ({} if "prompt" in fields else {"messages": [{"role": "user", "content": "Is 1 odd?"}]})


def check(report: dict[str, Any], tokens: int) -> None:
    """`tokens`: of the answer, by the usage of the response."""
    assert report["tokens"] == len(report["token_mass"]) == len(report["token_allowed"]) == tokens
    assert all(0 <= mass <= 1 for mass in report["token_mass"])
    assert report["mass"]["min"] == pytest.approx(min(report["token_mass"]), rel=1e-3)
    assert report["token_allowed"][-1] == 1, "the stop token alone"
    assert 1 <= report["forced_tokens"] <= tokens
    assert 2 <= report["states"] <= tokens
    assert report["cache"] in ("memory", "disk", "compiled") and report["compile_ms"] > 0


@pytest.mark.parametrize("fields", [{}, {"prompt": "Is 1 odd?"}], ids=["chat", "text"])
def test_a_whole_response_has_it(server, fields):
    path = "/v1/completions" if fields else "/v1/chat/completions"
    status, text = curl(server, path, asked(server, **fields))
    answer = json.loads(text)
    assert status == 200, text
    check(answer["guided"], answer["usage"]["completion_tokens"])
    status, text = curl(server, path, asked(server, **fields))
    assert json.loads(text)["guided"]["cache"] == "memory"


def test_the_last_chunk_of_a_stream_has_it(server):
    body = asked(server, stream=True, stream_options={"include_usage": True})
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=300).text
    events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
    (told,) = [event for event in events if "guided" in event]
    assert told["choices"][0]["finish_reason"] == "stop"
    check(told["guided"], events[-1]["usage"]["completion_tokens"])


def test_a_response_that_was_not_asked_to_tell_has_none(server):
    status, text = curl(server, "/v1/chat/completions", asked(server, guided_options={"report": False}))
    assert status == 200 and "guided" not in json.loads(text)


def test_it_is_of_one_answer(server):
    status, text = curl(server, "/v1/chat/completions", asked(server, n=2))
    assert (status, json.loads(text)["error"]["param"]) == (400, "n")
