"""In: a request that names one of vLLM's own backends; out: its constraint, for that backend. Asks and compiles nothing.

`guided_decoding_backend` of xgrammar, guidance, outlines or auto leaves the constraint to vLLM: its keywords, its whitespace, its
behaviour at the budget's end. What its backends take no notice of is refused here by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guided.constraint import Constraint
from server.enforcement import refuse_contradictions
from server.errors import RequestRefused
from server.guided_fields import VLLM_BACKENDS, Wanted

if TYPE_CHECKING:
    from vllm.sampling_params import StructuredOutputsParams

FIELD = "guided_decoding_backend"

_DEFAULT_OPTIONS: tuple[dict[str, Any], ...] = ({}, Constraint.json_schema({}).options)
_KINDS = ("json", "regex", "choice", "grammar")


@dataclass(slots=True)
class HandedOver:
    """The constraint of the request at hand, where vLLM enforces it.

    Attributes:
        backend: one of VLLM_BACKENDS.
        field: the request field of the constraint.
        constraint: as the request says it, without options.
        outputs: what the engine is given for it; None until the backend has taken it.
        taken: the engine has seen it.
    """

    backend: str
    field: str
    constraint: Constraint
    outputs: StructuredOutputsParams | None = None
    taken: bool = False

    def in_vllms_words(self) -> dict[str, Any]:
        """Fields of vLLM's `structured_outputs`. A schema is a text, which costs the engine least."""
        kind, value = self.constraint.kind, self.constraint.value
        return {kind: json.dumps(value) if kind == "json" else value}


def named_backend(body: Mapping[str, Any]) -> str | None:
    """The backend of vLLM that a request names; None for this server's own."""
    name = body.get(FIELD)
    return name if name in VLLM_BACKENDS else None


def hand_over(body: Mapping[str, Any], wanted: Wanted, backend: str, *, with_tools: bool = False) -> HandedOver:
    """The constraint for the backend.

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
    return HandedOver(backend, wanted.field, wanted.constraint)


def _refuse(what: str, backend: str, field: str | None = None) -> None:
    message = f"{what} is not read by vLLM's backends; leave out {FIELD} {backend!r} for this server's own"
    raise RequestRefused(message, "not_enforced", field or what)
