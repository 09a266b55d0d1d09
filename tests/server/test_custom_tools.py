"""OpenAI's custom tools: their input obeys their grammar, vLLM sees functions, clients see custom calls. No engine."""

from __future__ import annotations

import asyncio
import json

import pytest
from openai.types.chat import ChatCompletion
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest, ChatCompletionResponse

from guided.errors import ConstraintError
from server.constraint_middleware import ConstraintMiddleware
from server.errors import RequestRefused
from server.tools.conventions import JSON_CALLS, NativeFormat
from server.tools.custom import CustomCalls, Input, as_functions
from server.tools.request import as_vllm_reads, read_tools
from server.tools.serving import _as_custom, _custom_names, _custom_stream
from tests.server.fakes import FakeCompileService
from tests.server.test_constraint_middleware import CHAT, Route, call
from tests.server.test_tools import TOOLS, automaton, hermes, wanted_by


def custom(name: str, syntax: str | None = None, definition: str = "") -> dict:
    inner: dict = {"name": name, "description": "what it is for"}
    if syntax is not None:
        inner["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"type": "custom", "custom": inner}


SQL = custom("sql", "lark", 'start: "SELECT \\"" NAME "\\"" ("," start)?\nNAME: /[a-z]+/')
DATE = custom("date", "regex", r"\d{4}-\d\d\n")
NOTE = custom("note")


def called(name: str, text: str) -> str:
    return hermes(name, json.dumps({"input": text}))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (called("sql", 'SELECT "a"'), True),
        (called("sql", 'SELECT "a",SELECT "b"'), True),
        (called("sql", "SELECT a"), False),
        (called("date", "2026-11\n"), True),
        (called("date", "2026-11"), False),
        (called("note", 'any "text"\n'), True),
        (hermes("weather", '{"city": "Rome"}'), True),
    ],
)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_input_obeys_the_grammar(choice, text, allowed):
    body = {"tools": [SQL, DATE, NOTE, *TOOLS], "tool_choice": choice}
    assert automaton(wanted_by(body)).matches(text.encode()) == allowed


def test_a_named_custom_tool_without_a_parser():
    body = {"tools": [SQL, DATE], "tool_choice": {"type": "custom", "custom": {"name": "date"}}}
    dfa = automaton(wanted_by(body, JSON_CALLS))
    assert dfa.matches(b'{"input": "2026-11\\n"}')
    assert not dfa.matches(b'{"input": "2026"}')


def test_a_bad_grammar_is_named_with_its_place():
    wanted = wanted_by({"tools": [*TOOLS, custom("bad", "lark", "start: (")]})
    assert wanted is not None
    with pytest.raises(ConstraintError) as refused:
        automaton(wanted)
    assert (wanted.refused(refused.value).param or "").startswith("tools.3.custom.format.grammar.definition:1:")


REFUSED = [
    (custom("f", "ebnf", "a"), "tools.0.custom.format.grammar.syntax"),
    ({"type": "custom", "custom": {"name": "f", "format": {"type": "json"}}}, "tools.0.custom.format"),
    (
        {"type": "custom", "custom": {"name": "f", "format": {"type": "grammar", "grammar": {"syntax": "lark"}}}},
        "tools.0.custom.format.grammar.definition",
    ),
    ({"type": "custom"}, "tools.0.custom"),
    ({"type": "custom", "custom": {"name": "f", "formt": {"type": "grammar"}}}, "tools.0.custom.formt"),
    ({"type": "custom", "custom": {"name": "f"}, "format": {"type": "grammar"}}, "tools.0.format"),
]


def test_two_tools_of_one_name_and_two_grammars_are_refused():
    with pytest.raises(RequestRefused) as refused:
        read_tools({"tools": [custom("f", "regex", "a"), custom("f", "regex", "b")]})
    assert refused.value.param == "tools.1.custom.name"


@pytest.mark.parametrize(("tool", "param"), REFUSED)
def test_refusals(tool, param):
    with pytest.raises(RequestRefused) as refused:
        read_tools({"tools": [tool]})
    assert refused.value.param == param


def test_a_grammar_where_arguments_are_no_json_is_refused():
    with pytest.raises(RequestRefused) as refused:
        wanted_by({"tools": [SQL]}, NativeFormat("qwen3_coder", "qwen_3_coder"))
    assert refused.value.param == "tools.0.custom.format.grammar.definition"


def test_vllm_sees_functions_only():
    history = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "sql", "input": 'a"'}}],
    }
    body = {"messages": [history], "tools": [SQL, *TOOLS], "tool_choice": {"type": "custom", "custom": {"name": "sql"}}}
    seen = as_vllm_reads(body)
    request = ChatCompletionRequest.model_validate(seen)
    assert _custom_names(request) == {"sql"}
    assert seen["tool_choice"]["function"]["name"] == "sql"
    assert seen["messages"][0]["tool_calls"][0]["function"] == {"name": "sql", "arguments": '{"input": "a\\""}'}
    assert as_functions({"tools": TOOLS, "messages": []}) == {"tools": TOOLS, "messages": []}
    for odd in (
        {"tools": [{"type": "custom"}, 3]},
        {"tool_choice": {"type": "allowed_tools"}},
        {"messages": [{"tool_calls": [3]}]},
    ):
        assert as_vllm_reads(odd) == odd, "vLLM says what is wrong"


def test_custom_tools_that_may_not_be_called_are_functions_too():
    route = Route()
    body = {"messages": [], "tools": [SQL], "tool_choice": "none"}
    assert call(ConstraintMiddleware(route, FakeCompileService()), CHAT, body)[0] == 200
    assert ChatCompletionRequest.model_validate(json.loads(route.body)).tools


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['a "b"\n\\', "é日\U0001f600", ""])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_input_of_every_beginning_is_a_beginning_of_the_input(text, ascii_only):
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    found = [Input().read(arguments[:size]) for size in range(len(arguments) + 1)]
    assert found[-1] == text
    assert all(text.startswith(one) for one in found)
    assert sorted(found, key=len) == found
    by_character = Input()
    parts = [by_character.read(one) for one in arguments]
    assert ["".join(parts[:size]) for size in range(len(arguments) + 1)] == found


def test_what_was_read_of_an_input_is_not_read_again():
    input = Input()
    assert input.read('{"input": "' + "a" * 1_000) == "a" * 1_000
    for _ in range(100):
        assert input.read("b\\") == "b"
        assert len(input._rest) == 1, "the beginning of one character is all that is kept"
        assert input.read("n") == "\n"


def test_an_answer_is_one_that_openais_client_reads():
    calls = [
        {"id": "1", "type": "function", "function": {"name": "sql", "arguments": '{"input": "a\\"b"}'}},
        {"id": "2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": calls},
        "finish_reason": "tool_calls",
    }
    response = ChatCompletionResponse.model_validate({"model": "m", "choices": [choice], "usage": {}})
    _as_custom(response, frozenset({"sql"}))
    first, second = ChatCompletion.model_validate_json(response.model_dump_json()).choices[0].message.tool_calls or []
    assert (first.type, first.custom.name, first.custom.input) == ("custom", "sql", 'a"b')
    assert (second.type, second.function.name) == ("function", "weather")


def test_a_stream_of_custom_calls():
    def chunk(**call) -> str:
        return (
            "data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **call}]}}]}) + "\n\n"
        )

    async def stream():
        yield chunk(id="1", type="function", function={"name": "sql", "arguments": ""})
        for part in ('{"inp', 'ut": "a', "\\", "n\\u00", 'e9"', "}"):
            yield chunk(function={"arguments": part})
        yield "data: [DONE]\n\n"

    async def collect():
        return [event async for event in _custom_stream(stream(), CustomCalls(frozenset({"sql"})))]

    events = asyncio.run(collect())
    assert events[-1] == "data: [DONE]\n\n"
    calls = [json.loads(event[6:])["choices"][0]["delta"]["tool_calls"][0] for event in events[:-1]]
    assert calls[0] == {"index": 0, "id": "1", "type": "custom", "custom": {"name": "sql", "input": ""}}
    assert "".join(call["custom"]["input"] for call in calls) == "a\né"
