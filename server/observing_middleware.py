"""In: every POST request that callers may send; out: the same answer, and an observation for whoever records them. Changes nothing.

The outermost middleware: what authentication and limits refuse is observed too.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.access import Access, access_to
from server.observation import Observation, current

ROUTES = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/guided/compile",
    "/v1/guided/plot",
    "/invocations",
)
OTHER = "other"

_ERROR_BYTES = 1 << 16  # of an error body that is looked into
_CODE = re.compile(r"[a-z][a-z_]{1,39}")

Recorder = Callable[[Observation], None]
Around = Callable[[Scope, Observation], AbstractContextManager[Any]]


class ObservingMiddleware:
    """`record`: called with each request that is over; `around`: what is entered for the time of the request, such as a span."""

    def __init__(self, app: ASGIApp, record: Sequence[Recorder] = (), around: Around | None = None) -> None:
        self.app = app
        self._record = record
        self._around = around or (lambda scope, seen: nullcontext())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or scope["method"] != "POST" or access_to(path) is not Access.CALLER:
            await self.app(scope, receive, send)
            return
        seen = Observation(path if path in ROUTES else OTHER)
        token = current.set(seen)
        try:
            with self._around(scope, seen):
                try:
                    await self.app(scope, _listening(receive, seen), _noting(send, seen))
                except Exception:
                    seen.broke = True
                    raise
                finally:
                    seen.end = time.time()
        finally:
            current.reset(token)
            if seen.background:
                seen.over = partial(self._is_over, seen)
            else:
                self._is_over(seen)

    def _is_over(self, seen: Observation) -> None:
        if seen.over is not None:
            seen.over, seen.end = None, time.time()
        for record in self._record:
            record(seen)


def _listening(receive: Receive, seen: Observation) -> Receive:
    """A `receive` that notes the client's departure, if the answer is not complete by then."""

    async def listening() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect" and not seen.complete:
            seen.left = True
        return message

    return listening


def _noting(send: Send, seen: Observation) -> Send:
    """A `send` that notes status and, of a refusal, its code."""
    error = bytearray()

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            seen.status = message["status"]
        elif message["type"] == "http.response.body":
            seen.complete = not message.get("more_body", False)
            if seen.status >= 400 and len(error) < _ERROR_BYTES:
                error.extend(message.get("body", b""))
                if seen.complete:
                    seen.code = code_of(bytes(error), seen.status)
        await send(message)

    return noting


def code_of(body: bytes, status: int) -> str:
    """The code in OpenAI's error body; the HTTP status where it has none, as vLLM's own errors."""
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        code = None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else str(status)
