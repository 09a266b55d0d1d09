"""A reasoning parser beside constraints, on an engine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.requests import together
from tests.live_server import LiveServer
from tests.thinking_model import END, FLAGS, OPENED, SCHEMA, START, ask, assert_valid, write_thinking_model

THINK, ANSWER_AT_ONCE = {str(START): 100}, {str(START): -100}  # logit_bias


@pytest.fixture(scope="module")
def thinking_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("model") / "thinking"
    write_thinking_model(model_folder, folder)
    with LiveServer.started(folder, folder.parent / "server.log", FLAGS) as live:
        yield live


def test_the_answer_is_content_and_the_thinking_is_reasoning(thinking_server):
    thinking: list[tuple[dict[str, Any], bool]] = [
        ({"logit_bias": THINK}, True),
        ({"logit_bias": ANSWER_AT_ONCE}, False),
        (OPENED, True),
        ({**OPENED, "include_reasoning": True, "seed": 8}, True),
        ({**OPENED, "stop": [" the", "mood:"]}, True),
        ({**OPENED, "reasoning_effort": "none", "logit_bias": THINK}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}, "logit_bias": THINK}, False),
    ]

    def check(asked: tuple[tuple[dict[str, Any], bool], bool]) -> None:
        (fields, thinks), stream = asked
        answer = ask(thinking_server, stream=stream, guided_json=SCHEMA, **fields)
        assert_valid(answer.content)
        by_budget = answer.reasoning_tokens > 20  # its last token ended the answer
        assert answer.finish_reason == "stop" or by_budget
        assert bool(answer.reasoning) == thinks == bool(answer.reasoning_tokens)
        assert "think>" not in answer.reasoning
        assert not any(string in answer.reasoning for string in fields.get("stop", ()))

    together(check, itertools.product(thinking, (False, True)))


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_that_is_not_wanted_in_the_response_is_thought_all_the_same(thinking_server, stream):
    shown = ask(thinking_server, stream=stream, guided_json=SCHEMA, **OPENED)
    hidden = ask(thinking_server, stream=stream, guided_json=SCHEMA, include_reasoning=False, **OPENED)
    assert (hidden.reasoning, hidden.content) == ("", shown.content)
    assert shown.reasoning


@pytest.mark.parametrize("stream", [False, True])
def test_calls_come_after_thinking_too(thinking_server, stream):
    tool = {"type": "function", "function": {"name": "note", "parameters": SCHEMA}}
    fields = {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "note"}}}
    answer = ask(thinking_server, stream=stream, **fields, **OPENED)
    assert answer.reasoning and not answer.content
    (arguments,) = answer.calls
    assert_valid(arguments)


def test_several_answers_to_one_prompt(thinking_server):
    body = {
        "model": thinking_server.model,
        "messages": [{"role": "user", "content": "How are you?"}],
        "guided_choice": ["good", "bad"],
        "max_tokens": 30,
        "n": 3,
    }
    choices = httpx.post(f"{thinking_server.url}/v1/chat/completions", json=body | OPENED, timeout=300).json()[
        "choices"
    ]
    assert len(choices) == 3
    assert all(choice["message"]["content"] in ("good", "bad") and choice["message"]["reasoning"] for choice in choices)


def test_completions_have_no_thinking(thinking_server):
    made = thinking_server.client.completions.create(
        model=thinking_server.model,
        prompt="<|im_start|>assistant\n<think>\n",
        max_tokens=20,
        logit_bias=THINK,
        extra_body={"guided_regex": "[ab]{3}"},
    )
    assert re.fullmatch("[ab]{3}", made.choices[0].text)


def test_a_marker_of_the_request_wins(thinking_server):
    answer = ask(thinking_server, stream=False, guided_regex="[ab]{3}", guided_options={"after": "</think>"})
    assert answer.reasoning and re.fullmatch("[ab]{3}", answer.content)


def test_without_a_constraint_vllms_parser_is_as_it_was(thinking_server):
    answer = ask(thinking_server, stream=False, logit_bias={str(END): -100}, max_tokens=8, **OPENED)
    assert answer.reasoning and not answer.content
