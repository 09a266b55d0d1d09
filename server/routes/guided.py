"""In: a constraint without a prompt; out: what there is to know of it, its picture. And the caches, to be emptied. Generates nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from guided.constraint import Constraint
from guided.errors import ConstraintError, json_type
from guided.workers import Overloaded
from server.callers import ClientLeft, caller_of, overloaded, while_connected
from server.compile_service import CompileService
from server.constraint_middleware import resolve_reference
from server.enforcement import read_constraint
from server.errors import RequestRefused, from_constraint_error
from server.guided_fields import FIELDS, looks_guided
from server.handover import FIELD as BACKEND
from server.handover import named_backend
from server.inner_fields import refuse_unread
from server.request_body import parse_body
from server.request_fields import refuse_beside_a_constraint_alone
from server.thinking.serving import Thinking

router = APIRouter()

Result = TypeVar("Result")

_CLIENT_LEFT = 499
_OF_THE_OUTPUT = ("digest", "closed", "states", "bytes", "fewest_tokens")
_STAYS = [
    "the indexes of requests that run, until these end; what the engine has in memory, until the next constrained request comes",
    "what other servers on the same folder or Redis have in memory",
]


@router.post("/v1/guided/compile")
async def compile_constraint(request: Request) -> Response:
    """Compiles the constraint of a request that has no prompt, in any of its spellings.

    The answer: "digest" (for `guided_ref`), "closed", "states", "rows", "bytes", "fewest_tokens", "typical_tokens", "most_tokens",
    "max_tokens" (what to ask for), "warnings" and "seconds" (by stage of the compilation, empty where it was done before). On servers that
    separate thinking from answers also "with_thinking": sizes and fewest tokens of the whole output, for each way in which the chat
    template lets it begin.
    """
    service: CompileService = request.app.state.compile_service
    thinking: Thinking | None = request.app.state.thinking

    async def described(constraint: Constraint, caller: str) -> dict[str, Any]:
        facts = await service.describe(constraint, caller)
        if thinking is None:
            return facts
        forms = [await service.describe(form, caller) for form in await thinking.forms(constraint)]
        return {**facts, "with_thinking": [{name: form[name] for name in _OF_THE_OUTPUT} for form in forms]}

    return await _answered(request, described, JSONResponse)


@router.post("/v1/guided/plot")
async def plot_constraint(request: Request) -> Response:
    """The automaton of such a constraint as an SVG picture, its first states if there are many; a schema's with compact whitespace."""
    service: CompileService = request.app.state.compile_service
    return await _answered(request, service.plot, lambda svg: Response(svg, media_type="image/svg+xml"))


@router.post("/v1/guided/cache/flush")
async def flush(request: Request) -> Response:
    """Forgets the indexes of this model in every tier; how many each had, and what stays for the moment. Reads no field."""
    service: CompileService = request.app.state.compile_service
    try:
        if raw := await request.body():
            refuse_unread(_parsed(raw), "", ())
        return JSONResponse({"removed": await service.flush(), "stays": _STAYS})
    except RequestRefused as refused:
        return refused.response()
    except Overloaded as error:
        return overloaded(error).response()


async def _answered(
    request: Request,
    work: Callable[[Constraint, str], Coroutine[Any, Any, Result]],
    response: Callable[[Result], Response],
) -> Response:
    """What `work` finds out about the request's constraint, given it and the caller; or the refusal."""
    try:
        body = _parsed(await request.body())
        refuse_beside_a_constraint_alone(body, looks_guided, FIELDS)
        if backend := named_backend(body):
            message = f"this route compiles for this server's own masks, not for {backend!r}"
            raise RequestRefused(message, "unsupported_parameter", BACKEND)
        wanted = read_constraint(
            body, await resolve_reference(body, request.app.state.compile_service, caller_of(request.scope))
        )
        if wanted is None:
            raise RequestRefused("there is no constraint to compile", "invalid_constraint")
        working = work(wanted.constraint, caller_of(request.scope))
        try:
            return response(await while_connected(request.receive, working))
        except ConstraintError as error:
            raise from_constraint_error(error, wanted.field) from error
        except Overloaded as error:
            raise overloaded(error) from error
    except RequestRefused as refused:
        return refused.response()
    except ClientLeft:
        return Response(status_code=_CLIENT_LEFT)


def _parsed(raw: bytes) -> dict[str, Any]:
    body = parse_body(raw)
    if not isinstance(body, dict):
        raise RequestRefused(f"the body must be an object, not {json_type(body)}", "invalid_type")
    return body
