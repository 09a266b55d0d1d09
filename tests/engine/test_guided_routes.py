"""Constraints without prompts on a live server: compiled, used by their digest, counted, forgotten."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.live_server import LiveServer

pytestmark = pytest.mark.engine
PATTERN = r"[A-Z]{3}-[0-9]{2,4}"


def post(server: LiveServer, path: str, body: dict) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, timeout=120)


def answer(server: LiveServer, **fields) -> httpx.Response:
    return post(server, "/v1/completions", {"model": server.model, "prompt": "Code:", "max_tokens": 24, **fields})


def test_a_compiled_constraint_is_used_by_its_digest(server):
    found = post(server, "/v1/guided/compile", {"guided_regex": PATTERN}).json()
    assert found["closed"] and found["fewest_tokens"] <= found["typical_tokens"] <= found["most_tokens"]
    text = answer(server, guided_ref=found["digest"]).json()["choices"][0]["text"]
    assert re.fullmatch(PATTERN, text)


def test_what_is_not_known_is_refused(server):
    response = answer(server, guided_ref="0" * 64)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "unknown_reference")


def test_after_a_flush_it_is_compiled_again(server):
    def compiled() -> float:
        text = httpx.get(f"{server.url}/metrics", timeout=30).text
        return float(re.search(r"^guided_compilations_total (\S+)$", text, re.M)[1])

    answer(server, guided_regex=PATTERN)
    before = compiled()
    answer(server, guided_regex=PATTERN)
    assert compiled() == before
    assert post(server, "/v1/guided/cache/flush", {}).json()["removed"]["disk"] >= 1
    assert re.fullmatch(PATTERN, answer(server, guided_regex=PATTERN).json()["choices"][0]["text"])
    assert compiled() == before + 1
