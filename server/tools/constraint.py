"""In: what a request wants of its tools, and its other constraint, if any; out: the one constraint of both. Compiles nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from guided.constraint import Constraint
from guided.errors import ConstraintError
from server.errors import RequestRefused, from_constraint_error
from server.guided_fields import JSON_OPTIONS, Wanted
from server.tools.conventions import Convention, Format
from server.tools.request import Tool, ToolRequest, schema_text

FIELD = "tools"


def joined(tools: ToolRequest, convention: Convention, other: Wanted | None) -> Wanted | None:
    """Calls as the convention writes them; with another constraint the answer is either calls or what that asks for.

    Args:
        other: the constraint of the request beside its tools.

    Returns:
        None where the model may answer as it likes, since its calls cannot be told from text.

    Raises:
        RequestRefused: a call is required, and something else too, or the format of the calls is not known.
    """
    if tools.choice == "required" and other is not None:
        message = f"only one constraint per request, got {other.field} and tool_choice, which requires a call"
        raise RequestRefused(message, "conflicting_constraints", other.field)
    if tools.choice == "auto" and not convention.knows_auto:
        if other is None:
            _refuse_promises(tools)
            return None
        message = f"tools beside {other.field} are not supported where it is not known how the model writes calls"
        raise RequestRefused(message, "not_enforced", FIELD)
    if other is None:
        constraint = _tag(_calls(convention, tools), {})
    else:
        constraint = _either(replace(tools, choice="required"), convention, other)
    return Wanted(
        FIELD,
        constraint,
        places=_places_of(constraint, tools),
        may_be_cut=tools.choice == "auto" and other is None,  # it is text, apart from the calls
    )


def _refuse_promises(tools: ToolRequest) -> None:
    """Raises RequestRefused if a request whose calls are not constrained asks for what only a constraint keeps."""
    unknown = "is not enforced where it is not known how the model writes calls by itself"
    if tools.listed:
        raise RequestRefused(f"{tools.listed} {unknown}", "not_enforced", tools.listed)
    for tool in tools.tools:
        if tool.strict:
            field = f"{tool.place}.strict"
            raise RequestRefused(f"{field} {unknown}", "not_enforced", field)
        if tool.input is not None:
            raise RequestRefused(f"{tool.field} {unknown}", "not_enforced", tool.field)


def _either(tools: ToolRequest, convention: Convention, other: Wanted) -> Constraint:
    options = {name: value for name, value in other.constraint.options.items() if name in JSON_OPTIONS}
    elements = [_calls(convention, tools), _as_format(other)]
    return _tag({"type": "or", "elements": elements}, options)


def _places_of(constraint: Constraint, tools: ToolRequest) -> dict[str, str]:
    """Where the schemas of a constraint came from: JSON pointer into its structural tag -> field of the request."""
    if constraint.kind != "structural_tag":
        return {"": tools.tools[0].field}
    fields: dict[str, str] = {}
    for tool in tools.tools:
        for schema in (tool.parameters, tool.input):
            if schema is not None:
                fields.setdefault(schema_text(schema), tool.field)
    found = {}
    for pointer, inside in _inside(constraint.value, ""):
        field = fields.get(schema_text(inside))
        if field is not None:
            found[pointer] = field
    return found


def _calls(convention: Convention, tools: ToolRequest) -> Format:
    """What calls look like, the inputs of custom tools included. Raises RequestRefused as `_with_inputs` does."""
    custom = {schema_text(tool.parameters): tool for tool in reversed(tools.tools) if tool.input is not None}
    format = convention.format(tools)
    return _with_inputs(format, custom) if custom else format


def _with_inputs(value: Any, custom: Mapping[str, Tool]) -> Any:
    """A format in which the arguments of custom tools that have a grammar obey it.

    Args:
        custom: text of the parameters -> such a tool.

    Raises:
        RequestRefused: they are not written as JSON.
    """
    if isinstance(value, list):
        return [_with_inputs(one, custom) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") != "json_schema":
        return {key: _with_inputs(one, custom) for key, one in value.items()}
    tool = custom.get(schema_text(value["json_schema"]))
    if tool is None:
        return value
    if value.get("style", "json") != "json":
        message = f"{tool.field} is not enforced in a format whose arguments are no JSON"
        raise RequestRefused(message, "not_enforced", tool.field)
    return {"type": "tag", "begin": '{"input": ', "content": {"type": "json_string", "content": tool.input}, "end": "}"}


def _tag(format: Format, options: Mapping[str, Any]) -> Constraint:
    try:
        if format["type"] == "json_schema" and "style" not in format:
            return Constraint.json_schema(format["json_schema"], **options)
        return Constraint.structural_tag({"type": "structural_tag", "format": format}, **options)
    except ConstraintError as error:
        raise from_constraint_error(error, FIELD) from error


def _as_format(other: Wanted) -> Format:
    value, options = other.constraint.value, other.constraint.options
    if "after" not in options and "avoid" not in options:
        match other.constraint.kind:
            case "json":
                return {"type": "json_schema", "json_schema": value}
            case "regex":
                return {"type": "regex", "pattern": value}
            case "choice":
                return {"type": "or", "elements": [{"type": "const_string", "value": one} for one in value]}
            case "grammar" if not options:
                return {"type": "grammar", "grammar": value}
            case "structural_tag" if "format" in value:
                return value["format"]
    raise RequestRefused(f"tools beside {other.field} are not supported", "not_enforced", FIELD)


def _inside(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """The schemas in a structural tag, and the formats that are JSON strings, with the pointers of what errors are about."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _inside(one, f"{pointer}/{number}")
    elif isinstance(value, dict) and value.get("type") == "json_string":
        content = value["content"]
        yield f"{pointer}/content/{'pattern' if content['type'] == 'regex' else 'grammar'}", content
    elif isinstance(value, dict):
        for key, one in value.items():
            if key == "json_schema":
                yield f"{pointer}/{key}", one
            else:
                yield from _inside(one, f"{pointer}/{key}")
