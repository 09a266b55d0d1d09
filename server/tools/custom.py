"""OpenAI's custom tools, whose input is a text: functions of one string to vLLM, and back again in its answers. Knows no vLLM.

`input` of such a function is the text; a grammar of the tool is what the string spells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from server.errors import RequestRefused
from server.inner_fields import refuse_unread

_MARK = "custom tool"  # in the parameters of the function that stands for one
_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_BEGINNING = '{"input":"'
_BODY = re.compile(
    r'(?:[^"\\]|\\u(?![dD][89aAbB])[0-9a-fA-F]{4}|\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\[^u])*'
)


def parameters(name: str) -> dict[str, Any]:
    """The parameters of the function that stands for a custom tool."""
    return {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "$comment": f"{_MARK} {name}",
    }


def read_format(value: Any, field: str, flat: bool) -> tuple[dict[str, Any] | None, str]:
    """What the input of a custom tool obeys, as a format of structural tags, and the field that says it.

    Args:
        flat: as /v1/responses has it, a grammar beside its type.

    Raises:
        RequestRefused: it is neither text nor a grammar of a known syntax.
    """
    if value is None or value == {"type": "text"}:
        return None, field
    grammar = value if isinstance(value, Mapping) and value.get("type") == "grammar" else None
    place = field
    if grammar is not None and not flat:
        grammar, place = grammar.get("grammar"), f"{field}.grammar"
        refuse_unread(value, field, ("type", "grammar"))
    if not isinstance(grammar, Mapping):
        raise RequestRefused(f"{field} must be of type text or grammar", "invalid_constraint", field)
    syntax, definition = grammar.get("syntax"), grammar.get("definition")
    if not isinstance(definition, str):
        raise RequestRefused(f"{place}.definition must be a string", "invalid_constraint", f"{place}.definition")
    refuse_unread(grammar, place, ("type", "syntax", "definition") if flat else ("syntax", "definition"))
    match syntax:
        case "lark":
            return {"type": "grammar", "grammar": definition}, f"{place}.definition"
        case "regex":
            return {"type": "regex", "pattern": definition}, f"{place}.definition"
    message = f"{place}.syntax must be lark or regex, not {syntax!r}"
    raise RequestRefused(message, "invalid_constraint", f"{place}.syntax")


def as_functions(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body whose custom tools, and calls of them in its messages, are functions."""
    changed = dict(body)
    if isinstance(body.get("tools"), list):
        changed["tools"] = [_function(tool) for tool in body["tools"]]
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") == "custom":
        changed["tool_choice"] = {"type": "function", "function": choice.get("custom")}
    if isinstance(body.get("messages"), list):
        changed["messages"] = [_message(message) for message in body["messages"]]
    return changed


def without_grammars(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of /v1/responses whose custom tools take any text: vLLM has such tools itself there, but none with a grammar."""
    changed = dict(body)
    if isinstance(body.get("tools"), list):
        changed["tools"] = [_without(tool, "format") if _is_custom(tool) else tool for tool in body["tools"]]
    return changed


def _is_custom(tool_or_call: Any) -> bool:
    return isinstance(tool_or_call, Mapping) and tool_or_call.get("type") == "custom"


def _function(tool: Any) -> Any:
    inner = tool.get("custom") if _is_custom(tool) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(name, str):
        return tool
    function = {"name": name, "parameters": parameters(name)}
    if inner.get("description") is not None:
        function["description"] = inner["description"]
    return {"type": "function", "function": function}


def _message(message: Any) -> Any:
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_function_call(call) for call in calls]}


def _function_call(call: Any) -> Any:
    inner = call.get("custom") if _is_custom(call) else None
    if not isinstance(inner, Mapping):
        return call
    arguments = json.dumps({"input": inner.get("input", "")}, ensure_ascii=False)
    return {
        **_without(call, "custom"),
        "type": "function",
        "function": {"name": inner.get("name"), "arguments": arguments},
    }


def _without(call: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name != key}


# --- answers ----------------------------------------------------------------------------------------------------------


def stands_for_custom(function_parameters: Any) -> bool:
    """Are these the parameters of a function that stands for a custom tool?"""
    mark = function_parameters.get("$comment") if isinstance(function_parameters, Mapping) else None
    return isinstance(mark, str) and mark.startswith(_MARK)


class Input:
    """The text in the arguments of such a function, read as they are written."""

    def __init__(self) -> None:
        self._rest = ""  # that was not read yet: the beginning of the arguments, or of one character
        self._begun = False

    def read(self, part: str) -> str:
        """The text of one more part of the arguments."""
        self._rest += part
        if not self._begun:
            begin = _BEGIN.match(self._rest)
            if begin is None:
                return ""
            self._begun = True
            self._rest = self._rest[begin.end() :]
        body = _BODY.match(self._rest)
        assert body is not None, "it matches no characters too"
        self._rest = self._rest[body.end() :]
        return json.loads(f'"{body[0]}"', strict=False)


def cut_input(arguments: str) -> str | None:
    """The text in the arguments of such a function that were cut off; None where they are something else."""
    begin = _BEGIN.match(arguments)
    if begin is None and not _BEGINNING.startswith("".join(arguments.split())):
        return None
    return Input().read(arguments)


class CustomCalls:
    """The calls of one answer, in which those of custom tools become what OpenAI calls them."""

    def __init__(self, names: frozenset[str]) -> None:
        """`names`: of the custom tools."""
        self._names = names
        self._inputs: dict[tuple[int, int], Input] = {}  # of custom calls so far: (choice, call)

    def in_message(self, call: dict[str, Any]) -> dict[str, Any]:
        """A whole call of an answer."""
        function = call["function"]
        if function["name"] not in self._names:
            return call
        inner = {"name": function["name"], "input": Input().read(function["arguments"])}
        return {**_without(call, "function"), "type": "custom", "custom": inner}

    def in_chunk(self, choice: int, call: dict[str, Any]) -> dict[str, Any]:
        """A part of a call in a stream."""
        function = call.get("function") or {}
        key = choice, call["index"]
        if function.get("name") in self._names:
            self._inputs[key] = Input()
        if key not in self._inputs:
            return call
        inner = {"input": self._inputs[key].read(function.get("arguments") or "")}
        if function.get("name"):
            inner["name"] = function["name"]
        return {**_without(call, "function"), **({"type": "custom"} if call.get("type") else {}), "custom": inner}
