"""Tools and structural tags on a real server without a tool parser, with the official client."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import openai
import pytest

from tests.engine.requests import together
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["city", "days"],
}
LEG = {
    "type": "object",
    "properties": {"leg": {"$ref": "#/$defs/leg"}},
    "required": ["leg"],
    "$defs": {"leg": {"enum": ["a", "b"]}},
}
SCHEMAS = {"weather": WEATHER, "trip": LEG}
TOOLS: Any = [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in SCHEMAS.items()]
NAMED: Any = {"type": "function", "function": {"name": "weather"}}
FREE = {"guided_options": {"fit_budget": False}}


def ask(server: LiveServer, **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": "How is the weather in Oslo in the next days?"}]
    options = {"tools": TOOLS, "max_tokens": 200, "temperature": 1.0, "seed": 1, **options}
    return server.client.chat.completions.create(model=server.model, messages=messages, **options)


def whole(answer: Any) -> tuple[str, list[tuple[str, str]], str | None]:
    """Content, calls and finish reason."""
    message = answer.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls]
    return message.content, calls, answer.choices[0].finish_reason


def streamed(chunks: Any) -> tuple[str, list[tuple[str, str]], str | None]:
    """Content, calls and finish reason of a stream."""
    content, reason, calls = "", None, {}
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = name + (call.function.name or ""), arguments + (call.function.arguments or "")
    return content, list(calls.values()), reason


def test_required_calls_obey_the_parameters_of_their_tools(server):
    def check(asked: tuple[int, bool]) -> None:
        seed, stream = asked
        answer = ask(server, tool_choice="required", parallel_tool_calls=False, seed=seed, stream=stream)
        content, calls, reason = streamed(answer) if stream else whole(answer)
        ((name, arguments),) = calls
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
        assert (content, reason) == ("", "tool_calls")

    together(check, itertools.product(range(4), (False, True)))


@pytest.mark.parametrize("stream", [False, True])
def test_a_named_call_that_is_cut_off_is_no_text(server, stream):
    answer = ask(server, tool_choice=NAMED, max_tokens=4, stream=stream, extra_body=FREE)
    content, calls, reason = streamed(answer) if stream else whole(answer)
    assert (content, reason) == ("", "length")
    ((name, arguments),) = calls
    assert name == "weather"
    assert arguments.startswith("{")
    with pytest.raises(ValueError, match=""):
        json.loads(arguments)


def test_refusals(server):
    bad: Any = {"type": "function", "function": {"name": "bad", "parameters": {"properties": {"x": {"type": "inte"}}}}}
    for options, param in (
        ({"tools": [*TOOLS, bad], "tool_choice": "required"}, "tools.2.function.parameters#/properties/x/type"),
        ({"tool_choice": "required", "extra_body": {"guided_regex": "a"}}, "guided_regex"),
        ({"functions": [{"name": "f"}], "tools": openai.omit}, "functions"),
        ({"tool_choice": "required", "max_tokens": 3}, "max_tokens"),
    ):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as refused:
                ask(server, stream=stream, **options)
            assert refused.value.param == param
    with pytest.raises(openai.BadRequestError, match="--tool-call-parser"):
        ask(server)


@pytest.mark.parametrize("field", ["response_format", "structured_outputs"])
def test_a_structural_tag(server, field):
    content = {"type": "json_schema", "json_schema": WEATHER}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}}
    body = {field: tag if field == "response_format" else {"structural_tag": json.dumps(tag)}}
    answer = ask(server, tools=openai.omit, extra_body=body).choices[0]
    assert answer.finish_reason == "stop"
    text = answer.message.content
    assert text.startswith("<a>")
    assert text.endswith("</a>")
    jsonschema.validate(json.loads(text[3:-4]), WEATHER)
