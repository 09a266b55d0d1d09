"""What else a request may ask for beside its constraint: filters, stop strings, log probabilities, a marker that comes first, abort."""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from typing import Any

import httpx
import pytest

from tests.engine.cases import CHOICE, JSON_TEXT, REGEX, SENTIMENTS
from tests.engine.requests import chat, complete, curl, together
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine


def test_a_stop_string_never_cuts_an_answer(server):
    fields = {"guided_choice": ["POSITIVE", "NEGATIVE", "GOOD"], "stop": ["E", "O!"]}
    assert chat(server, CHOICE.prompt, extra_body=fields).text == "GOOD"
    answer = complete(
        server, CHOICE.prompt, stream=True, extra_body={"guided_regex": "[a-z]{3}(\n[a-z]{3}){0,3}", "stop": "\n"}
    )
    assert re.fullmatch("[a-z]{3}", answer.text) and answer.finish_reason == "stop"
    answer = complete(
        server, JSON_TEXT, temperature=1.0, seed=1, max_tokens=100, stop=["\n", "ei"], extra_body=JSON_TEXT.fields
    )
    assert json.loads(answer.text)["unit"] == "celsius"


def test_the_constraint_starts_after_a_marker(server):
    """Anything comes before it, and the budget covers both."""
    fields = {**REGEX.fields, "guided_options": {"after": "###"}}

    def check(asked: tuple[int, bool]) -> None:
        seed, stream = asked
        options = {"temperature": 1.0, "seed": seed, "max_tokens": 40, "extra_body": fields}
        _, marker, answer = chat(server, REGEX, stream=stream, **options).text.partition("###")
        assert marker
        REGEX.check(answer)

    together(check, itertools.product(range(4), (False, True)))


def finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def strict_json(text: str) -> object:
    """As JSON's grammar says: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_log_probabilities_are_numbers(server):
    """Five alternatives where the constraint leaves one or two: the others are not -inf."""
    body = {"model": server.model, "prompt": CHOICE.prompt, "logprobs": 5, **CHOICE.fields}
    status, answer = curl(server, "/v1/completions", body)
    assert status == 200, answer
    found = strict_json(answer)
    assert finite(found)
    chat_body = {
        "model": server.model,
        "messages": CHOICE.messages,
        "logprobs": True,
        "top_logprobs": 5,
        **CHOICE.fields,
    }
    status, answer = curl(server, "/v1/chat/completions", chat_body)
    assert status == 200, answer
    assert finite(strict_json(answer))


def test_other_filters_leave_the_constraint_alone(server):
    """`min_tokens` beyond the longest answer included: it ends after the value."""
    filters = [
        {"logit_bias": {"41": 100.0, "5": 50.0}},
        {"min_p": 0.9, "temperature": 1.5},
        {"top_k": 1, "top_p": 0.1, "temperature": 1.5},
        {"repetition_penalty": 1.9, "presence_penalty": 2.0, "frequency_penalty": 2.0},
        {"bad_words": ["NEG", "NE"]},
        {"min_tokens": 12},
        {"stop_token_ids": [0, 1]},
        {"seed": 3, "n": 2, "temperature": 1.0},
        {"truncate_prompt_tokens": 5},
    ]

    def check(options: dict[str, Any]) -> None:
        body = {"model": server.model, "prompt": CHOICE.text, "max_tokens": 16, **CHOICE.fields, **options}
        status, answer = curl(server, "/v1/completions", body)
        assert status == 200, answer
        for choice in json.loads(answer)["choices"]:
            assert choice["text"] in SENTIMENTS and choice["finish_reason"] == "stop", choice

    together(check, filters)


@pytest.mark.parametrize(
    "filters", [{"allowed_token_ids": [5]}, {"bad_words": ["P", "PO", "POS", "N", "NE", "NEG", "NEUT"]}], ids=str
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_filters_that_leave_nothing_are_named(server, filters, stream):
    body = {
        "model": server.model,
        "prompt": CHOICE.prompt,
        "stream": stream,
        "request_id": "f1",
        **CHOICE.fields,
        **filters,
    }
    status, answer = curl(server, "/v1/completions", body)
    assert "f1" in answer and f"its {next(iter(filters))} leave no token" in answer, answer
    assert status == (200 if '"text"' in answer else 400), "a stream that began has its status"
    text = "".join(re.findall(r'"text":"([^"]*)"', answer))
    assert any(choice.startswith(text) for choice in SENTIMENTS), "never a forbidden token"


def test_an_abort_in_the_middle_frees_the_slot(server: LiveServer):
    body = {
        "model": server.model,
        "prompt": "Once",
        "max_tokens": 2000,
        "stream": True,
        "guided_regex": "[a-z ]{3000,4000}",
    }
    body["guided_options"] = {"fit_budget": False}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        next(response.iter_lines())
    deadline = time.monotonic() + 60
    while "vllm:num_requests_running" in (metrics := httpx.get(f"{server.url}/metrics").text):
        running = re.search(r"^vllm:num_requests_running\{.*\} ([0-9.]+)$", metrics, re.MULTILINE)
        if running is None or float(running.group(1)) == 0:
            break
        assert time.monotonic() < deadline, "the engine goes on with a request that nobody waits for"
        time.sleep(0.2)
    assert chat(server, CHOICE, extra_body=CHOICE.fields).text in SENTIMENTS


def test_a_prompt_longer_than_a_chunk_and_one_that_is_cached(server):
    """Chunked prefill, then the same prompt again from the prefix cache."""
    prompt = "The quick brown fox jumps over the lazy dog. " * 250 + CHOICE.prompt
    for _ in range(2):
        answer = complete(server, prompt, temperature=0.0, extra_body=CHOICE.fields)
        assert answer.text in SENTIMENTS
