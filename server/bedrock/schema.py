"""In: a constraint; out: the JSON Schema of the tool whose call is the answer, and a check of what comes back. Knows no AWS.

Bedrock's models call tools, whose input is an object: a schema of anything else, and a choice, travels as the property `value`.
A model may still break the schema, so `Shape.read` validates every answer by the same schema before anyone sees it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guided.constraint import Constraint
from server.bedrock.checker import CallersChecker
from server.errors import RequestRefused

WRAPPED = "value"


class AnswerInvalid(Exception):
    """The model's answer does not satisfy the constraint; the message says where."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the answer looks like.

    Attributes:
        tool_schema: JSON Schema of the tool's input.
        read: the tool's input -> the text that the client gets; raises AnswerInvalid, and RequestRefused where checking takes too long.
    """

    tool_schema: dict[str, Any]
    read: Callable[[Any], Awaitable[str]]


async def shape_of(constraint: Constraint, field: str, checker: CallersChecker) -> Shape:
    """Raises RequestRefused: a regex or a grammar, or a schema or option that cannot be checked here, by name and place."""
    if constraint.kind == "choice":
        return _choice(constraint.value)
    if constraint.kind != "json":
        raise RequestRefused(
            f"{field}: a {constraint.kind} cannot be enforced on Bedrock, whose models do not show their logits; use JSON or choices",
            "not_enforced",
            field,
        )
    if "whitespace_pattern" in constraint.options:
        raise RequestRefused(f"{field}: whitespace_pattern is not supported on Bedrock", "not_enforced", field)
    closed = constraint.options["additional_properties"] == "declared"
    return _json(await checker.prepared(constraint.value, field, closed=closed), field, checker)


def _choice(choices: list[str]) -> Shape:
    known = frozenset(choices)

    async def read(answer: Any) -> str:
        value = answer.get(WRAPPED) if isinstance(answer, Mapping) else None
        if not isinstance(value, str) or value not in known:
            raise AnswerInvalid(f"{value!r} is none of the choices"[:500])
        return value

    return Shape(_wrap({"type": "string", "enum": choices}), read)


def _json(wanted: Any, field: str, checker: CallersChecker) -> Shape:
    wrapped = not (isinstance(wanted, dict) and wanted.get("type") == "object" and "$ref" not in wanted)

    async def read(answer: Any) -> str:
        if wrapped:
            if not isinstance(answer, Mapping) or set(answer) != {WRAPPED}:
                raise AnswerInvalid(f"the answer is not in {WRAPPED}")
            answer = answer[WRAPPED]
        if problem := await checker.problem(wanted, answer, field):
            raise AnswerInvalid(problem)
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))

    return Shape(_wrap(wanted) if wrapped else wanted, read)


def _wrap(schema: Any) -> dict[str, Any]:
    """An object with one property. Definitions move up, so that references to them keep their meaning."""
    inner = dict(schema) if isinstance(schema, Mapping) else schema
    outer: dict[str, Any] = {"type": "object", "required": [WRAPPED], "additionalProperties": False}
    if isinstance(inner, dict):
        outer |= {key: inner.pop(key) for key in ("$schema", "$defs", "definitions") if key in inner}
    return outer | {"properties": {WRAPPED: inner}}
