"""In: a refusal (ours or the library's); out: OpenAI's error body with its HTTP status. Knows no routes and no engine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from guided.errors import ConstraintError

_KINDS = {429: "rate_limit_error"}  # HTTP status -> OpenAI's type, where it is not the usual one


@dataclass(slots=True)
class RequestRefused(Exception):
    """A request that is answered with an error before anything is generated.

    Attributes:
        message: one or more sentences for people, never empty.
        code: machine-readable, stable, such as "invalid_constraint" or "conflicting_constraints".
        param: the request field, with a JSON pointer ("guided_json#/properties/a") or a column ("guided_regex:12").
        status: HTTP status.
        retry_seconds: when it makes sense to try again; becomes the Retry-After header.
    """

    message: str
    code: str
    param: str | None = None
    status: int = 400
    retry_seconds: int | None = None

    def __str__(self) -> str:
        return self.message

    def body(self) -> dict[str, Any]:
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def event(self) -> str:
        """The data of an event of a stream, with all attributes: `server.error_bodies` makes of it what clients get."""
        return json.dumps({"error": asdict(self)})

    def response(self) -> Response:
        """The body in ASCII: a message that quotes the request may hold a lone surrogate, which UTF-8 cannot say."""
        headers = None if self.retry_seconds is None else {"Retry-After": str(self.retry_seconds)}
        return Response(
            json.dumps(self.body()), status_code=self.status, headers=headers, media_type="application/json"
        )


async def refusal(_request: Request, error: RequestRefused) -> Response:
    """The exception handler for refusals that come from within a route."""
    return error.response()


def from_constraint_error(error: ConstraintError, field: str) -> RequestRefused:
    """The library's refusal of the constraint that came in request field `field`."""
    return RequestRefused(f"{field}: {error.describe()}", error.code, place(error, field))


def place(error: ConstraintError, field: str) -> str:
    """`field` with the place inside it: a JSON pointer, a line and column, or a column (both from 1)."""
    if error.pointer is not None:
        return f"{field}#{error.pointer}"
    if error.column is not None:
        return f"{field}:{error.line}:{error.column + 1}" if error.line else f"{field}:{error.column + 1}"
    return field
