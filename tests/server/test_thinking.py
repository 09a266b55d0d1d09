"""Where thinking ends: sections of an output, vLLM's parsers beside a constraint, and the constraint of what follows a prompt."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from guided.constraint import Constraint
from guided.errors import LimitExceeded
from server.engine import Pending, pending_constraint
from server.errors import RequestRefused
from server.parsers import in_front_of
from server.thinking.parser import SectionsParser, markers_of, switched_off
from server.thinking.sections import Beginning, Sections, Splitter, beginning_after
from server.thinking.serving import think_first
from server.tools.list_parser import NAME, ListParser
from tests.server.fakes import FakeCompileService, TextIndex, compiled

START, END, TURN, TOOL = 1000, 1001, 1002, 1003
NAMES = {START: "<think>", END: "</think>", TURN: "<|turn|>", TOOL: "<tool_call>"}
ANSWER = Constraint.choice(["ok"])
OUTPUTS = {  # output -> (thinking, answer) after each beginning; None: there is no answer
    "</think>ok": {"THINKING": ("", "ok")},
    "a </b> </think>ok": {"THINKING": ("a </b> ", "ok")},
    "a</think>ok</think>": {"THINKING": ("a", "ok</think>")},
    "<think>a</think>ok": {"THINKING": ("a", "ok"), "EITHER": ("a", "ok")},
    "<think>a</think": {"THINKING": ("a</think", None), "EITHER": ("a</think", None)},
    "<thi": {"THINKING": ("<thi", None), "EITHER": ("", "<thi"), "ANSWER": ("", "<thi")},
    "ok": {"THINKING": ("ok", None), "EITHER": ("", "ok"), "ANSWER": ("", "ok")},
    "</think>": {"THINKING": ("", ""), "ANSWER": ("", "</think>"), "EITHER": ("", "</think>")},
    "<think></think>": {"EITHER": ("", ""), "THINKING": ("", "")},
}
CASES = [(output, beginning, *found) for output, each in OUTPUTS.items() for beginning, found in each.items()]


class Tokenizer:
    """Characters are tokens, and so are a few names."""

    all_special_ids: tuple[int, ...] = ()
    all_special_tokens: tuple[str, ...] = ()

    def __init__(self, *, named: bool = True) -> None:
        self.names = NAMES if named else {TURN: NAMES[TURN]}

    def get_vocab(self) -> dict[str, int]:
        return {**{chr(code): code for code in range(1000)}, **self.get_added_vocab()}

    def get_added_vocab(self) -> dict[str, int]:
        return {name: token for token, name in self.names.items()}

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        tokens: list[int] = []
        while text:
            name = next((one for one in self.names.values() if text.startswith(one)), text[0])
            tokens.append(self.get_added_vocab().get(name) or ord(name))
            text = text[len(name) :]
        return tokens

    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        return "".join(self.names.get(token) or chr(token) for token in tokens)


def sections(beginning: str) -> Sections:
    return Sections("<think>", "</think>", Beginning[beginning])


# --- sections ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("output", "beginning", "thinking", "answer"), CASES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_an_output_is_taken_apart_however_it_is_cut_up(output, beginning, thinking, answer, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=6)))
    splitter = Splitter(sections(beginning))
    pieces = [splitter.feed(output[a:b]) for a, b in zip([0, *cuts], [*cuts, len(output)], strict=True)]
    pieces.append(splitter.finish())
    assert ("".join(t for t, _ in pieces), "".join(a for _, a in pieces)) == (thinking, answer or "")


def test_nothing_is_held_back_that_cannot_be_a_marker():
    splitter = Splitter(sections("THINKING"))
    assert [splitter.feed(piece) for piece in ("so", " 1 <", " 2", "</", "think>o", "k")] == [
        ("so", ""),
        (" 1 ", ""),
        ("< 2", ""),
        ("", ""),
        ("", "o"),
        ("", "k"),
    ]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("prompt", "wanted", "found"),
    [
        ("<|turn|>hi<|turn|>", True, "EITHER"),
        ("<|turn|>hi<|turn|>", False, "ANSWER"),
        ("<|turn|>hi<|turn|><think>\n", True, "THINKING"),
        ("<|turn|>hi<|turn|><think>\n", False, "THINKING"),  # the template does not know the switch
        ("<|turn|>hi<|turn|><think>\n\n</think>\n\n", True, "ANSWER"),
        ("<|turn|>hi<|turn|><think>because", True, "THINKING"),
        ("<|turn|>hi<|turn|><think>because</think>It is", True, "ANSWER"),
        ("<|turn|>what is <think>?<|turn|>", True, "EITHER"),
        ("<|turn|><think>x</think>y<|turn|>", True, "EITHER"),
        ("", True, "EITHER"),
    ],
)
def test_the_end_of_the_prompt_says_what_the_output_begins_with(named, prompt, wanted, found):
    tokenizer = Tokenizer(named=named)
    boundaries = frozenset({TURN, TOOL})
    beginning = beginning_after(
        tokenizer.encode(prompt),
        "<think>",
        "</think>",
        decode=tokenizer.decode,
        boundaries=boundaries,
        wanted=wanted,
    )
    assert beginning is Beginning[found]


@pytest.mark.parametrize(
    ("beginning", "output", "count"),
    [
        ("ANSWER", "<think>ab</think>ok", 0),
        ("EITHER", "ok", 0),
        ("EITHER", "<think>abc</think>ok", 3),
        ("EITHER", "<think>abc", 3),
        ("THINKING", "abc</think>ok", 3),
        ("THINKING", "</think>ok", 0),
        ("THINKING", "abc", 3),
        ("THINKING", "", 0),
    ],
)
def test_tokens_of_thinking_are_counted(beginning, output, count):
    tokenizer = Tokenizer()
    assert sections(beginning).count(tokenizer.encode(output), tokenizer.decode) == count


def test_the_constraint_of_an_output():
    assert sections("ANSWER").constraint(ANSWER) == ANSWER
    assert sections("THINKING").constraint(ANSWER) == ANSWER.after("</think>")
    assert sections("EITHER").constraint(ANSWER) == ANSWER.after("</think>", opening="<think>")
    with pytest.raises(LimitExceeded):
        Sections("x" * 201, "</think>", Beginning.EITHER).constraint(ANSWER)


# --- vLLM's parsers ---------------------------------------------------------------------------------------------------

KNOWN = sorted(
    {
        "deepseek_r1",
        "deepseek_v3",
        "deepseek_v4",
        "deepseek_v41",
        "ernie45",
        "glm45",
        "glm47",
        "granite_thinking_parser",
    }
    | {"holo2", "hy_v3", "hy_v4", "k2_horizon", "kimi_k2", "ling3", "mimo", "minimax_m2", "minimax_m3", "mistral"}
    | {"nemotron_v3", "olmo3", "plamo3", "poolside_v1", "qwen3", "seed_oss", "step3", "step3p5"}
)
UNKNOWN = sorted(
    {"cohere_command3", "cohere_command4", "gemma4", "granite", "hf", "hunyuan_a13b", "inkling", "kimi_k3", "minicpmv"}
    | {"minimax_m2_append_think", "muse_glimmer", "openai_gptoss"}
)


class AnyTokenizer(Tokenizer):
    """Has every token that a parser asks for."""

    def get_vocab(self) -> dict[str, int]:
        return Everything()

    def convert_tokens_to_ids(self, token: str) -> int:
        return Everything()[token]


class Everything(dict):
    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: Any, default: Any = None) -> int:
        return self[name]

    def __missing__(self, name: str) -> int:
        return sum(map(ord, name)) + 10_000


def test_every_parser_of_vllm_is_known_to_be_known_or_not():
    """A new one in a new vLLM has to be looked at."""
    assert sorted([*KNOWN, *UNKNOWN]) == ReasoningParserManager.list_registered()


@pytest.mark.parametrize("name", KNOWN)
def test_parsers_whose_markers_are_known(name):
    parser = ParserManager.get_parser(reasoning_parser_name=name)
    assert parser is not None
    start, end = markers_of(parser, AnyTokenizer()) or ("", "")
    assert start[1:-1] == end.replace("/", "").replace("end_", "begin_")[1:-1] != ""


@pytest.mark.parametrize("name", [name for name in UNKNOWN if not name.startswith("cohere")])  # needs a package
def test_parsers_of_other_formats(name):
    parser = ParserManager.get_parser(reasoning_parser_name=name)
    assert parser is not None and markers_of(parser, AnyTokenizer()) is None


@pytest.mark.parametrize(
    ("name", "options", "off"),
    [
        ("deepseek_r1", {}, False),
        ("deepseek_r1", {"enable_thinking": False}, True),
        ("qwen3", {}, False),
        ("qwen3", {"enable_thinking": False}, True),
        ("qwen3", {"reasoning_effort": "none"}, True),
        ("qwen3", {"reasoning_effort": "low", "enable_thinking": True}, False),
        ("deepseek_v3", {}, True),
        ("deepseek_v3", {"thinking": True}, False),
        ("mistral", {}, False),
    ],
)
def test_switches_of_thinking(name, options, off):
    parser = ParserManager.get_parser(reasoning_parser_name=name)
    assert parser is not None and switched_off(parser, AnyTokenizer(), options) is off


def chat(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest(messages=[{"role": "user", "content": "hi"}], **fields)


def tool_parser_of(beginning: str) -> Any:
    ToolParserManager.register_module(NAME, module=ListParser)
    return parser_of("deepseek_r1", beginning, tool_parser_name=NAME, enable_auto_tools=True)


def parser_of(name: str, beginning: str | None, **options: Any) -> Any:
    """As vLLM makes it for a request at hand: the sections are known later."""
    pending = Pending(compiled(ANSWER, TextIndex("ok")))
    token = pending_constraint.set(pending if beginning else None)
    try:
        parser_class = ParserManager.get_parser(reasoning_parser_name=name, **options)
        assert parser_class is not None
        parser = in_front_of(parser_class, SectionsParser)(Tokenizer())
    finally:
        pending_constraint.reset(token)
    if beginning:
        pending.sections = sections(beginning)
    return parser


def streamed(parser: Any, output: str, **fields: Any) -> tuple[str, str]:
    reasoning = content = ""
    tokens = Tokenizer().encode(output)
    for position, token in enumerate(tokens):
        finished = position == len(tokens) - 1
        delta = parser.parse_delta(Tokenizer().decode([token]), [token], chat(**fields), [TURN], finished=finished)
        reasoning += (delta and delta.reasoning) or ""
        content += (delta and delta.content) or ""
    return reasoning, content


@pytest.mark.parametrize("name", ["deepseek_r1", "qwen3", "step3"])
@pytest.mark.parametrize(("output", "beginning", "thinking", "answer"), CASES)
def test_constrained_answers_are_content_whatever_the_parser_makes_of_text(name, output, beginning, thinking, answer):
    assert parser_of(name, beginning).parse(output, chat()) == (thinking or None, answer, [])
    assert streamed(parser_of(name, beginning), output) == (thinking, answer or "")
    hidden = streamed(parser_of(name, beginning), output, include_reasoning=False)
    assert hidden == ("", answer or "")


def test_a_request_without_a_constraint_has_vllms_parser():
    parser = parser_of("deepseek_r1", None)
    assert parser.parse("a</think>b", chat()) == ("a", "b", [])
    assert parser.parse("b", chat())[:2] == ("b", None)
    assert streamed(parser_of("deepseek_r1", None), "a</think>b") == ("a", "b")


def test_reasoning_tokens_of_constrained_answers():
    assert parser_of("deepseek_r1", "THINKING").count_reasoning_tokens(Tokenizer().encode("abc</think>ok")) == 3
    assert parser_of("deepseek_r1", "ANSWER").count_reasoning_tokens(Tokenizer().encode("ok")) == 0


def test_the_answer_alone_goes_on_to_the_tool_parser():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = '[{"name": "f", "parameters": {"a": 1}}]'
    for beginning, thinking in (("THINKING", "so [1] "), ("EITHER", "<think>so [1] "), ("ANSWER", "")):
        output = thinking + ("</think>" if thinking else "") + call
        reasoning, content, calls = tool_parser_of(beginning).parse(
            output, chat(tools=[tool], tool_choice="required"), enable_auto_tools=True
        )
        assert (reasoning, content) == (thinking.removeprefix("<think>") or None, None)
        assert calls is not None and [(one.name, json.loads(one.arguments)) for one in calls] == [("f", {"a": 1})]
        reasoning, arguments = "", ""
        parser = tool_parser_of(beginning)
        tokens = Tokenizer().encode(output)
        for position, token in enumerate(tokens):
            request, finished = chat(tools=[tool], tool_choice="required"), position == len(tokens) - 1
            delta = parser.parse_delta(Tokenizer().decode([token]), [token], request, [TURN], finished=finished)
            if delta is not None:
                reasoning += delta.reasoning or ""
                arguments += "".join(one.function.arguments or "" for one in delta.tool_calls)
                assert not delta.content
        assert (reasoning, json.loads(arguments)) == (thinking.removeprefix("<think>"), {"a": 1})


# --- the choke point --------------------------------------------------------------------------------------------------


class Renderer:
    """Writes the prompt it is told to."""

    use_harmony = False
    model_config = None

    def __init__(self, parser_name: str, prompt: str) -> None:
        self.tokenizer = Tokenizer()
        self.renderer = SimpleNamespace(get_tokenizer=lambda: self.tokenizer)
        self.parser = ParserManager.get_parser(reasoning_parser_name=parser_name)
        self.prompt = prompt
        self.asked = 0

    def effective_chat_template_kwargs(self, request: ChatCompletionRequest) -> dict[str, Any]:
        return request.build_chat_params(None, "auto").chat_template_kwargs

    async def render_chat(self, request: Any) -> Any:
        self.asked += 1
        return [], [{"prompt_token_ids": self.tokenizer.encode(self.prompt)}]

    async def render_responses(self, request: Any) -> Any:
        return SimpleNamespace(engine_input={"prompt_token_ids": self.tokenizer.encode(self.prompt)})


def render(
    prompt: str,
    parser_name: str = "deepseek_r1",
    constraint: Constraint = ANSWER,
    error: Any = None,
    may_be_cut: bool = False,
    **fields: Any,
) -> tuple[Pending, ChatCompletionRequest]:
    async def run() -> tuple[Pending, ChatCompletionRequest]:
        pending = Pending(
            compiled(constraint, TextIndex("ok")), "guided_choice", may_be_cut=may_be_cut, caller="someone"
        )
        token = pending_constraint.set(pending)
        try:
            request = chat(**fields)
            await renderer.render_chat(request)
            return pending, request
        finally:
            pending_constraint.reset(token)

    renderer = Renderer(parser_name, prompt)
    think_first(SimpleNamespace(online_renderer=renderer), FakeCompileService(error))  # type: ignore[arg-type]
    return asyncio.run(run())


@pytest.mark.parametrize(
    ("prompt", "fields", "expected"),
    [
        ("<|turn|>", {}, ANSWER.after("</think>", opening="<think>")),
        ("<|turn|><think>\n", {}, ANSWER.after("</think>")),
        ("<|turn|><think></think>", {}, ANSWER),
        ("<|turn|>", {"chat_template_kwargs": {"enable_thinking": False}}, ANSWER),
        ("<|turn|>", {"reasoning_effort": "none"}, ANSWER),
        ("<|turn|>it is", {"continue_final_message": True, "add_generation_prompt": False}, ANSWER),
        ("<|turn|>", {"include_reasoning": False}, ANSWER.after("</think>", opening="<think>")),
    ],
)
def test_the_constraint_of_what_follows_a_prompt_is_compiled_when_the_prompt_is_known(prompt, fields, expected):
    pending, request = render(prompt, **fields)
    assert pending.compiled.constraint == expected
    assert pending.sections is not None and pending.sections.constraint(ANSWER) == expected
    assert request.skip_special_tokens is (expected == ANSWER)
    assert pending.fewest_tokens == (None if expected == ANSWER else 2)  # of the fake index


def test_the_same_for_responses():
    async def run() -> Pending:
        pending = Pending(compiled(ANSWER, TextIndex("ok")))
        pending_constraint.set(pending)
        await renderer.render_responses(chat())
        return pending

    renderer = Renderer("deepseek_r1", "<|turn|><think>")
    think_first(SimpleNamespace(online_renderer=renderer), FakeCompileService())  # type: ignore[arg-type]
    assert asyncio.run(run()).compiled.constraint == ANSWER.after("</think>")


def test_a_marker_that_the_request_names_itself_wins():
    constraint = ANSWER.after("###")
    for parser_name, found in (("deepseek_r1", Sections("<think>", "###", Beginning.THINKING)), ("granite", None)):
        pending, request = render("<|turn|><think></think>", parser_name, constraint)
        assert (pending.compiled.constraint, pending.sections) == (constraint, found)
        assert request.skip_special_tokens is (found is None)  # the marker has to be in the text


@pytest.mark.parametrize("name", ["granite", "hunyuan_a13b", "openai_gptoss"])
def test_a_constraint_beside_a_format_that_is_not_known_is_refused_by_name(name):
    with pytest.raises(RequestRefused, match=r'"after": MARKER') as raised:
        render("<|turn|>", name)
    assert (raised.value.code, raised.value.param) == ("not_enforced", "guided_choice")


def test_free_text_with_calls_in_it_needs_no_markers():
    pending, _ = render("<|turn|>", "granite", may_be_cut=True)
    assert (pending.compiled.constraint, pending.sections) == (ANSWER, None)


def test_a_stop_token_that_is_a_marker_is_refused():
    with pytest.raises(RequestRefused, match="</think> would end the output") as raised:
        render("<|turn|>", stop_token_ids=[END])
    assert raised.value.param == "stop_token_ids"
    render("<|turn|><think></think>", stop_token_ids=[END])


def test_what_cannot_be_compiled_behind_a_marker_is_refused_with_the_field():
    with pytest.raises(RequestRefused) as raised:
        render("<|turn|>", error=LimitExceeded("too large", limit="states"))
    assert raised.value.param == "guided_choice"


def test_servers_without_a_reasoning_parser_are_left_alone():
    renderer = Renderer("deepseek_r1", "")
    renderer.parser = None
    before = renderer.render_chat
    think_first(SimpleNamespace(online_renderer=renderer), FakeCompileService())  # type: ignore[arg-type]
    assert renderer.render_chat == before
