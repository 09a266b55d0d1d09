"""In: the bytes of a request; out: its JSON value, or a refusal that says at which byte, line or digit it is none. Knows no fields."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Scope

from guided.constraint import TwiceNamed, named_once
from server.errors import RequestRefused


def is_json(scope: Scope) -> bool:
    """Is the body said to be JSON? One of which nothing is said counts as such."""
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"application/json")
    return kind.partition(b";")[0].strip().lower().endswith(b"json")


def parse_body(raw: bytes) -> Any:
    """The JSON value of a request; None where its body is empty.

    Raises:
        RequestRefused: it is not JSON in UTF-8, or too deep or its numbers too long to be read, or an object has a name
            twice. NaN and Infinity are not JSON.
    """
    if not raw:
        return None
    try:
        return _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        raise RequestRefused(f"the body is not UTF-8 (byte {error.start})", "invalid_json") from error
    except RecursionError as error:
        raise RequestRefused("the request is nested too deeply", "constraint_too_complex") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise RequestRefused(f"the body is not JSON: {error.msg} ({place})", "invalid_json") from error
    except TwiceNamed as error:
        raise RequestRefused(f"in the body {error}, and only the last would be read", "invalid_json") from error
    except ValueError as error:  # an integer of thousands of digits, which Python refuses to read
        raise RequestRefused("the body has an integer of too many digits", "invalid_json") from error


def _refuse_constant(name: str) -> None:
    raise RequestRefused(f"the body is not JSON: {name} is not a number of JSON", "invalid_json")


# `json.loads` makes one for each call, which takes longer than a small body.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=named_once)


def refuse_lone_surrogates(body: dict[str, Any], raw: bytes) -> None:
    """vLLM answers 500 to some fields that are not Unicode text (request_id, bad_words), so none gets there."""
    if rb"\ud" not in raw.lower():
        return
    for name, value in body.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(f"{name} contains a lone surrogate", "invalid_constraint", name) from error
        except RecursionError as error:
            raise RequestRefused(f"{name} is nested too deeply", "constraint_too_complex", name) from error
