"""In: the JSON body of a chat request; out: its tools and what it wants called, or a refusal that names the field. Knows no vLLM.

OpenAI's custom tools, whose input is a text, are functions of one string to vLLM: see `server.tools.custom`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guided.limits import Limits
from server.errors import RequestRefused
from server.tools import custom

Choice = Literal["auto", "required"]
_NAME = re.compile(r"[^\s\"'\\<>{}\x00-\x1f]{1,128}")
_NO_PARAMETERS = {"type": "object", "properties": {}}
_MOST_TOOLS = 1_024  # of a request: what is done for each of them holds up the event loop


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called.

    Attributes:
        parameters: the schema of its arguments, always of an object.
        field: where the schema is in the request ("tools.0.function.parameters").
        input: of a custom tool: what its input obeys, as a format of structural tags; None: any text.
        strict: the request insists on the parameters.
    """

    name: str
    parameters: Mapping[str, Any]
    field: str
    input: Mapping[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """What a request wants of its tools.

    Attributes:
        tools: those that may be called, at least one.
        choice: "auto": the model decides; "required": at least one call.
        named: the one tool is named by the request; `choice` is "required" then.
        parallel: there may be more than one call.
        listed: the request lists which of its tools may be called.
    """

    tools: tuple[Tool, ...]
    choice: Choice
    named: bool
    parallel: bool
    listed: bool = False


def read_tools(body: Mapping[str, Any], most_bytes: int = Limits().constraint_bytes) -> ToolRequest | None:
    """The tools of a chat request; None where there are none, or none may be called.

    What vLLM's models refuse by themselves (no tools, a name that none of them has) is left to them.

    Args:
        most_bytes: of the text of all schemas and grammars.

    Raises:
        RequestRefused: a tool whose name or parameters make no sense, or too many of them.
    """
    tools: Any = body.get("tools")
    choice: Any = "auto" if body.get("tool_choice") is None else body["tool_choice"]
    if not isinstance(tools, list) or not tools or choice == "none":
        return None
    _refuse_many(tools, "tools")
    found = [_tool(tool, position) for position, tool in enumerate(tools)]
    _refuse_twins(found)
    _refuse_long(found, most_bytes)
    parallel = body.get("parallel_tool_calls") is not False
    if choice in ("auto", "required"):
        return ToolRequest(tuple(found), choice, named=False, parallel=parallel)
    if isinstance(choice, Mapping):
        return _from_object(choice, found, parallel)
    return None


def as_vllm_reads(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body in terms that vLLM has: neither custom tools nor lists of allowed tools, which are the constraint's business.

    A choice of null is left out: vLLM keeps it, and lets calls out all the same, by another way than those of "auto".
    """
    choice = body.get("tool_choice")
    if choice is None:
        body = {name: value for name, value in body.items() if name != "tool_choice"}
    allowed = choice.get("allowed_tools") if isinstance(choice, Mapping) else None
    if isinstance(allowed, Mapping) and "mode" in allowed:
        body = {**body, "tool_choice": allowed["mode"]}
    return custom.as_functions(body)


def _tool(tool: Any, position: int) -> Tool:
    field = f"tools.{position}"
    kind = tool.get("type", "function") if isinstance(tool, Mapping) else None
    if kind not in ("function", "custom"):
        message = f"{field}.type must be function or custom, not {kind!r}"
        raise RequestRefused(message, "not_enforced", f"{field}.type")
    inner = tool.get(kind)
    if not isinstance(inner, Mapping):
        raise RequestRefused(f"{field}.{kind} must be an object", "invalid_constraint", f"{field}.{kind}")
    name = inner.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{field}.{kind}.name must be a word without quotes, brackets and backslashes, not {name!r}"
        raise RequestRefused(message, "invalid_constraint", f"{field}.{kind}.name")
    if kind == "custom":
        wanted, place = custom.read_format(inner.get("format"), f"{field}.custom.format")
        return Tool(name, custom.parameters(name), place, wanted)
    place = f"{field}.function.parameters"
    return Tool(name, _parameters(inner.get("parameters"), place), place, strict=bool(inner.get("strict")))


def _parameters(schema: Any, field: str) -> Mapping[str, Any]:
    """The schema of an object, whatever the schema says: arguments are one."""
    if schema is None or schema == {}:
        return _NO_PARAMETERS
    if not isinstance(schema, Mapping):
        raise RequestRefused(f"{field} must be an object, not {type(schema).__name__}", "invalid_constraint", field)
    return schema if "type" in schema else {"type": "object", **schema}


def _refuse_twins(tools: Sequence[Tool]) -> None:
    seen: dict[str, Tool] = {}
    for tool in tools:
        twin = seen.setdefault(tool.name, tool)
        if twin is not tool and (twin.parameters, twin.input) != (tool.parameters, tool.input):
            field = ".".join(tool.field.split(".")[:3]) + ".name"
            raise RequestRefused(f"{field}: there are two tools named {tool.name!r}", "invalid_constraint", field)


def schema_text(schema: Mapping[str, Any]) -> str:
    """Equal for schemas that are equal, and only for these: to find one among many.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return json.dumps(schema, sort_keys=True)


def _refuse_many(named: Sequence[Any], field: str) -> None:
    if len(named) > _MOST_TOOLS:
        message = f"{field}: {len(named):,} tools are more than the {_MOST_TOOLS:,} that a request may have"
        raise RequestRefused(message, "constraint_too_complex", field)


def _refuse_long(tools: Iterable[Tool], most_bytes: int) -> None:
    left = most_bytes
    for tool in tools:
        try:
            left -= sum(len(schema_text(schema)) for schema in (tool.parameters, tool.input) if schema is not None)
        except RecursionError as error:
            message = f"{tool.field} is nested too deeply"
            raise RequestRefused(message, "constraint_too_complex", tool.field) from error
        if left < 0:
            message = f"tools: the schemas of all together are longer than {most_bytes:,} bytes"
            raise RequestRefused(message, "constraint_too_complex", "tools")


def _from_object(choice: Mapping[str, Any], tools: Sequence[Tool], parallel: bool) -> ToolRequest | None:
    if choice.get("type") == "allowed_tools":
        return _allowed(choice.get("allowed_tools"), tools, parallel)
    function = choice.get("custom" if choice.get("type") == "custom" else "function")
    name = function.get("name") if isinstance(function, Mapping) else None
    named = tuple(tool for tool in tools if tool.name == name)[:1]
    return ToolRequest(named, "required", named=True, parallel=False) if named else None


def _allowed(allowed: Any, tools: Sequence[Tool], parallel: bool) -> ToolRequest:
    field = "tool_choice.allowed_tools"
    if not isinstance(allowed, Mapping) or not isinstance(allowed.get("tools"), list) or not allowed["tools"]:
        raise RequestRefused(f"{field} must be an object with mode and tools", "invalid_constraint", field)
    _refuse_many(allowed["tools"], f"{field}.tools")
    mode = allowed.get("mode")
    if mode not in ("auto", "required"):
        raise RequestRefused(
            f"{field}.mode must be auto or required, not {mode!r}", "invalid_constraint", f"{field}.mode"
        )
    by_name = {tool.name: tool for tool in reversed(tools)}
    chosen: dict[str, Tool] = {}
    for position, reference in enumerate(allowed["tools"]):
        kind = reference.get("type", "function") if isinstance(reference, Mapping) else None
        function = reference.get(kind) if isinstance(kind, str) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        tool = by_name.get(name) if isinstance(name, str) else None
        if tool is None:
            place = f"{field}.tools.{position}"
            raise RequestRefused(f"{place} names none of the tools", "invalid_constraint", place)
        chosen[tool.name] = tool
    return ToolRequest(tuple(chosen.values()), mode, named=False, parallel=parallel, listed=True)
