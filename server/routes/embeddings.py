"""In: requests that only other kinds of models can answer; out: a refusal that says so. Used where vLLM has no such route."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.responses import Response

from server.errors import RequestRefused

PATHS = (
    "/v1/embeddings",
    "/embeddings",
    "/v2/embed",
    "/pooling",
    "/classify",
    "/score",
    "/v1/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
)


async def refuse() -> Response:
    """A generating model has none of these."""
    message = (
        "the model of this server generates text; embeddings, scores and classes need a model that was trained for them"
    )
    raise RequestRefused(message, "unsupported_model", "model")


def add_refusals(app: FastAPI) -> None:
    """Adds the routes that `app` does not have yet, outside of its documentation."""
    present = {getattr(route, "path", None) for route in app.routes}
    router = APIRouter()
    for path in PATHS:
        if path not in present:
            router.add_api_route(path, refuse, methods=["POST"], include_in_schema=False)
    app.include_router(router)
