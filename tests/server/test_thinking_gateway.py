"""A reasoning parser beside constraints, through the whole application; the engine has no model and writes what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from guided.limits import Limits
from tests.live_server import LiveServer
from tests.server import engine_without_model
from tests.server.gateway import running
from tests.thinking_model import FLAGS, OPENED, SCHEMA, Answer, ask, assert_valid, write_thinking_model

TOOL = {"type": "function", "function": {"name": "note", "parameters": SCHEMA}}
OFF = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.fixture(scope="module")
def thinking_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("model") / "thinking"
    write_thinking_model(model_folder, folder)
    with pytest.MonkeyPatch.context() as patch, running(folder, FLAGS) as server:
        patch.setattr(engine_without_model, "LIMITS", Limits(seconds=60.0))  # the same answer on a busy machine
        yield server


def both_ways(server: LiveServer, **fields: Any) -> Answer:
    """The answer, which is the same in a stream and without one, but for the spaces in what vLLM reads out of a list of calls."""
    whole, streamed = (ask(server, stream=stream, **fields) for stream in (False, True))
    assert [*map(json.loads, whole.calls)] == [*map(json.loads, streamed.calls)]
    assert replace(whole, calls=()) == replace(streamed, calls=())
    return whole


@pytest.mark.parametrize("fields", [OPENED, {**OPENED, "reasoning_effort": "high"}])
def test_thinking_that_the_prompt_has_opened(thinking_server, fields):
    for seed in range(8):
        answer = both_ways(thinking_server, guided_json=SCHEMA, seed=seed, **fields)
        assert_valid(answer.content)
        assert "think>" not in answer.content and bool(answer.reasoning) == bool(answer.reasoning_tokens)


def test_thinking_as_the_model_likes(thinking_server):
    pattern = "[0-9]{2}"
    answers = [both_ways(thinking_server, guided_regex=pattern, seed=seed) for seed in range(40)]
    assert all(re.fullmatch(pattern, answer.content) for answer in answers)
    assert {bool(answer.reasoning) for answer in answers} == {True, False}


@pytest.mark.parametrize("fields", [OFF, {"reasoning_effort": "none"}])
def test_thinking_that_is_switched_off(thinking_server, fields):
    for seed in range(8):
        answer = both_ways(thinking_server, guided_json=SCHEMA, seed=seed, **fields)
        assert_valid(answer.content)
        assert (answer.reasoning, answer.reasoning_tokens) == ("", 0)


def test_an_answer_that_the_client_has_begun(thinking_server):
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "It is"}]
    fields = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    answer = both_ways(thinking_server, guided_choice=[" good", " bad"], **fields)
    assert answer.content in (" good", " bad") and not answer.reasoning


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "note"}}])
def test_calls_come_after_thinking(thinking_server, choice):
    for seed in range(4):
        answer = both_ways(thinking_server, tools=[TOOL], tool_choice=choice, max_tokens=120, seed=seed, **OPENED)
        (arguments,) = answer.calls
        assert_valid(arguments)
        assert not answer.content


def test_a_marker_of_the_request_wins(thinking_server):
    answer = both_ways(thinking_server, guided_regex="[ab]{3}", guided_options={"after": "</think>"}, **OFF)
    assert re.fullmatch("[ab]{3}", answer.content) and "think>" not in answer.reasoning


def test_stop_strings_are_in_neither_part(thinking_server):
    for seed in range(8):
        answer = both_ways(thinking_server, guided_regex="[a-e]{4}", stop=["e", "ab"], seed=seed, **OPENED)
        assert not re.search("e|ab", answer.reasoning + answer.content)
        assert re.fullmatch("[a-d]{4}", answer.content)


def test_a_budget_for_the_answer_alone_is_too_small_where_thinking_has_begun(thinking_server):
    def refused(**fields: Any) -> httpx.Response:
        body = {
            "model": thinking_server.model,
            "messages": [{"role": "user", "content": "Count."}],
            "guided_regex": "(#[ab]){3}",
            "stream": True,
            **fields,
        }
        return httpx.post(f"{thinking_server.url}/v1/chat/completions", json=body, timeout=300)

    needed = int(re.findall(r"needs (\d+) tokens", refused(max_tokens=1).text)[0])
    opened = refused(max_tokens=needed, **OPENED)
    assert opened.status_code == 400 and opened.json()["error"]["code"] == "budget_too_small"
    assert f"needs {needed + 1} tokens" in opened.json()["error"]["message"]
    assert refused(max_tokens=needed + 1, **OPENED).status_code == 200


def test_responses_have_it_too(thinking_server):
    body = {
        "model": thinking_server.model,
        "input": "How are you?",
        "text": {"format": {"type": "json_schema", "name": "mood", "schema": SCHEMA, "strict": True}},
        "max_output_tokens": 48,
        "chat_template_kwargs": {"opened": True},
    }
    answered = httpx.post(f"{thinking_server.url}/v1/responses", json=body, timeout=300)
    assert answered.status_code == 200, answered.text
    (message,) = [item for item in answered.json()["output"] if item["type"] == "message"]
    assert_valid(message["content"][0]["text"])
    streamed = httpx.post(f"{thinking_server.url}/v1/responses", json={**body, "stream": True}, timeout=300).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert_valid(text)


@pytest.mark.parametrize("stream", [False, True])
def test_calls_come_after_thinking_on_responses(thinking_server, stream):
    tool = {"type": "function", "name": "note", "parameters": SCHEMA}
    for seed in range(4):
        made: Any = thinking_server.client.responses.create(
            model=thinking_server.model,
            input="How are you?",
            tools=[tool],
            tool_choice="required",
            parallel_tool_calls=False,
            max_output_tokens=120,
            stream=stream,
            extra_body={"seed": seed, **OPENED},
        )
        response = next(event.response for event in made if event.type == "response.completed") if stream else made
        *thinking, call = response.output
        assert call.type == "function_call" and all(item.type == "reasoning" for item in thinking)
        assert_valid(call.arguments)


def test_what_was_compiled_beforehand_is_what_requests_need(thinking_server):
    """This template says nothing by default, so that the model may think or not, and has ended the thinking where it is switched off."""
    pattern = "(warm|warmer){2}"
    compiled = httpx.post(
        f"{thinking_server.url}/v1/guided/compile", json={"guided_regex": pattern}, timeout=300
    ).json()
    (whole,) = compiled["with_thinking"]
    assert whole["digest"] != compiled["digest"] and whole["fewest_tokens"] == compiled["fewest_tokens"]
    for fields in ({}, OFF):
        body = {
            "model": thinking_server.model,
            "messages": [{"role": "user", "content": "How?"}],
            "guided_regex": pattern,
            "guided_options": {"report": True},
            **fields,
        }
        answered = httpx.post(f"{thinking_server.url}/v1/chat/completions", json=body, timeout=300).json()
        assert answered["guided"]["cache"] == "memory", fields


def test_what_names_its_marker_has_no_other_form(thinking_server):
    body = {"guided_regex": "[ab]{3}", "guided_options": {"after": "</think>"}}
    compiled = httpx.post(f"{thinking_server.url}/v1/guided/compile", json=body, timeout=300).json()
    assert compiled["with_thinking"] == []
