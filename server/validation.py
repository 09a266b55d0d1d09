"""In: what vLLM's request models and code refused; out: the same refusal in the words of JSON, with the place in the request.

vLLM's messages speak Python (`'loc': ('body', 'function-wrap[...]')`); a client sent JSON. Knows no routes and no engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vllm.exceptions import VLLMValidationError

from guided.errors import json_type
from server.errors import RequestRefused

_TYPES = {  # pydantic's error type -> what the value has to be
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "a boolean",
    "bool_parsing": "a boolean",
    "list_type": "an array",
    "iterable_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "typed_dict_type": "an object",
    "bytes_type": "a string",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_LENGTHS = {
    "too_short": ("min_length", "at least", "items"),
    "too_long": ("max_length", "at most", "items"),
    "string_too_short": ("min_length", "at least", "characters"),
    "string_too_long": ("max_length", "at most", "characters"),
}
_MOST_ALTERNATIVES = 6
_MOST_SHOWN = 60  # characters of a value in a message
_PLACE = re.compile(r" \((?:parameter=(?P<parameter>[\w.]+))?(?:, )?(?:value=.*)?\)$", re.DOTALL)
_NAMED = re.compile(r"`?([a-z]+(?:_[a-z]+)*)`? (?:must|cannot|is not|are not|=|has)")
_VALUE_ERROR = re.compile(r"^(Value|Assertion) error, ")

Place = tuple[str | int, ...]


def from_validation(errors: Sequence[Mapping[str, Any]], body: Any) -> RequestRefused:
    """The refusal of a request that does not fit its model.

    Args:
        errors: pydantic's, as FastAPI collects them; of a union every branch has its own.
        body: the request, as JSON values.
    """
    placed = [(_place(error, body), error) for error in errors]
    wrong = [
        one for one in placed if one[1]["type"] != "literal_error"
    ] or placed  # a literal often only names a branch
    deepest = max(len(place) for place, _ in wrong)
    place = next(place for place, _ in wrong if len(place) == deepest)
    same = [error for other, error in wrong if other == place]
    field, value = pointer(place), _value(body, place)
    if any(error["type"] == "missing" for error in same):
        return RequestRefused(f"{field or 'the request'} is missing", "missing_required_parameter", field or None)
    others = [error for error in same if error["type"] not in _TYPES]
    if not others:
        names = list(dict.fromkeys(_TYPES[error["type"]] for error in same))
        wanted = " or ".join(names[:_MOST_ALTERNATIVES])
        message = f"{field or 'the body'} must be {wanted}, not {_shown(value, names)}"
        return RequestRefused(message, "invalid_type", field or None)
    parameter = getattr(others[0].get("ctx", {}).get("error"), "parameter", None)
    message, inner = without_place(_VALUE_ERROR.sub("", str(others[0]["msg"])))
    return RequestRefused(
        _sentence(field, others[0], message, value), "invalid_value", parameter or inner or field or None
    )


def from_part_of_a_message(errors: Sequence[Mapping[str, Any]]) -> RequestRefused:
    """The refusal of a part of a message's content, which pydantic reads only when vLLM does, and does not say of which message.

    Args:
        errors: pydantic's, each at (position of the part, branch of the union, field, ...); a branch is meant whose `type` is no error.
    """
    others = {error["loc"][:2] for error in errors if error["type"] == "literal_error"}
    meant = [error for error in errors if error["loc"][:2] not in others]
    if not meant:
        kinds = " or ".join(dict.fromkeys(str(e["ctx"]["expected"]) for e in errors if e["type"] == "literal_error"))
        message = f"messages: a part of the content must be of type {kinds}"
        return RequestRefused(message, "invalid_value", "messages")
    position, _, *inside = meant[0]["loc"]
    field = ".".join(map(str, inside)) or "it"
    where = f"messages: in part {position} of the content {field}"
    if meant[0]["type"] == "missing":
        return RequestRefused(f"{where} is missing", "missing_required_parameter", "messages")
    wanted = _TYPES.get(meant[0]["type"], "valid")
    return RequestRefused(f"{where} must be {wanted}", "invalid_type", "messages")


def from_vllm_validation(error: VLLMValidationError) -> RequestRefused:
    """The refusal of one of vLLM's own checks, which name the field, if only in the sentence."""
    message, parameter = without_place(str(error.args[0]))
    named = _NAMED.match(message)
    return RequestRefused(message, "invalid_value", error.parameter or parameter or (named and named[1]))


def without_place(message: str) -> tuple[str, str | None]:
    """A message of vLLM without the "(parameter=max_tokens, value=-1)" at its end, and that parameter."""
    found = _PLACE.search(message)
    if found is None or found.group() == " ()":
        return message, None
    return message[: found.start()], found["parameter"]


def pointer(place: Place) -> str:
    """A place in the request: the field, and a JSON pointer inside it ("messages#/0/content")."""
    if not place:
        return ""
    first, *rest = (str(part).replace("~", "~0").replace("/", "~1") for part in place)
    return first + ("#" + "".join(f"/{part}" for part in rest) if rest else "")


def _sentence(field: str, error: Mapping[str, Any], message: str, value: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{field} must be {words} {context[name]}, not {_quoted(value)}"
    if kind in _LENGTHS:
        name, words, things = _LENGTHS[kind]
        return f"{field} must have {words} {context[name]} {things}"
    if kind == "literal_error":
        return f"{field} must be {context['expected']}, not {_quoted(value)}"
    if kind == "finite_number":
        return f"{field} must be a finite number"
    if kind == "value_error":
        return message or f"{field} is not valid"
    return f"{field}: {message or 'not valid'}" if field else (message or "the request is not valid")


def _place(error: Mapping[str, Any], body: Any) -> Place:
    """The part of pydantic's location that leads through the request: the rest names branches of unions and validators."""
    place: list[str | int] = []
    value = body
    steps = [step for step in error["loc"] if step != "body" or (isinstance(body, Mapping) and "body" in body)]
    for position, step in enumerate(steps):
        if _has(value, step):
            value = value[step]
            place.append(step)
        elif position + 1 == len(steps) and error["type"] == "missing":
            place.append(step)
    return tuple(place)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value


def _value(body: Any, place: Place) -> Any:
    for step in place:
        body = body[step] if _has(body, step) else None
    return body


def _shown(value: Any, names: Sequence[str]) -> str:
    """The type of a value, or the value where its type is right."""
    kind = json_type(value)
    number = kind == "an integer" and "a number" in names
    return _quoted(value) if kind in names or number or (kind == "a string" and names != ["a string"]) else kind


def _quoted(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json_type(value)
    try:
        text = (
            repr(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else str(value).lower()
        )
    except ValueError:  # an integer of more digits than Python prints
        return "that"
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
