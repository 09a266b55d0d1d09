"""Tools on /v1/responses, on a real server without a tool parser, with the official client; with a parser: `tests/engine_variants`."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import openai
import pytest

from tests.live_server import LiveServer
from tests.responses_requests import NAMED, SCHEMAS, TOOLS, custom_tool, respond

pytestmark = pytest.mark.engine

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def ask(server: LiveServer, stream: bool, *, body: dict[str, Any] | None = None, **fields: Any) -> Any:
    options = {"model": server.model, "temperature": 1.0, **fields}
    return respond(server.client, stream=stream, body={"seed": 3, **(body or {})}, **options)


def assert_obeys(call: Any) -> None:
    assert (call.type, call.status) == ("function_call", "completed") and call.call_id
    jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


@both
def test_required_calls(server, stream):
    made = ask(server, stream, tools=TOOLS, tool_choice="required")
    assert made.status == "completed" and made.output
    for call in made.output:
        assert_obeys(call)
    (call,) = ask(server, stream, tools=TOOLS, tool_choice="required", parallel_tool_calls=False).output
    assert_obeys(call)


@both
def test_a_named_call(server, stream):
    (call,) = ask(server, stream, tools=TOOLS, tool_choice=NAMED).output
    assert_obeys(call)
    assert call.name == "weather"


@both
def test_allowed_tools(server, stream):
    choice: Any = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "trip"}]}
    for call in ask(server, stream, tools=TOOLS, tool_choice=choice).output:
        assert_obeys(call)
        assert call.name == "trip"


@both
@pytest.mark.parametrize(
    ("syntax", "definition"),
    [("regex", "SELECT [a-z]{1,8}(, [a-z]{1,8}){0,2}"), ("lark", 'start: "SELECT " /[a-z]{1,8}/')],
)
def test_a_custom_tool_with_a_grammar(server, stream, syntax, definition):
    tool, choice = custom_tool(syntax, definition), {"type": "custom", "name": "say"}
    for options in ({"tool_choice": choice}, {"tool_choice": "required", "parallel_tool_calls": False}):
        (call,) = ask(server, stream, tools=[tool], **options).output
        assert (call.type, call.name) == ("custom_tool_call", "say")
        assert re.fullmatch("SELECT [a-z]{1,8}(, [a-z]{1,8}){0,2}", call.input)


@both
def test_calls_that_are_cut_off(server, stream):
    options: dict[str, Any] = {"body": {"guided_options": {"fit_budget": False}}, "max_output_tokens": 7}
    made = ask(server, stream, tools=TOOLS, tool_choice=NAMED, **options)
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    (call,) = made.output
    assert (call.name, call.status) == ("weather", "incomplete") and call.arguments.startswith("{")
    tool = custom_tool("regex", "[a-z]{60}")
    made = ask(server, stream, tools=[tool], tool_choice={"type": "custom", "name": "say"}, **options)
    assert made.status == "incomplete"
    assert all(re.fullmatch("[a-z]*", call.input) for call in made.output)


@both
def test_refusals(server, stream):
    for fields, param in (
        ({"tools": TOOLS, "tool_choice": "required", "max_output_tokens": 3}, "max_output_tokens"),
        ({"tools": [custom_tool("lark", "start: (")], "tool_choice": "required"}, "tools.0.format.definition:1:9"),
        ({"tools": TOOLS, "tool_choice": "auto"}, "tool_choice"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(server, stream, **fields)
        assert refused.value.param == param
