"""In: the tools of a request and the server's tool parser; out: how their calls are written, as a structural tag. Compiles nothing.

Where the parser's format is one that vLLM or xgrammar has a structural tag for, that tag is taken, with each tool's parameters as
its schema. Other parsers read vLLM's JSON list where a call is required; what they read besides is not known here. Without a parser
calls are written as that JSON list too (`server.tools.list_parser`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
from vllm.parser import ParserManager
from vllm.tool_parsers import ToolParser
from vllm.tool_parsers.structural_tag_registry import get_model_structural_tag, limit_to_single_tool_call
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from guided.compiler import build_network
from guided.constraint import Constraint
from guided.errors import ConstraintError
from guided.limits import Budget
from server.errors import RequestRefused
from server.tools.request import Tool, ToolRequest

logger = logging.getLogger(__name__)

Format = dict[str, Any]  # of a structural tag

# What templates keep out of free text lest the model thinks aloud again; with a reasoning parser that is what it has to do.
_THINKING = frozenset({"<think>", "</think>"})
# Their tags let required arguments out, or need the tokenizer or the whole of a chat format.
_LOOSE = frozenset({"harmony", "hy_v4", "kimi_k3"})
_PROBE = Tool("probe", {"type": "object", "properties": {"a": {"type": "string"}}}, "tools.0", "tools.0.parameters")


@dataclass(frozen=True, slots=True)
class NativeFormat:
    """The format of a model family, as vLLM's registry of structural tags has it."""

    name: str
    model: str
    knows_auto: bool = True

    def format(self, wanted: ToolRequest) -> Format:
        """Raises RequestRefused: the parameters are nested deeper than pydantic writes."""
        tools = [_as_vllm(tool) for tool in wanted.tools]
        choice = _named(wanted.tools[0]) if wanted.named else wanted.choice
        level = ToolStrictLevel.PARAMETER
        try:
            tag = get_model_structural_tag(self.model, tools, choice, reasoning=False, strict_level=level)
            assert tag is not None, "there are tools, and they may be called"
            if not wanted.parallel:
                limit_to_single_tool_call(tag)
            return _without_thinking(tag.format.model_dump())
        except PydanticSerializationError as error:
            message = f"tools are nested too deeply for the format of --tool-call-parser {self.name}"
            raise RequestRefused(message, "constraint_too_complex", "tools") from error


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """vLLM's own: the arguments of a named tool, a list of {"name", "parameters"} where any may be called."""

    name: str
    knows_auto: bool = False

    def format(self, wanted: ToolRequest) -> Format:
        if wanted.named:
            return {"type": "json_schema", "json_schema": wanted.tools[0].parameters}
        calls = {
            "type": "tags_with_separator",
            "tags": [_json_call(tool) for tool in wanted.tools],
            "separator": ", ",
            "at_least_one": True,
            "stop_after_first": not wanted.parallel,
        }
        return {"type": "tag", "begin": "[", "content": calls, "end": "]"}


JSON_CALLS = JsonCalls("JSON")


@dataclass(frozen=True, slots=True)
class UnknownFormat:
    """A parser that reads required calls in a format that is not known here either."""

    name: str
    knows_auto: bool = False

    def format(self, wanted: ToolRequest) -> Format:
        message = (
            f"tool_choice other than none and auto is not enforced in the format of --tool-call-parser {self.name}"
        )
        raise RequestRefused(message, "not_enforced", "tool_choice")


# How calls are written: `name` is for error messages, `knows_auto` whether calls that the model makes by itself can be told from text,
# `format` what the output is, text with calls or only calls.
Convention = NativeFormat | JsonCalls | UnknownFormat


def convention_of(parser_name: str | None, enable_auto_tools: bool, model_name: str) -> Convention:
    """How calls are written on a server with these flags."""
    parser = ParserManager.get_tool_parser(parser_name, enable_auto_tools, model_name)
    if parser is None or parser_name is None:
        return JSON_CALLS
    found = _native(parser_name, parser)
    if found is not None:
        return found
    return JsonCalls(parser_name) if parser.supports_required_and_named else UnknownFormat(parser_name)


def _native(name: str, parser: type[ToolParser]) -> NativeFormat | None:
    """The parser's structural tag, if it has one that can be enforced."""
    model = parser.structural_tag_model
    if (
        model is None or model in _LOOSE or parser.supports_required_and_named
    ):  # with VLLM_ENFORCE_STRICT_TOOL_CALLING=0
        return None
    found = NativeFormat(name, model)
    try:
        for choice in ("auto", "required"):
            wanted = ToolRequest((_PROBE,), choice, named=False, parallel=True)
            build_network(Constraint.structural_tag({"format": found.format(wanted)}), Budget())
    except (ConstraintError, ValueError) as error:
        logger.warning("calls in the format of --tool-call-parser %s are not constrained: %s", name, error)
        return None
    return found


def _as_vllm(tool: Tool) -> ChatCompletionToolsParam:
    function = {"name": tool.name, "parameters": tool.parameters, "strict": True}
    return ChatCompletionToolsParam.model_validate({"type": "function", "function": function})


def _named(tool: Tool) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionNamedToolChoiceParam

    return ChatCompletionNamedToolChoiceParam.model_validate({"type": "function", "function": {"name": tool.name}})


def _json_call(tool: Tool) -> Format:
    return {
        "type": "tag",
        "begin": f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "parameters": ',
        "content": {"type": "json_schema", "json_schema": tool.parameters},
        "end": "}",
    }


def _without_thinking(value: Any) -> Any:
    """The format, but for what it keeps out of free text on account of reasoning."""
    if isinstance(value, dict):
        inside = {
            key: one if key == "json_schema" else _without_thinking(one)
            for key, one in value.items()
            if one is not None
        }
        if isinstance(inside.get("excludes"), list):
            inside["excludes"] = [string for string in inside["excludes"] if string not in _THINKING]
        return inside
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_thinking(one) for one in value]
    return value
