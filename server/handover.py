"""In: a request that names one of vLLM's own backends; out: the request as vLLM's models read it, and that backend. Compiles nothing.

`guided_decoding_backend` of xgrammar, guidance, outlines or auto leaves the constraint to vLLM: its keywords, its whitespace, its
behaviour at the budget's end. What its backends take no notice of is refused here by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from guided.constraint import Constraint
from server.errors import RequestRefused
from server.guided_fields import Wanted, refuse_contradictions, without_constraint

FIELD = "guided_decoding_backend"
NAMES = ("xgrammar", "guidance", "outlines", "auto")

_DEFAULT_OPTIONS: tuple[dict[str, Any], ...] = ({}, Constraint.json_schema({}).options)
_KINDS = ("json", "regex", "choice", "grammar")
_READ_BY_VLLM = (
    "response_format.json_schema",
    "text.format",
)  # spellings that stay in the body; json_object has no schema there


@dataclass(slots=True)
class HandedOver:
    """The constraint of the request at hand, where vLLM enforces it.

    Attributes:
        backend: one of NAMES.
        field: the request field of the constraint.
        taken: the engine has seen it.
    """

    backend: str
    field: str
    taken: bool = False


class BackendOfRequest:
    """vLLM's configuration of structured outputs, as the request at hand wants it."""

    def __init__(self, config: Any, pending: ContextVar[Any]) -> None:
        self._config = config
        self._pending = pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    @property
    def backend(self) -> str:
        pending = self._pending.get()
        return pending.backend if isinstance(pending, HandedOver) else self._config.backend


def named_backend(body: Mapping[str, Any]) -> str | None:
    """The backend of vLLM that a request names; None for this server's own."""
    name = body.get(FIELD)
    return name if name in NAMES else None


def hand_over(
    body: Mapping[str, Any], wanted: Wanted, backend: str, *, with_tools: bool = False
) -> tuple[HandedOver, dict[str, Any]]:
    """The constraint for the engine, and the body with the constraint in vLLM's spelling.

    Args:
        with_tools: there are tools that may be called.

    Raises:
        RequestRefused: the request wants of the constraint what vLLM's backends do not give.
    """
    if body.get("guided_options"):
        _refuse("guided_options", backend)
    if wanted.constraint.options not in _DEFAULT_OPTIONS:
        _refuse(f"an option of {wanted.field}", backend, wanted.field)
    if body.get("use_beam_search"):
        _refuse("use_beam_search", backend)
    if with_tools or wanted.constraint.kind not in _KINDS:
        _refuse("tools" if with_tools else wanted.field, backend)
    refuse_contradictions(body, wanted.field)
    rest = without_constraint(body)
    if wanted.field == "response_format":
        del rest["response_format"]
    if not wanted.field.startswith(_READ_BY_VLLM):
        kind, value = wanted.constraint.kind, wanted.constraint.value
        rest["structured_outputs"] = {kind: json.dumps(value) if isinstance(value, bool) else value}
    return HandedOver(backend, wanted.field), rest


def _refuse(what: str, backend: str, field: str | None = None) -> None:
    message = f"{what} is not read by vLLM's backends; leave out {FIELD} {backend!r} for this server's own"
    raise RequestRefused(message, "not_enforced", field or what)
