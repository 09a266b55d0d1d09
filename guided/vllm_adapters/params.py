"""In: a constraint; out: a value for vLLM's `SamplingParams.extra_args`, and back. Knows neither HTTP nor the engine.

`extra_args` is the one field that vLLM carries untouched from the API server into the worker process, as MessagePack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guided.constraint import FORMAT_VERSION, Constraint

KEY = "guided"  # the name in extra_args; the gateway refuses requests that bring one of their own


@dataclass(frozen=True, slots=True)
class GuidedParams:
    """What the worker is told about one request.

    Attributes:
        digest: of the constraint; names the index in the worker's store.
        canonical_text: of the constraint, for what the file of its index does not have.
        request_id: only for the log.
        fit_budget: the answer has to be complete within the request's tokens.
        may_break_off: the request may be ended where its index would hold up the batch; the gateway goes on with it.
        prefix: tokens at the end of the prompt that belong to the answer: it was broken off after them.
        report: under this name the worker reports what it measures of the masks; see `guided.vllm_adapters.reports`.
        flushes: of the gateway's caches, so far: indexes that were read before the last one are not used any more.
    """

    digest: str
    canonical_text: str
    request_id: str
    fit_budget: bool
    may_break_off: bool = False
    prefix: int = 0
    report: str | None = None
    flushes: int = 0

    @property
    def constraint(self) -> Constraint:
        return Constraint.from_canonical(self.canonical_text)


def to_extra_args(
    extra_args: Mapping[str, Any] | None,
    constraint: Constraint,
    request_id: str,
    *,
    fit_budget: bool = True,
    may_break_off: bool = False,
    report: str | None = None,
    flushes: int = 0,
) -> dict[str, Any]:
    """A copy of `extra_args` in which the constraint travels as well.

    Args:
        fit_budget: the answer has to be complete within the request's tokens; a request whose budget fits no answer fails.
        may_break_off, report, flushes: see `GuidedParams`.
    """
    travelling = {
        "format": FORMAT_VERSION,
        "digest": constraint.digest,
        "constraint": constraint.canonical_text,
        "request_id": request_id,
        "fit_budget": fit_budget,
        "may_break_off": may_break_off,
        "prefix": 0,
        "report": report,
        "flushes": flushes,
    }
    return {**(extra_args or {}), KEY: travelling}


def with_prefix(extra_args: Mapping[str, Any], prefix: int) -> dict[str, Any]:
    """A copy of what `to_extra_args` gave, for a request whose prompt ends with `prefix` tokens of the answer."""
    return {**extra_args, KEY: {**extra_args[KEY], "prefix": prefix}}


def from_extra_args(extra_args: Mapping[str, Any] | None) -> GuidedParams | None:
    """What `to_extra_args` wrote, or None where the request has no constraint.

    Raises:
        ValueError: the entry is there but is not ours, or comes from another format version.
    """
    travelling = (extra_args or {}).get(KEY)
    if travelling is None:
        return None
    if not isinstance(travelling, Mapping) or travelling.get("format") != FORMAT_VERSION:
        raise ValueError(f"extra_args[{KEY!r}] is not a constraint of format version {FORMAT_VERSION}")
    return GuidedParams(
        travelling["digest"],
        travelling["constraint"],
        travelling["request_id"],
        travelling["fit_budget"],
        travelling["may_break_off"],
        travelling["prefix"],
        travelling["report"],
        travelling["flushes"],
    )


def token_budget(guided: GuidedParams, max_tokens: int | None, prompt_tokens: int, max_model_len: int) -> int | None:
    """Most tokens that the engine lets the answer have, those in the prompt counted; None where the answer need not fit."""
    if not guided.fit_budget:
        return None
    room = max_model_len - prompt_tokens
    return guided.prefix + (room if max_tokens is None else min(max_tokens, room))
