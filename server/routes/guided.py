"""In: a constraint, without a prompt; out: its digest and what there is to know of it. And the caches, to be emptied. Generates nothing."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from guided.errors import ConstraintError
from guided.workers import Overloaded
from server.callers import ClientLeft, caller_of, overloaded, while_connected
from server.compile_service import CompileService
from server.constraint_middleware import resolve_reference
from server.errors import RequestRefused, from_constraint_error
from server.guided_fields import read_constraint

router = APIRouter()

_CLIENT_LEFT = 499


@router.post("/v1/guided/compile")
async def compile_constraint(request: Request) -> Response:
    """Compiles the constraint of a request that has no prompt, in any of its spellings.

    The answer: "digest" (for `guided_ref`), "closed", "states", "rows", "bytes", "fewest_tokens", "typical_tokens", "most_tokens",
    "max_tokens" (what to ask for), "warnings" and "seconds" (by stage of the compilation, empty where it was done before).
    """
    service: CompileService = request.app.state.compile_service
    try:
        body = _parsed(await request.body())
        wanted = read_constraint(body, await resolve_reference(body, service))
        if wanted is None:
            raise RequestRefused("there is no constraint to compile", "invalid_constraint")
        describing = service.describe(wanted.constraint, caller_of(request.scope))
        try:
            return JSONResponse(await while_connected(request.receive, describing))
        except ConstraintError as error:
            raise from_constraint_error(error, wanted.field) from error
        except Overloaded as error:
            raise overloaded(error) from error
    except RequestRefused as refused:
        return refused.response()
    except ClientLeft:
        return Response(status_code=_CLIENT_LEFT)


@router.post("/v1/guided/cache/flush")
async def flush(request: Request) -> Response:
    """Forgets the indexes of this model in every tier; how many each had. Requests go on: what they use stays theirs."""
    service: CompileService = request.app.state.compile_service
    try:
        return JSONResponse({"removed": await service.flush()})
    except Overloaded as error:
        return overloaded(error).response()


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not JSON: {error}", "invalid_constraint") from error
    if not isinstance(body, dict):
        raise RequestRefused("the body is not an object", "invalid_constraint")
    return body
