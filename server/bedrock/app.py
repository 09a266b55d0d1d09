"""In: settings and an engine; out: the FastAPI application. Starts nothing and knows no AWS.

The OpenAI surface of the vLLM gateway as far as Bedrock can honour it: chat completions and models. Streams come in one piece, since
an answer is validated before its first byte is sent.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from server.bedrock.cache import AnswerCache
from server.bedrock.engine import Answer, Engine
from server.bedrock.request import Conversation, read_request
from server.bedrock.settings import BedrockSettings
from server.errors import RequestRefused

logger = logging.getLogger("guided.requests")


def create_app(settings: BedrockSettings, engine: Engine, cache: AnswerCache, keys: tuple[str, ...] = ()) -> FastAPI:
    """`keys`: what clients may send; none: the API is open."""
    app = FastAPI(title="guided-server on Bedrock", docs_url=None, redoc_url=None)

    @app.exception_handler(RequestRefused)
    async def refused(_: Request, error: RequestRefused) -> Response:
        response = error.response()
        if error.status in (429, 503):
            response.headers["Retry-After"] = "2"
        return response

    @app.get("/health")
    @app.get("/ready")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        _authorise(request, keys)
        return {
            "object": "list",
            "data": [{"id": m, "object": "model", "owned_by": "bedrock"} for m in settings.models],
        }

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        _authorise(request, keys)
        begin, request_id = time.monotonic(), f"chatcmpl-{uuid.uuid4().hex}"
        record: dict[str, Any] = {"request_id": request_id, "status": 500, "cached": False}
        try:
            body = await _body(request, settings.body_bytes)
            conversation = read_request(body, max_tokens=settings.max_tokens, strict=settings.strict_tools)
            record |= {"model": conversation.model, "constraint": conversation.kind}
            key = conversation.cache_key(settings.models.get(conversation.model))
            answer = await _answer(conversation, key, engine, cache, record)
            record |= {"status": 200, **{k: v for k, v in asdict(answer).items() if k != "text"}}
            return _reply(conversation, answer, request_id)
        except RequestRefused as error:
            record |= {"status": error.status, "code": error.code}
            raise
        finally:
            logger.info(json.dumps(record | {"seconds": round(time.monotonic() - begin, 4)}))

    return app


async def _answer(
    conversation: Conversation, key: str | None, engine: Engine, cache: AnswerCache, record: dict[str, Any]
) -> Answer:
    if key is not None and (kept := await asyncio.to_thread(cache.get, key)):
        record["cached"] = True
        return Answer(kept["text"], kept["finish_reason"], attempts=0)
    answer = await engine.complete(conversation)
    if key is not None:
        await asyncio.to_thread(cache.put, key, {"text": answer.text, "finish_reason": answer.finish_reason})
    return answer


def _authorise(request: Request, keys: tuple[str, ...]) -> None:
    """Compares with every key, and each in constant time."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
    if keys and sum(hmac.compare_digest(given, key.encode()) for key in keys) == 0:  # a sum: no early end
        raise RequestRefused("a valid API key is needed: Authorization: Bearer <key>", "invalid_api_key", None, 401)


async def _body(request: Request, most: int) -> dict[str, Any]:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > most:
            raise RequestRefused(f"the request is larger than {most} bytes", "request_too_large", None, 413)
    try:
        body = json.loads(raw)
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError as error:
        raise RequestRefused("the request is nested too deeply", "constraint_too_complex") from error
    except UnicodeEncodeError as error:
        raise RequestRefused("the request contains a lone surrogate", "invalid_request") from error
    except ValueError as error:
        raise RequestRefused(f"the request is not JSON: {error}", "invalid_request") from error
    if not isinstance(body, dict):
        raise RequestRefused("the request must be a JSON object", "invalid_request")
    return body


def _reply(conversation: Conversation, answer: Answer, request_id: str) -> Response:
    created = int(time.time())
    usage = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    head = {"id": request_id, "created": created, "model": conversation.model}
    if not conversation.stream:
        message = {"role": "assistant", "content": answer.text}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": None}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def events() -> AsyncIterator[str]:
        deltas = [({"role": "assistant", "content": answer.text}, None), ({}, answer.finish_reason)]
        for delta, reason in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            yield _event({**head, "object": "chat.completion.chunk", "choices": [choice]})
        if conversation.with_usage:
            yield _event({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
