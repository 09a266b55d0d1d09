"""In: the JSON body of a request; out: what it wants of its answer beside the constraint. Compiles nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from guided.errors import json_type
from server.errors import RequestRefused
from server.status_errors import VALIDATED


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The part of `guided_options` that goes with every kind of constraint.

    Attributes:
        fit_budget: the answer has to be complete within the request's tokens.
        after: the constraint holds after the first occurrence of this marker in the output, such as "</think>".
        report: the response tells of the constraint and of the masks, see `server.report`.
    """

    fit_budget: bool = True
    after: str | None = None
    report: bool = False


DEFAULTS = RequestOptions()
NAMES = tuple(option.name for option in fields(RequestOptions))
_SWITCH = TypeAdapter(bool)
PENALTIES = (1e-6, 1e6)  # beyond any use, and far from where 32 bits end


def is_on(value: Any) -> bool:
    """As vLLM's models read a switch: 1 and "true" turn it on too."""
    try:
        return _SWITCH.validate_python(value)
    except ValidationError:  # or null; the route refuses what is neither
        return False


def read_options(body: Mapping[str, Any]) -> RequestOptions:
    """The options of a request whose `guided_options`, if it has any, is an object.

    Raises:
        RequestRefused: a value of the wrong type.
    """
    given = body.get("guided_options") or {}
    values = {name: given[name] for name in NAMES if given.get(name) is not None}
    for name, value in values.items():
        wanted, words = (str, "a string") if name == "after" else (bool, "true or false")
        if not isinstance(value, wanted):
            field = f"guided_options.{name}"
            raise RequestRefused(f"{field} must be {words}, not {json_type(value)}", "invalid_constraint", field)
    return RequestOptions(**values)


def refuse_small_budget(
    fewest_tokens: int | None, max_tokens: int | None, field: str, budget_field: str = "max_tokens"
) -> None:
    """Refuses a request whose tokens do not suffice for any answer.

    Args:
        fewest_tokens: of the shortest answer; None where it is not known.
        max_tokens: as the route hands it on: never more than the prompt leaves of the model's context.
        field: the request field of the constraint.
        budget_field: the request field of `max_tokens`.

    Raises:
        RequestRefused: with the number of tokens that are needed.
    """
    if fewest_tokens is not None and max_tokens is not None and fewest_tokens > max_tokens:
        raise _too_small(f"the shortest answer to {field} needs {fewest_tokens} tokens", max_tokens, budget_field)


def no_answer_fits(max_tokens: int | None, field: str, budget_field: str) -> RequestRefused:
    """What the engine found out where the shortest answer was not known beforehand. Arguments as for `refuse_small_budget`."""
    return _too_small(f"no answer to {field} was found that needs as few tokens as there are", max_tokens, budget_field)


def _too_small(what: str, max_tokens: int | None, budget_field: str) -> RequestRefused:
    return RequestRefused(
        f"{what}, and the answer may have {max_tokens} ({budget_field}, or what the prompt leaves of the context); "
        '"guided_options": {"fit_budget": false} allows answers that are cut off',
        "budget_too_small",
        budget_field,
    )


def refuse_extreme_penalty(penalty: float, field: str) -> None:
    """Refuses a repetition penalty that leaves no numbers of the logits, which vLLM applies after the masks.

    In 32 bits -inf, which is what forbidden tokens have, times 0 is no number, and a logit times 1e38 is -inf.

    Args:
        field: the request field of the constraint.

    Raises:
        RequestRefused: with the bounds.
    """
    least, most = PENALTIES
    if not least <= penalty <= most:
        message = f"repetition_penalty beside {field} must be from {least:g} to {most:g}, not {penalty:g}"
        raise RequestRefused(message, "not_enforced", "repetition_penalty")


def refuse_wide_integers(values: Mapping[str, Any]) -> None:
    """Refuses integers of more than 64 bits, which no message to the engine has room for.

    Args:
        values: what is sent there, name -> value.

    Raises:
        RequestRefused: with the name.
    """
    for name, value in values.items():
        if _is_wide(value):
            raise RequestRefused(f"{name} must fit into 64 bits", VALIDATED, name)


def _is_wide(value: object) -> bool:
    if isinstance(value, int):
        return not -(1 << 63) <= value < 1 << 63
    if isinstance(value, dict):
        return any(map(_is_wide, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_wide, value))
