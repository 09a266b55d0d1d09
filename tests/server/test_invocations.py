"""`/invocations` through the whole application: what the other name of chat and completions promises, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.live_server import LiveServer

CHAT = {"messages": [{"role": "user", "content": "x"}]}
TEXT = {"prompt": "x"}
CHOICES = ["alpha", "beta"]


def ask(gateway: LiveServer, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{gateway.url}/invocations", json={"model": gateway.model, **body}, timeout=60)


@pytest.mark.parametrize("body", [CHAT, TEXT], ids=["chat", "completions"])
def test_constraints_hold(gateway, body):
    answer = ask(gateway, {**body, "max_tokens": 20, "guided_choice": CHOICES})
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    assert (choice.get("text") or choice["message"]["content"]) in CHOICES


def test_constraints_hold_in_a_stream(gateway):
    answer = ask(gateway, {**CHAT, "max_tokens": 20, "stream": True, "guided_choice": CHOICES})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) in CHOICES


@pytest.mark.parametrize("body", [CHAT, TEXT], ids=["chat", "completions"])
@pytest.mark.parametrize(
    ("field", "code"),
    [("temprature", "unknown_parameter"), ("best_of", "unsupported_parameter"), ("guided_jsn", "invalid_constraint")],
)
def test_what_nobody_would_read_is_refused(gateway, body, field, code):
    answer = ask(gateway, {**body, field: 3})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert answer.json()["error"]["param"] == field


def test_what_is_neither_of_the_two_enforces_nothing(gateway):
    assert ask(gateway, {"input": "x", "guided_choice": CHOICES}).json()["error"]["code"] == "not_enforced"
    assert ask(gateway, {"input": "x"}).status_code == 400
