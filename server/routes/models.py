"""In: the name of a model; out: what there is to know of it, as OpenAI's endpoint says it. vLLM lists models and describes none."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from server.errors import RequestRefused

router = APIRouter()


@router.get("/v1/models/{model:path}")
async def show_model(model: str, request: Request) -> Response:
    """One of the models that `GET /v1/models` lists, adapters included. 404 for any other name."""
    cards = (await request.app.state.openai_serving_models.show_available_models()).data
    for card in cards:
        if card.id == model:
            return JSONResponse(card.model_dump())
    served = ", ".join(card.id for card in cards[:10])
    raise RequestRefused(
        f"the model {model[:200]!r} does not exist; this server has {served}", "model_not_found", "model", 404
    )
