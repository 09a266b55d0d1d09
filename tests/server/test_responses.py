"""/v1/responses through the whole application, with OpenAI's client: tools, calls that are cut off, and whose stored answers are whose."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from openai import OpenAI
from openai.types.responses import (
    ResponseCustomToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses
from vllm.entrypoints.openai.responses.utils import construct_input_messages
from vllm.exceptions import GenerationError, VLLMValidationError

from guided.limits import Limits
from server.errors import RequestRefused
from server.keys import KeyRing, read_text
from server.responses import Responses, in_one_part, input_of, said_before
from tests.live_server import LiveServer
from tests.responses_requests import NAMED, SCHEMAS, TOOLS, custom_tool, respond
from tests.server import engine_without_model
from tests.server.gateway import running

HERMES = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
KEYS = {"ann": "ann-has-a-key-of-her-own", "bob": "bob-has-a-key-of-his-own"}
SEEDS = range(4)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """The engine without a model finds its way home on a busy machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_without_model, "LIMITS", Limits(seconds=60.0))
        yield


@pytest.fixture(scope="module")
def hermes(model_folder: Path) -> Iterator[LiveServer]:
    """With a tool parser, keys, and a store of answers."""
    keys = KeyRing(read_text(",".join(f"{name}={key}" for name, key in KEYS.items()), "key"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_RESPONSES_API_STORE", "1")
        with running(model_folder, HERMES, keys=keys) as server:
            yield server


@pytest.fixture(params=["gateway", "hermes"])
def server(request: pytest.FixtureRequest) -> LiveServer:
    """Without a tool parser, and with one."""
    return request.getfixturevalue(request.param)


def client(server: LiveServer, name: str = "ann") -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key=KEYS[name], max_retries=0, timeout=300)


def ask(server: LiveServer, *, stream: bool, seed: int = 1, body: dict[str, Any] | None = None, **fields: Any) -> Any:
    return respond(client(server), stream=stream, model=server.model, body={"seed": seed, **(body or {})}, **fields)


def assert_obeys(call: Any) -> None:
    assert call.type == "function_call" and call.status == "completed" and call.call_id
    jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@both
@pytest.mark.parametrize("seed", SEEDS)
def test_calls_that_are_required_or_named_obey_their_parameters(server, stream, seed):
    made = ask(server, stream=stream, seed=seed, tools=TOOLS, tool_choice="required")
    assert made.output
    for call in made.output:
        assert_obeys(call)
    for options in ({"tool_choice": NAMED}, {"tool_choice": "required", "parallel_tool_calls": False}):
        (call,) = ask(server, stream=stream, seed=seed, tools=TOOLS, **options).output
        assert_obeys(call)
        assert call.name == "weather" or options["tool_choice"] == "required"


@both
def test_only_allowed_tools_are_called(server, stream):
    choice: Any = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "trip"}]}
    for seed in SEEDS:
        for call in ask(server, stream=stream, seed=seed, tools=TOOLS, tool_choice=choice).output:
            assert_obeys(call)
            assert call.name == "trip"


@both
def test_functions_of_a_namespace(server, stream):
    space: Any = {"type": "namespace", "name": "sky", "description": "The sky", "tools": TOOLS}
    for seed in SEEDS:
        for call in ask(server, stream=stream, seed=seed, tools=[space], tool_choice="required").output:
            assert_obeys(call)
            assert call.namespace == "sky"
    (call,) = ask(server, stream=stream, tools=[space], tool_choice={**NAMED, "name": "sky__weather"}).output
    assert_obeys(call)


@both
def test_the_models_own_calls_beside_a_format(hermes, stream):
    """The engine writes at random: one or the other."""
    schema = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}
    text: Any = {"format": {"type": "json_schema", "name": "rain", "schema": schema, "strict": True}}
    kinds: set[str] = set()
    for seed in range(16):
        made = ask(hermes, stream=stream, seed=seed, tools=[{**tool, "strict": True} for tool in TOOLS], text=text)
        kinds.update(item.type for item in made.output)
        for item in made.output:
            if item.type == "message":
                jsonschema.validate(json.loads(item.content[0].text), schema)
            else:
                assert_obeys(item)
    assert kinds == {"message", "function_call"}


@both
@pytest.mark.parametrize(("syntax", "definition"), [("regex", "(ab){1,3}"), ("lark", 'start: "ab" start | "ab"')])
def test_the_input_of_a_custom_tool_obeys_its_grammar(server, stream, syntax, definition):
    tool = custom_tool(syntax, definition)
    for seed in SEEDS:
        made = ask(server, stream=stream, seed=seed, tools=[tool], tool_choice={"type": "custom", "name": "say"})
        (call,) = made.output
        assert (call.type, call.name) == ("custom_tool_call", "say")
        assert re.fullmatch("(ab)+", call.input)


@both
def test_a_call_that_is_cut_off_is_not_called_complete(server, stream):
    options = {"guided_options": {"fit_budget": False}}
    made = ask(server, stream=stream, body=options, tools=TOOLS[:1], tool_choice=NAMED, max_output_tokens=8)
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    for call in made.output:
        assert (call.type, call.name, call.status) == ("function_call", "weather", "incomplete")


@both
@pytest.mark.parametrize("most", [1, 4, 9, 14, 17, 23])
def test_the_input_of_a_custom_call_that_is_cut_off_is_text(server, stream, most):
    tool = custom_tool("regex", '("\\n[a-c]){40}')
    options = {"guided_options": {"fit_budget": False}}
    choice: Any = {"type": "custom", "name": "say"}
    made = ask(server, stream=stream, body=options, tools=[tool], tool_choice=choice, max_output_tokens=most)
    assert made.status == "incomplete"
    for call in made.output:
        assert call.type == "custom_tool_call" and re.fullmatch('("\n[a-c])*("\n?)?', call.input)
    assert most < 20 or made.output[0].input


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a\\"b"}', 'a"b'),
        ('{"input": "a\\', "a"),
        ('{"input": "\\ud83d', ""),
        ('{"inp', ""),
        ("", ""),
        ('{"input": "a"', "a"),
        ("bare {text", "bare {text"),
        ('{"other": "a', '{"other": "a'),
        ('{"other": "a"}', '{"other": "a"}'),
    ],
)
def test_the_input_in_the_arguments_of_a_custom_call(arguments, text):
    assert input_of(arguments) == text


@both
@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"tools": [{**TOOLS[0], "parameters": {"type": "intger"}}]}, "tools.0.parameters#/type", None),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", "not_enforced"),
        ({"tools": TOOLS, "tool_choice": {"type": "web_search"}}, "tool_choice.type", "not_enforced"),
        ({"tools": TOOLS, "tool_choice": {**NAMED, "name": "x"}}, "tool_choice", "invalid_constraint"),
        ({"tools": TOOLS, "max_output_tokens": 2}, "max_output_tokens", "budget_too_small"),
        ({"tools": TOOLS, "text": {"format": {"type": "json_object"}}}, "text.format", "conflicting_constraints"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_refusals_come_before_the_stream(server, stream, fields, param, code):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(server, stream=stream, **{"tool_choice": "required", **fields})
    assert refused.value.param == param
    assert code in (None, refused.value.code)


@both
@pytest.mark.parametrize("choice", ["required", "auto", "none"])
@pytest.mark.parametrize("depth", [100, 180, 230, 350, 490])
def test_parameters_that_are_nested_deeply(server, stream, depth, choice):
    """They are taken or refused, in whichever of vLLM's copies of them it ends."""
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema} if depth > 400 else {"properties": {"a": schema}}
    function = {"name": "f", "parameters": schema}
    flat, chat = {"type": "function", **function}, {"type": "function", "function": function}
    base = {"model": server.model, "tool_choice": choice, "stream": stream}
    headers = {"Authorization": f"Bearer {KEYS['ann']}"}
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": [chat], "max_tokens": 8}),
        ("/v1/responses", {"input": "x", "tools": [flat], "max_output_tokens": 8}),
    ):
        answer = httpx.post(f"{server.url}{path}", json={**base, **body}, headers=headers, timeout=300)
        assert answer.status_code in (200, 400), answer.text[:300]
        assert ("internal_error" not in answer.text and '"error": {' not in answer.text) or answer.status_code == 400
        assert answer.status_code == 200 or len(answer.json()["error"]["message"]) > 10


def test_strict_tools_are_refused_where_the_models_own_calls_are_not_known(gateway):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(gateway, stream=False, tools=[{**TOOLS[0], "strict": True}])
    assert (refused.value.param, refused.value.code) == ("tools.0.strict", "not_enforced")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (GenerationError("request r could not be completed"), "server_error", "request r could not be completed"),
        (VLLMValidationError("too long", parameter="input"), "invalid_value", "too long"),
        (RequestRefused("no", "overloaded", "x", 429), "overloaded", "no"),
        (RuntimeError("a prompt"), "server_error", "the server failed to answer; its log says why"),
    ],
    ids=["engine", "client", "load", "bug"],
)
def test_a_stream_that_fails_ends_with_an_event(monkeypatch, error, code, message):
    """As vLLM fails: what it makes of an engine's error is none of its own events."""

    async def failing(self: Any, request: Any) -> Any:
        for number in range(3):
            yield number
        try:
            raise error
        except GenerationError as caught:
            yield self._convert_generation_error_to_streaming_response(caught)

    async def read() -> list[Any]:
        request = SimpleNamespace(background=False)
        return [event async for event in Responses.responses_stream_generator(object.__new__(Responses), request)]

    monkeypatch.setattr(OpenAIServingResponses, "responses_stream_generator", failing)
    *before, last = asyncio.run(read())
    assert before == [0, 1, 2]
    assert (last.type, last.code, last.message, last.sequence_number) == ("error", code, message, 3)


# --- whose answers are whose ------------------------------------------------------------------------------------------


def test_a_stored_response_is_for_its_own_caller(hermes):
    ann, bob = client(hermes), client(hermes, "bob")
    stored = ann.responses.create(model=hermes.model, input="A secret.", max_output_tokens=20)
    assert ann.responses.retrieve(stored.id).output == stored.output
    for ask_for_it in (
        lambda: bob.responses.retrieve(stored.id),
        lambda: bob.responses.cancel(stored.id),
        lambda: bob.responses.create(model=hermes.model, input="And?", previous_response_id=stored.id),
    ):
        with pytest.raises(openai.NotFoundError):
            ask_for_it()
    assert ann.responses.create(model=hermes.model, input="And?", previous_response_id=stored.id).output


def test_nobody_puts_a_response_in_anothers_place(hermes):
    ann, bob = client(hermes), client(hermes, "bob")
    mine, his = (
        asking.responses.create(
            model=hermes.model, input="?", extra_body={"request_id": "resp_1", "guided_choice": [word]}
        )
        for asking, word in ((ann, "mine"), (bob, "his"))
    )
    assert mine.id == his.id
    assert (ann.responses.retrieve(mine.id).output_text, bob.responses.retrieve(his.id).output_text) == ("mine", "his")


@both
def test_what_runs_in_the_background_is_its_callers_too(hermes, stream):
    ann, bob = client(hermes), client(hermes, "bob")
    options: Any = {"model": hermes.model, "input": "?", "background": True, "extra_body": {"guided_choice": ["done"]}}
    if stream:
        identity = next(iter(ann.responses.create(stream=True, **options))).response.id
    else:
        identity = ann.responses.create(**options).id
    with pytest.raises(openai.NotFoundError):
        bob.responses.retrieve(identity)
    if stream:
        events = ann.responses.retrieve(identity, stream=True)
        assert [event.response.output_text for event in events if event.type == "response.completed"] == ["done"]
        return
    while (made := ann.responses.retrieve(identity)).status in ("queued", "in_progress"):
        pass
    assert made.output_text == "done"


@both
def test_a_report_of_what_runs_in_the_background(hermes, stream):
    asking = client(hermes)
    body = {"guided_choice": ["done"], "guided_options": {"report": True}}
    options: Any = {"model": hermes.model, "input": "?", "background": True, "extra_body": body}
    if stream:
        first, *_ = asking.responses.create(stream=True, **options)
        identity = first.response.id
    else:
        identity = asking.responses.create(**options).id
        while asking.responses.retrieve(identity).status in ("queued", "in_progress"):
            pass
    assert asking.responses.retrieve(identity).model_dump()["guided"]["tokens"] > 1


# --- what was called before -------------------------------------------------------------------------------------------


@both
def test_calls_come_back_with_their_response(hermes, stream):
    """The prompt has what it has where the client sends the items itself."""
    asking, model = client(hermes), hermes.model
    tools = [*TOOLS, {"type": "custom", "name": "say"}]
    first = ask(hermes, stream=stream, tools=tools, tool_choice="required", parallel_tool_calls=False)
    (called,) = first.output
    result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "12 degrees"}
    said: Any = {"role": "user", "content": "How is the weather in Oslo?"}
    options: Any = {"model": model, "tools": tools, "tool_choice": "none", "max_output_tokens": 4}
    after = asking.responses.create(input=[result], previous_response_id=first.id, **options)
    by_hand = asking.responses.create(input=[said, called.model_dump(), result], **options)
    assert after.usage.input_tokens == by_hand.usage.input_tokens
    again = asking.responses.create(input="And in Rome?", previous_response_id=after.id, **options)
    assert again.usage.input_tokens > after.usage.input_tokens


CALL = ResponseFunctionToolCall(type="function_call", call_id="1", name="f", arguments="{}")
CUSTOM = ResponseCustomToolCall(type="custom_tool_call", call_id="2", name="g", input='a"')
THOUGHT = ResponseReasoningItem(type="reasoning", id="3", summary=[])


def test_what_a_response_said_is_read_in_order():
    message = ResponseOutputMessage.model_validate({**SAID, "id": "m", "status": "completed", "content": PARTS})
    items = said_before(SimpleNamespace(output=[THOUGHT, message, CALL, CUSTOM]))
    (made,) = construct_input_messages(request_input=items)
    assert made["role"] == "assistant" and made["content"] == "HotNo"
    assert [call["function"] for call in made["tool_calls"]] == [
        {"name": "f", "arguments": "{}"},
        {"name": "g", "arguments": '{"input": "a\\""}'},
    ]


# --- what vLLM makes of the input -------------------------------------------------------------------------------------

SAID: dict[str, Any] = {"type": "message", "role": "assistant"}
PARTS = [{"type": "output_text", "text": "Hot", "annotations": []}, {"type": "refusal", "refusal": "No"}]


@pytest.mark.parametrize(
    "item",
    [
        {**SAID, "content": PARTS},
        ResponseOutputMessage.model_validate({**SAID, "id": "m", "status": "completed", "content": PARTS}),
    ],
    ids=["object", "model"],
)
def test_all_parts_of_an_assistants_message_are_read(item):
    made = in_one_part(item, "input#/0")
    assert (made["content"] if isinstance(made, dict) else made.content[0].text) == "HotNo"


@pytest.mark.parametrize("content", [[], PARTS[1:], PARTS], ids=["none", "refusal", "two"])
@pytest.mark.parametrize("more", [{}, {"id": "m", "status": "completed"}, {"status": "incomplete"}], ids=str)
def test_messages_of_the_assistant(gateway, content, more):
    turns: Any = [{**SAID, "content": content, **more}]
    assert client(gateway).responses.create(model=gateway.model, input=turns, max_output_tokens=4).output


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"input": [{"type": "item_reference", "id": "i", "role": "assistant", "content": ["x"]}]},
            "input#/0/content/0",
        ),
        ({"input": "x", "previous_input_messages": [{"role": "user", "content": "x"}]}, "previous_input_messages"),
    ],
)
def test_what_would_be_dropped_of_the_input_is_refused(gateway, fields, param):
    answered = httpx.post(f"{gateway.url}/v1/responses", json={"model": gateway.model, **fields}, timeout=300)
    assert (answered.status_code, answered.json()["error"]["param"]) == (400, param)
