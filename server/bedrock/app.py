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
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from server.allowance import Allowance, Allowances
from server.bedrock.cache import AnswerCache
from server.bedrock.checker import Checker
from server.bedrock.engine import Answer, Engine, Spent
from server.bedrock.request import Conversation, read_request
from server.bedrock.settings import BedrockSettings
from server.errors import RequestRefused, refusal
from server.request_body import parse_body, refuse_lone_surrogates
from server.status_errors import of_status

CACHE_THREADS = 16  # reads and writes of the cache at once

logger = logging.getLogger("guided.requests")

_Answered = tuple[Conversation, Answer]


def create_app(
    settings: BedrockSettings, engine: Engine, cache: AnswerCache, checker: Checker, keys: tuple[str, ...] = ()
) -> FastAPI:
    """`keys`: what clients may send; none: the API is open."""
    app = FastAPI(title="guided-server on Bedrock", docs_url=None, redoc_url=None, openapi_url=None)
    app.exception_handler(RequestRefused)(refusal)
    app.exception_handler(HTTPException)(_no_such_route)
    app.exception_handler(Exception)(_unexpected)
    gateway = _Gateway(settings, engine, cache, checker, keys)
    for path in ("/health", "/ready"):
        app.get(path)(_health)
    app.get("/v1/models")(gateway.models)
    app.get("/v1/models/{name:path}")(gateway.model)
    app.post("/v1/chat/completions")(gateway.chat)
    return app


async def _health() -> Response:
    return Response()


async def _no_such_route(request: Request, error: HTTPException) -> Response:
    answer = of_status(error.status_code, str(error.detail or ""), request.scope).response()
    answer.headers.update(error.headers or {})
    return answer


async def _unexpected(_request: Request, _error: Exception) -> Response:
    return RequestRefused("the server failed to answer; its log says why", "internal_error", status=500).response()


@dataclass(slots=True)
class _Gateway:
    settings: BedrockSettings
    engine: Engine
    cache: AnswerCache
    checker: Checker
    keys: tuple[str, ...]
    allowances: Allowances = field(default_factory=Allowances)
    cache_threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(CACHE_THREADS, "cache"))

    async def models(self, request: Request) -> dict[str, Any]:
        self._caller(request)
        return {"object": "list", "data": [_model(name) for name in self.settings.models]}

    async def model(self, request: Request, name: str) -> dict[str, Any]:
        self._caller(request)
        if name not in self.settings.models:
            raise RequestRefused(f"model {name!r} is unknown", "model_not_found", "model", 404)
        return _model(name)

    async def chat(self, request: Request) -> Response:
        """Answers, or refuses; and leaves one line in the log that says what it has cost, however it ended."""
        caller = self._caller(request)
        begin, request_id, spent = time.monotonic(), f"chatcmpl-{uuid.uuid4().hex}", Spent()
        record: dict[str, Any] = {"request_id": request_id, "caller": caller, "status": 500, "cached": False}
        try:
            response = await self._within_limits(request, caller, request_id, spent, record)
            record["status"] = 200
            return response
        except RequestRefused as error:
            record |= {"status": error.status, "code": error.code}
            raise
        finally:
            logger.info(json.dumps(record | asdict(spent) | {"seconds": round(time.monotonic() - begin, 4)}))

    async def _within_limits(
        self, request: Request, caller: str, request_id: str, spent: Spent, record: dict[str, Any]
    ) -> Response:
        settings = self.settings
        limits = Allowance(settings.requests_per_minute, settings.concurrent_requests)
        headers = self.allowances.enter(caller, limits)
        try:
            async with asyncio.timeout(settings.request_seconds):
                body = await _body(request, settings.body_bytes)
                conversation, answer = await _until_it_leaves(request, self._answered(body, caller, spent, record))
        except TimeoutError as error:
            message = f"there was no answer within {settings.request_seconds:g} s"
            raise RequestRefused(message, "timeout", None, 504) from error
        finally:
            self.allowances.leave(caller)
        response = _reply(conversation, answer, spent, request_id)
        response.headers.update(headers)
        return response

    async def _answered(self, body: dict[str, Any], caller: str, spent: Spent, record: dict[str, Any]) -> _Answered:
        settings = self.settings
        conversation = await read_request(
            body, self.checker.of(caller), max_tokens=settings.max_tokens, strict=settings.strict_tools
        )
        record |= {"model": conversation.model, "constraint": conversation.kind}
        key = conversation.cache_key(settings.models.get(conversation.model))
        if key is not None and (kept := await self._in_thread(self.cache.get, key)):
            record["cached"] = True
            answer = Answer(kept["text"], kept["finish_reason"])
        else:
            answer = await self.engine.complete(conversation, spent)
            if key is not None:
                await self._in_thread(self.cache.put, key, asdict(answer))
        record["finish_reason"] = answer.finish_reason
        return conversation, answer

    async def _in_thread(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.cache_threads, work, *arguments)

    def _caller(self, request: Request) -> str:
        """The name of the key that was given, for the log and its limits. Compares with every key, and each in constant time."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        found = [
            n for n, key in enumerate(self.keys, 1) if hmac.compare_digest(given, key.encode())
        ]  # all: no early end
        if self.keys and not found:
            raise RequestRefused("a valid API key is needed: Authorization: Bearer <key>", "invalid_api_key", None, 401)
        return f"key-{found[0]}" if found else "anybody"


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "owned_by": "bedrock"}


async def _until_it_leaves(request: Request, work: Coroutine[Any, Any, _Answered]) -> _Answered:
    """What the work returns; where the client leaves first, the work ends: it asks for no further generation.

    Raises:
        RequestRefused: the client has left, which only the log will tell.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _client_left()
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _client_left() -> RequestRefused:
    return RequestRefused("the client left", "client_left", None, 499)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, most: int) -> dict[str, Any]:
    raw = bytearray()
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > most:
                raise RequestRefused(f"the request is larger than {most} bytes", "request_too_large", None, 413)
    except ClientDisconnect as error:
        raise _client_left() from error
    body = parse_body(bytes(raw))
    if not isinstance(body, dict):
        raise RequestRefused("the request must be a JSON object", "invalid_type")
    refuse_lone_surrogates(body, bytes(raw))
    return body


def _reply(conversation: Conversation, answer: Answer, spent: Spent, request_id: str) -> Response:
    created = int(time.time())
    usage = {
        "prompt_tokens": spent.input_tokens,
        "completion_tokens": spent.output_tokens,
        "total_tokens": spent.input_tokens + spent.output_tokens,
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
