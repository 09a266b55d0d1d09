"""In: every answer on its way out; out: the same, errors in OpenAI's body whoever wrote them. Knows no constraint and no engine.

An error may come from vLLM's serving classes ({"error": {"code": 400, ...}}), from its authentication, from FastAPI ({"detail": ...}) or
from within a stream. Clients of OpenAI's endpoint read `type`, `code` and `param`; here they find them in all of these.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticSerializationError, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.entrypoints.serve.exception_handling.handlers.vllm_error import vllm_error_handler
from vllm.exceptions import VLLMError, VLLMValidationError
from vllm.v1.engine.exceptions import EngineGenerateError

from server.errors import RequestRefused, refusal
from server.logs import error_code
from server.status_errors import CODES, code_of, of_status
from server.validation import from_part_of_a_message, from_validation, from_vllm_validation, without_place

_LATE = "ValidatorIterator"  # pydantic's name of a list that is read when it is needed
_IN_A_STREAM = b'data: {"error"'
_OF_A_RESPONSE = b"event: error\ndata: "

logger = logging.getLogger(__name__)


class OpenAIErrors:
    """An ASGI middleware outside of all others, so that their refusals pass it too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, _Answer(scope, send).take)


class _Answer:
    """One answer on its way out.

    The start of a stream waits for its first event: where the engine refuses a request only when it begins, that is an error, and the
    status is the one that the request gets without `stream`.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._held: Message | None = None  # the start: of an error, or of a stream that has had no event yet
        self._body = b""  # of an error, as far as it is known
        self._over = False  # an error was sent in place of a stream, of which the rest is dropped

    async def take(self, message: Message) -> None:
        """The application's `send`."""
        if message["type"] == "http.response.start" and (message["status"] >= 400 or _is_stream(message)):
            self._held = message
        elif self._over:
            return
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._held is None:
            body: bytes = message.get("body", b"")
            await self._send({**message, "body": _events(body)} if body.startswith(_IN_A_STREAM) else message)
        elif self._held["status"] >= 400:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await _send_error(self._held, self._body, self._scope, self._send)
        elif message.get("body") or not message.get("more_body", False):
            await self._begin(self._held, message)

    async def _begin(self, start: Message, first: Message) -> None:
        """A stream, of which this is the first event."""
        refused = _error_in(first.get("body", b""))
        self._held, self._over = None, refused is not None
        if refused is None:
            await self._send(start)
            await self.take(first)
        else:
            await _send_refused(start, refused, self._send)


def install_handlers(app: FastAPI) -> None:
    """Exceptions that leave a route become OpenAI's error at once. To be called after vLLM's own handlers are installed."""
    app.exception_handler(RequestRefused)(refusal)
    app.exception_handler(RequestValidationError)(_validation)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(StarletteHTTPException)(_http)
    app.exception_handler(VLLMError)(_vllm)
    for kind in (ValueError, TypeError, OverflowError, NotImplementedError, Exception):  # as vLLM has them
        app.exception_handler(kind)(_unexpected)


async def _validation(_request: Request, error: RequestValidationError) -> Response:
    errors = error.errors()
    if errors and isinstance(errors[0], str):  # vLLM's only use of it: the body is not said to be JSON
        return RequestRefused(errors[0], CODES[415], "Content-Type", 415).response()
    return from_validation(errors, error.body).response()


async def _http(request: Request, error: StarletteHTTPException) -> Response:
    refused = of_status(error.status_code, str(error.detail or ""), request.scope)
    answer = refused.response()
    answer.headers.update(error.headers or {})
    return answer


async def _vllm(request: Request, error: VLLMError) -> Response:
    if isinstance(error, VLLMValidationError):
        return from_vllm_validation(error).response()
    if isinstance(error, EngineGenerateError):  # vLLM says nothing of it
        logger.error("a request failed in %s", _where(error.__cause__ or error))
    return await vllm_error_handler(request, error)


def _where(error: BaseException) -> str:
    """The kind of an error and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__


async def _unexpected(_request: Request, error: Exception) -> Response:
    """Our bug or vLLM's; what it says may quote prompts and paths, which is for the log and not for the client."""
    if isinstance(error, ValidationError) and error.title == _LATE:
        return from_part_of_a_message(error.errors(include_input=False, include_url=False)).response()
    logger.error("a request failed in %s", _where(error))  # what the error says may quote a prompt
    if isinstance(error, PydanticSerializationError) and "depth" in str(error):  # vLLM copies tools and the like so
        return RequestRefused("the request is nested too deeply", "constraint_too_complex").response()
    if isinstance(error, TypeError):  # in vLLM always a request's value of another type than the code expected
        return RequestRefused("a field of the request has a value of the wrong type", "invalid_type").response()
    if isinstance(
        error, NotImplementedError
    ):  # a route of vLLM's for other kinds of models, or a field it does not do yet
        return RequestRefused(str(error) or "the model does not support this", "unsupported_model").response()
    found = create_error_response(error).error
    if found.code < 500:
        return _from_vllm(found.code, found.model_dump()).response()
    return RequestRefused("the server failed to answer; its log says why", "internal_error", status=500).response()


async def _send_error(start: Message, body: bytes, scope: Scope, send: Send) -> None:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    error = said.get("error") if isinstance(said, Mapping) else None
    if isinstance(error, Mapping) and isinstance(error.get("code"), str):
        error_code.set(error["code"])
        await send(start)
        await send({"type": "http.response.body", "body": body})
        return
    if isinstance(error, Mapping):
        refused = _from_vllm(start["status"], error)
    else:
        detail = error or (said.get("detail") if isinstance(said, Mapping) else None)
        refused = of_status(start["status"], detail if isinstance(detail, str) else "", scope)
    await _send_refused(start, refused, send)


async def _send_refused(start: Message, refused: RequestRefused, send: Send) -> None:
    """The refusal in place of the answer that `start` would begin, with its headers."""
    answer = refused.response()
    replaced = [name for name, _ in answer.raw_headers]
    headers = [(name, value) for name, value in start["headers"] if name.lower() not in replaced]
    error_code.set(refused.code)
    await send({**start, "status": refused.status, "headers": [*headers, *answer.raw_headers]})
    await send({"type": "http.response.body", "body": bytes(answer.body)})


def _from_vllm(status: int, error: Mapping[str, Any]) -> RequestRefused:
    """The refusal that vLLM says in its own form, where `code` is the HTTP status."""
    message, parameter = without_place(str(error.get("message") or ""))
    parameter = error.get("param") or parameter
    code = code_of(status)
    if status == 404 and (parameter == "model" or message.startswith("The model `")):  # Anthropic's form has no param
        parameter = "model"
        code = "model_not_found"
    elif "maximum context length" in message:
        code = "context_length_exceeded"
    return RequestRefused(_words(message) or HTTPStatus(status).phrase, code, parameter, status)


def _events(body: bytes) -> bytes:
    """Error events of a stream; what follows them in the same piece stays."""
    refused = _error_in(body)
    if refused is None:
        return body
    _, separator, rest = body.partition(b"\n\n")
    return b"data: " + json.dumps(refused.body()).encode() + separator + rest


def _error_in(body: bytes) -> RequestRefused | None:
    """The error in the first event of `body` that is not yet in the words of clients: vLLM's, or a refusal of ours with its status."""
    if not body.startswith((_IN_A_STREAM, _OF_A_RESPONSE)):
        return None
    try:
        said = json.loads(body.partition(b"\n\n")[0].partition(b"data: ")[2])
        error = said if body.startswith(_OF_A_RESPONSE) else said["error"]
    except (ValueError, KeyError):
        return None
    if isinstance(error, Mapping) and "status" in error:
        return RequestRefused(**{one.name: error[one.name] for one in fields(RequestRefused)})
    if body.startswith(_OF_A_RESPONSE) or not isinstance(error, Mapping) or isinstance(error.get("code"), str):
        return None
    return _from_vllm(error.get("code") or 500, error)


def _is_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return headers.get(b"content-type", b"").startswith(b"text/event-stream")


def _words(message: str) -> str:
    """vLLM's sentence, which may end with what is meant for its programmers."""
    return without_place(message)[0].strip()
