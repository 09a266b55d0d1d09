"""What vLLM's serving layer makes of calls, with our parser where none is set, and of calls that were cut off. No engine."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from types import SimpleNamespace

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest, ChatCompletionResponse
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.exceptions import VLLMValidationError
from vllm.parser import ParserManager
from vllm.tokenizers import get_tokenizer

from server.parsers import in_front_of
from server.tools.list_parser import NAME, use_where_none_is_set
from server.tools.parser import CallsParser
from server.tools.serving import HonestChat
from tests.server.test_tools import TOOLS, named


@pytest.fixture(scope="module")
def tokenizer(model_folder):
    return get_tokenizer(str(model_folder))


def request(choice="auto", **more) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate({"messages": [], "tools": TOOLS, "tool_choice": choice, **more})


def parser(name: str, tokenizer):
    use_where_none_is_set(arguments(), "llama")
    made = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True)
    assert made is not None
    return in_front_of(made, CallsParser)(tokenizer, request().tools)


def arguments(**more) -> Namespace:
    values = {
        "enable_auto_tool_choice": False,
        "tool_call_parser": None,
        "structured_outputs_config": SimpleNamespace(reasoning_parser=""),
        **more,
    }
    return Namespace(**values)


def calls(parsed) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in parsed[2] or []]


BEGUN = '<tool_call>\n{"name": "trip", "arguments": {"leg": 1'
WHOLE = BEGUN + "}}\n</tool_call>"


@pytest.mark.parametrize("choice", ["auto", "required", named("trip")])
def test_a_call_that_is_cut_off_is_a_call_and_no_text(tokenizer, choice):
    for text, arguments in ((BEGUN, '{"leg": 1'), (BEGUN[:30], "")):
        parsed = parser("hermes", tokenizer).parse(text, request(choice), True)
        assert calls(parsed) == [("trip", arguments)]
        assert not parsed[1]


def test_a_marker_that_is_cut_off_is_no_call(tokenizer):
    for end in range(1, len("<tool_call>")):
        begun = "<tool_call>"[:end]
        parsed = parser("hermes", tokenizer).parse(f"So: {begun}", request(), True)
        assert calls(parsed) == []
        assert parsed[1] == f"So: {begun}", "the model may have meant it as text"
        parsed = parser("hermes", tokenizer).parse(begun, request("required"), True)
        assert (calls(parsed), parsed[1]) == ([], None)


def test_text_before_a_call_that_is_cut_off_stays_text(tokenizer):
    parsed = parser("hermes", tokenizer).parse(f"So: {WHOLE}\n{BEGUN}", request(), True)
    assert calls(parsed) == [("trip", '{"leg": 1}'), ("trip", '{"leg": 1')]
    assert parsed[1] == "So: "


@pytest.mark.parametrize("text", ["It rains.", "", "a <b> c"])
def test_text_without_a_call_is_left_alone(tokenizer, text):
    for choice in ("auto", "none"):
        assert parser("hermes", tokenizer).parse(text, request(choice), True)[1:] in (
            (text, None),
            (text, []),
            (None, None),
        )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            '[{"name": "trip", "parameters": {"leg": 1}}, {"name": "now", "parameters": {}}]',
            [("trip", '{"leg": 1}'), ("now", "{}")],
        ),
        (
            '[{"name": "trip", "parameters": {"leg": 1}}, {"name": "weather", "parameters": {"ci',
            [("trip", '{"leg": 1}'), ("weather", '{"ci')],
        ),
        ('[{"name": "tr', []),
    ],
)
def test_a_list_of_calls_without_a_parser(tokenizer, text, found):
    parsed = parser(NAME, tokenizer).parse(text, request("required"), True)
    assert calls(parsed) == found
    assert not parsed[1]


def test_a_named_call_without_a_parser(tokenizer):
    for text in ('{"leg": 1}', '{"le'):
        assert calls(parser(NAME, tokenizer).parse(text, request(named("trip")), True)) == [("trip", text)]


@pytest.mark.parametrize("name", ["hermes", NAME])
@pytest.mark.parametrize("choice", ["required", named("trip")])
def test_of_nothing_no_call_is_made(tokenizer, name, choice):
    parsed = parser(name, tokenizer).parse("", request(choice), True)
    assert (calls(parsed), parsed[1]) == ([], None)


def test_without_a_parser_the_model_does_not_choose(tokenizer):
    with pytest.raises(VLLMValidationError, match="--tool-call-parser"):
        parser(NAME, tokenizer).adjust_request(request())
    assert parser(NAME, tokenizer).adjust_request(request("required")).structured_outputs is None


@pytest.mark.parametrize("choice", ["auto", "required", named("trip")])
def test_vllm_makes_no_constraint_of_its_own_for_calls(tokenizer, choice):
    """For that it would have xgrammar read the schema of the format, on the event loop."""
    shown = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    adjusted = parser("hermes", tokenizer).adjust_request(request(choice, response_format=shown))
    assert adjusted.structured_outputs is None and adjusted.response_format is not None
    assert adjusted.skip_special_tokens is False, "what its parser needs stays"


def test_the_parser_is_set_where_there_is_none():
    args = arguments()
    use_where_none_is_set(args, "llama")
    assert (args.tool_call_parser, args.enable_auto_tool_choice) == (NAME, True)
    for other in (
        (arguments(enable_auto_tool_choice=True, tool_call_parser="hermes"), "llama"),
        (arguments(), "gpt_oss"),
        (arguments(structured_outputs_config=SimpleNamespace(reasoning_parser="kimi_k3")), "llama"),
    ):
        before = (other[0].tool_call_parser, other[0].enable_auto_tool_choice)
        use_where_none_is_set(*other)
        assert (other[0].tool_call_parser, other[0].enable_auto_tool_choice) == before


@pytest.mark.parametrize(
    ("engine", "vllm", "said"), [("length", "tool_calls", "length"), ("stop", "tool_calls", "tool_calls")]
)
def test_the_finish_reason_of_a_call_that_was_cut_off_is_length(monkeypatch, engine, vllm, said):
    async def generator(self, request, results, *args, **options):
        async for _ in results:
            pass
        choice = {"index": 0, "message": {"role": "assistant"}, "finish_reason": vllm}
        return ChatCompletionResponse.model_validate({"model": "m", "choices": [choice], "usage": {}})

    async def results():
        yield SimpleNamespace(outputs=[SimpleNamespace(index=0, finish_reason=engine)])

    monkeypatch.setattr(OpenAIServingChat, "chat_completion_full_generator", generator)
    serving = HonestChat.__new__(HonestChat)
    response = asyncio.run(serving.chat_completion_full_generator(None, results()))
    assert response.choices[0].finish_reason == said


CUT_BY_STOP = [
    (['{"city": "Ro'], "\n\n", "stop"),
    (['{"city": "Ro', ""], "\n\n", "stop"),
    ([""], "\n\n", "stop"),
    (['{"city": "Rome"}', '{"city": "Os'], "\n\n", "stop"),
    (['{"city": "Rome"}'], "\n\n", "tool_calls"),
    (['{"city": "Ro'], 7, "tool_calls"),
    (['{"city": "Ro'], None, "tool_calls"),
]


@pytest.mark.parametrize(("arguments", "stop_reason", "said"), CUT_BY_STOP)
def test_a_call_that_a_stop_string_cuts_is_not_called_whole(monkeypatch, arguments, stop_reason, said):
    made = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": one}} for one in arguments]

    async def generator(self, request, results, *args, **options):
        message = {"role": "assistant", "tool_calls": made}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "stop_reason": stop_reason}
        return ChatCompletionResponse.model_validate({"model": "m", "choices": [choice], "usage": {}})

    monkeypatch.setattr(OpenAIServingChat, "chat_completion_full_generator", generator)
    serving = HonestChat.__new__(HonestChat)
    response = asyncio.run(serving.chat_completion_full_generator(request(stop=["\n\n"]), None))
    assert response.choices[0].finish_reason == said


@pytest.mark.parametrize(("arguments", "stop_reason", "said"), CUT_BY_STOP)
@pytest.mark.parametrize("closing", [None, "{}"])
def test_nor_in_a_stream(monkeypatch, arguments, stop_reason, said, closing):
    def event(calls, **end) -> str:
        choice = {"index": 0, "delta": {"tool_calls": calls} if calls else {}, "finish_reason": None, **end}
        return f"data: {json.dumps({'choices': [choice]})}\n\n"

    async def generator(self, request, results, *args, **options):
        yield event(None)
        for number, one in enumerate(arguments):
            yield event([{"index": number, "id": "1", "function": {"name": "weather"}}])
            for character in one:
                yield event([{"index": number, "function": {"arguments": character}}])
        end = closing and [{"index": len(arguments) - 1, "function": {"arguments": closing}}]
        yield event(end, finish_reason="tool_calls", stop_reason=stop_reason)
        yield "data: [DONE]\n\n"

    async def streamed(**more) -> list[str]:
        serving = HonestChat.__new__(HonestChat)
        return [one async for one in serving.chat_completion_stream_generator(request(**more), None)]

    monkeypatch.setattr(OpenAIServingChat, "chat_completion_stream_generator", generator)
    events, plain = asyncio.run(streamed(stop="\n\n")), asyncio.run(streamed())
    assert json.loads(events[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == said
    assert (events[:-2], events[-1]) == (plain[:-2], plain[-1])
