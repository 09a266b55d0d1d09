"""In: a request's body and the constraint in it; out: the constraint as this server keeps it, or a refusal of what it would not keep.

What else the body asks for either becomes part of the constraint (a marker, stop strings, tools) or is refused by name where it would
break the promise. On routes that enforce nothing every spelling of a constraint is refused. Compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from guided.constraint import Constraint
from guided.errors import ConstraintError
from server.errors import RequestRefused, from_constraint_error
from server.guided_fields import Body, Wanted, looks_guided, read_spelling
from server.observation import note_kind
from server.request_options import read_options

JoinTools = Callable[[Wanted | None], Wanted | None]

NOTHING_ALONE = ("guided_options", "guided_decoding_backend")  # say something of a constraint
_INTEGER = TypeAdapter(int)

# Fields that change where or how the output ends or is chosen, in ways that would break the promise.
CONTRADICTIONS: dict[str, str] = {
    "use_beam_search": "beam search does not go through the masks",
    "repetition_detection": "it could cut the answer in the middle",
    "include_stop_str_in_output": "it would add text behind the complete answer",
    "ignore_eos": "the answer has to end where the constraint is complete",
}


def read_constraint(
    body: Body, referred: Constraint | None = None, join_tools: JoinTools | None = None
) -> Wanted | None:
    """The constraint of a request, as this server enforces it: with its options, and without what a stop string would cut.

    Args:
        referred: what `guided_ref` stands for.
        join_tools: makes one constraint of the request's tools and its other constraint; None: there are no tools to call.

    Raises:
        RequestRefused: more than one constraint, an unknown or malformed field, or something that is not enforced.
    """
    found = read_spelling(body, referred)
    if join_tools is not None:
        found = join_tools(found)
        if found is not None:
            note_kind(found.constraint.kind)
    if found is None:
        for name in NOTHING_ALONE:
            if body.get(name):
                raise RequestRefused(f"{name} needs a constraint beside it", "invalid_constraint", name)
        return None
    refuse_contradictions(body, found.field)
    options = read_options(body)
    constraint = _after_marker(found.constraint, options.after)
    if not found.may_be_cut:
        constraint = _with_stop_strings(constraint, body.get("stop"))
    return replace(found, constraint=constraint, options=options)


def _after_marker(constraint: Constraint, marker: str | None) -> Constraint:
    if marker is None:
        return constraint
    try:
        return constraint.after(marker)
    except ConstraintError as error:
        raise from_constraint_error(error, "guided_options.after") from error


def _with_stop_strings(constraint: Constraint, stop: Any) -> Constraint:
    """The constraint without answers that a stop string would cut: what is left ends where it is complete."""
    strings = [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list):  # anything else is for vLLM's models to refuse
        return constraint
    try:
        return constraint.avoiding(string for string in strings if string != "")  # vLLM ignores empty ones
    except ConstraintError as error:
        raise from_constraint_error(error, "stop") from error


def refuse_contradictions(body: Body, field: str) -> None:
    """Raises RequestRefused for a field that would break the promise of the constraint in `field`."""
    for name, why in CONTRADICTIONS.items():
        if body.get(name):
            raise _not_enforced(name, f"{name} beside {field} is not supported: {why}")


def refuse_text_stop_ids(body: Body, field: str, is_text: Callable[[int], bool]) -> None:
    """Raises RequestRefused if `stop_token_ids` names a token that may be part of the answer to the constraint in `field`."""
    stop_ids = body.get("stop_token_ids")
    for token_id in stop_ids if isinstance(stop_ids, list) else ():  # anything else is for vLLM's models to refuse
        try:
            number = _INTEGER.validate_python(token_id)  # as vLLM's models read it: true, "5" and 5.0 are some
        except ValidationError:
            continue
        if is_text(number):
            why = f"token {number} is text, and could cut the answer in the middle"
            raise _not_enforced("stop_token_ids", f"stop_token_ids beside {field} are not supported: {why}")


def without_constraint(body: Body) -> dict[str, Any]:
    """The body as vLLM's own models should see it. `response_format` stays: chat templates may show it to the model.

    But for structural tags, which vLLM's models would have xgrammar read, on the event loop.
    """
    left = {name: v for name, v in body.items() if not name.startswith("guided_") and name != "structured_outputs"}
    shown = left.get("response_format")
    if isinstance(shown, Mapping) and shown.get("type") == "structural_tag":
        del left["response_format"]
    return left


# --- routes that enforce nothing --------------------------------------------------------------------------------------


def refuse_any_constraint(body: Body, path: str) -> None:
    """For routes on which constraints are not enforced: raises RequestRefused if the body asks for one in any spelling."""
    for name in body:
        if looks_guided(name) and body[name] is not None:
            raise _not_enforced(name, f"{name} is not enforced on {path}")
    asked = {
        "structured_outputs": body.get("structured_outputs"),
        "response_format": body.get("response_format"),
        "output_format": body.get("output_format"),
        "output_config": body.get("output_config"),
    }
    for name, value in asked.items():
        if value is not None and not (isinstance(value, Mapping) and value.get("type") == "text"):
            raise _not_enforced(name, f"{name} is not enforced on {path}; use /v1/chat/completions or /v1/completions")
    refuse_enforced_tools(body)


def refuse_enforced_tools(body: Body) -> None:
    """For routes without tools of ours: raises RequestRefused for calls that promise a schema; those that promise nothing pass."""
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") in ("auto", "none"):  # as Anthropic's clients say it
        choice = choice["type"]
    tools = body.get("tools")
    if choice == "none" or not isinstance(tools, list):
        return
    if choice not in (None, "auto"):
        raise _not_enforced(
            "tool_choice",
            "tool_choice other than none and auto is not enforced on this route; use /v1/chat/completions or /v1/responses",
        )
    for position, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        for place, holder in ((f"tools.{position}.function.strict", function), (f"tools.{position}.strict", tool)):
            if isinstance(holder, Mapping) and holder.get("strict"):
                raise _not_enforced(place, "strict tools are not enforced on this route; use /v1/chat/completions")


def _not_enforced(field: str, message: str) -> RequestRefused:
    return RequestRefused(message, "not_enforced", field)
