"""In: the JSON body of a request; out: its tools and what it wants called, or a refusal that names the field. Knows no vLLM.

Two routes have tools, and say the same of them: /v1/chat/completions in an object ({"type": "function", "function": {"name": ...}}),
/v1/responses beside the type ({"type": "function", "name": ...}), which is called *flat* here.

OpenAI's custom tools, whose input is a text, are functions of one string to vLLM: see `server.tools.custom`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from guided.limits import Limits
from server.errors import RequestRefused
from server.inner_fields import CUSTOM, FUNCTION, OF_A_TOOL, refuse_unread
from server.request_options import is_on
from server.tools import custom

Choice = Literal["auto", "required"]
_NAME = re.compile(r"[^\s\"'\\<>{}\x00-\x1f]{1,128}")
_NO_PARAMETERS = {"type": "object", "properties": {}}
_MOST_TOOLS = 1_024  # of a request: what is done for each of them holds up the event loop
_KINDS = ("function", "custom")
_ALLOWED = "allowed_tools"  # the type of a choice that lists tools


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called.

    Attributes:
        parameters: the schema of its arguments, always of an object.
        place: where the request says what it is ("tools.0.function").
        field: where the schema is in the request ("tools.0.function.parameters").
        input: of a custom tool: what its input obeys, as a format of structural tags; None: any text.
        strict: the request insists on the parameters.
    """

    name: str
    parameters: Mapping[str, Any]
    place: str
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
        listed: the field that lists which of the tools may be called; None where none does.
    """

    tools: tuple[Tool, ...]
    choice: Choice
    named: bool
    parallel: bool
    listed: str | None = None


def read_tools(
    body: Mapping[str, Any],
    most_bytes: int = Limits().constraint_bytes,
    *,
    flat: bool = False,
    built_in: bool = False,
) -> ToolRequest | None:
    """The tools of a request; None where there are none, or none may be called.

    What vLLM's models refuse by themselves (no tools, a name that none of them has) is left to them.

    Args:
        most_bytes: of the text of all schemas and grammars.
        flat: as /v1/responses has them.
        built_in: tools of other kinds are called by vLLM itself (--tool-server), where the model chooses to.

    Raises:
        RequestRefused: a tool whose name or parameters make no sense, or too many of them.
    """
    tools: Any = body.get("tools")
    choice: Any = "auto" if body.get("tool_choice") is None else body["tool_choice"]
    if not isinstance(tools, list) or not tools or choice == "none":
        return None
    _refuse_many(tools, "tools")
    leaves_out = built_in and choice == "auto"
    found = [
        tool
        for position, value in enumerate(tools)
        if not (leaves_out and _is_built_in(value))
        for tool in _tools(value, f"tools.{position}", flat)
    ]
    _refuse_many(found, "tools")
    _refuse_twins(found)
    _refuse_long(found, most_bytes)
    parallel = body.get("parallel_tool_calls") is None or is_on(body["parallel_tool_calls"])
    if not found:
        return None
    if choice in ("auto", "required"):
        return ToolRequest(tuple(found), choice, named=False, parallel=parallel)
    if isinstance(choice, Mapping):
        return _from_object(choice, found, parallel, flat)
    return None


def as_vllm_reads(body: Mapping[str, Any], *, flat: bool = False) -> dict[str, Any]:
    """The body in terms that vLLM has: neither custom tools nor lists of allowed tools, which are the constraint's business.

    A choice of null is left out: vLLM keeps it, and lets calls out all the same, by another way than those of "auto". Flat custom tools
    are vLLM's too, but for their grammars.
    """
    choice = body.get("tool_choice")
    if choice is None:
        body = {name: value for name, value in body.items() if name != "tool_choice"}
    elif isinstance(choice, Mapping) and choice.get("type") == _ALLOWED:
        allowed, _ = _inside(choice, _ALLOWED, "tool_choice", flat)
        if isinstance(allowed, Mapping) and "mode" in allowed:
            body = {**body, "tool_choice": allowed["mode"]}
    return custom.without_grammars(body) if flat else custom.as_functions(body)


def _inside(value: Any, kind: Any, place: str, flat: bool) -> tuple[Any, str]:
    """What a tool, a reference to one or a choice of this kind says beside its type, and where that is."""
    if not isinstance(value, Mapping) or not isinstance(kind, str):
        return None, place
    return (value, place) if flat else (value.get(kind), f"{place}.{kind}")


def _is_built_in(tool: Any) -> bool:
    return isinstance(tool, Mapping) and tool.get("type") not in (*_KINDS, "namespace")


def _tools(tool: Any, place: str, flat: bool) -> Iterator[Tool]:
    """What one of the tools is: itself, or the functions of a namespace, which vLLM shows to the model under both names."""
    if not (flat and isinstance(tool, Mapping) and tool.get("type") == "namespace"):
        yield _tool(tool, place, flat)
        return
    functions = tool.get("tools")
    if not isinstance(functions, list):
        raise RequestRefused(f"{place}.tools must be an array", "invalid_constraint", f"{place}.tools")
    for position, function in enumerate(functions):
        inner = _tool(function, f"{place}.tools.{position}", flat, ("function",))
        yield replace(inner, name=f"{_name(tool, place)}__{inner.name}")


def _tool(tool: Any, place: str, flat: bool, kinds: tuple[str, ...] = _KINDS) -> Tool:
    kind = tool.get("type", "function") if isinstance(tool, Mapping) else None
    if kind not in kinds:
        message = f"{place}.type must be {' or '.join(kinds)}, not {kind!r}"
        raise RequestRefused(message, "not_enforced", f"{place}.type")
    around, read = place, CUSTOM if kind == "custom" else FUNCTION
    inner, place = _inside(tool, kind, place, flat)
    if not isinstance(inner, Mapping):
        raise RequestRefused(f"{place} must be an object", "invalid_constraint", place)
    name = _name(inner, place)
    refuse_unread(inner, place, (*OF_A_TOOL, *read) if flat else read)
    if not flat:
        refuse_unread(tool, around, (*OF_A_TOOL, kind))
    if kind == "custom":
        wanted, field = custom.read_format(inner.get("format"), f"{place}.format", flat)
        return Tool(name, custom.parameters(name), place, field, wanted)
    field = f"{place}.parameters"
    return Tool(name, _parameters(inner.get("parameters"), field), place, field, strict=bool(inner.get("strict")))


def _name(named: Mapping[str, Any], place: str) -> str:
    name = named.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{place}.name must be a word without quotes, brackets and backslashes, not {name!r}"
        raise RequestRefused(message, "invalid_constraint", f"{place}.name")
    return name


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
            field = f"{tool.place}.name"
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


def _from_object(choice: Mapping[str, Any], tools: Sequence[Tool], parallel: bool, flat: bool) -> ToolRequest | None:
    kind = choice.get("type")
    if not flat and kind in choice:  # else vLLM says what is missing
        refuse_unread(choice, "tool_choice", ("type", str(kind)))
    if kind == _ALLOWED:
        return _allowed(*_inside(choice, _ALLOWED, "tool_choice", flat), tools, parallel, flat)
    if flat and kind not in _KINDS:
        message = f"tool_choice.type must be function, custom or {_ALLOWED}, not {kind!r}"
        raise RequestRefused(message, "not_enforced", "tool_choice.type")
    name = _name_in(choice, kind if kind == "custom" else "function", flat)
    named = tuple(tool for tool in tools if tool.name == name)[:1]
    if flat and not named:  # vLLM would take the name of a function without that of its namespace too
        message = "tool_choice names none of the tools; a function of a namespace is NAMESPACE__FUNCTION"
        raise RequestRefused(message, "invalid_constraint", "tool_choice")
    return ToolRequest(named, "required", named=True, parallel=False) if named else None


def _allowed(allowed: Any, field: str, tools: Sequence[Tool], parallel: bool, flat: bool) -> ToolRequest:
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
        name = _name_in(reference, kind, flat)
        tool = by_name.get(name) if isinstance(name, str) else None
        if tool is None:
            place = f"{field}.tools.{position}"
            raise RequestRefused(f"{place} names none of the tools", "invalid_constraint", place)
        chosen[tool.name] = tool
    return ToolRequest(tuple(chosen.values()), mode, named=False, parallel=parallel, listed=field)


def _name_in(reference: Any, kind: Any, flat: bool) -> Any:
    """The name of the tool that is referred to, if there is one."""
    inner, _ = _inside(reference, kind, "", flat)
    return inner.get("name") if isinstance(inner, Mapping) else None
