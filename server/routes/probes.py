"""In: a probe's question; out: whether this server is to be sent requests, and what it is. `/health`, that it lives, is vLLM's."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response
from vllm.version import __version__ as VLLM_VERSION

from server.availability import Availability

router = APIRouter()


@router.get("/ready")
async def ready(request: Request) -> Response:
    """200: the engine is up, warm-up is done, nothing shuts down. 503 with the reason otherwise.

    Before that nothing listens yet.
    """
    availability: Availability = request.app.state.availability
    refusal = availability.refusal()
    return Response(status_code=200) if refusal is None else refusal.response()


@router.get("/version")
async def versions() -> Response:
    """vLLM's version by the name that `vllm serve` gives it, and that of this server."""
    return JSONResponse({"version": VLLM_VERSION, "guided_server": version("guided-server")})
