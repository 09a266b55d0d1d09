"""In: every request; out: the same with an X-Request-Id, its own or a new one, which the response and the logs carry too.

vLLM makes the ids of its own requests out of that header, so one id is found in all logs and in the answer.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.logs import caller_name, error_code, request_id

HEADER = "X-Request-Id"
_CLEAN = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


_GIVEN = "request_id_given"  # in the request's state: the header is the client's own


def let_body_name(scope: Scope, body: Mapping[str, Any]) -> None:
    """Where the client sent no header, `request_id` in the body is the id that vLLM's requests and answers have."""
    if body.get("request_id") and not scope.get("state", {}).get(_GIVEN, True):
        _drop_header(scope)


def _drop_header(scope: Scope) -> None:
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name != HEADER.lower().encode()]


class RequestIds:
    """The outermost application: errors that nothing else answers have an id as well."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        # What does not look like an id could forge lines of a log; it is replaced, as proxies do.
        identity = given if _CLEAN.fullmatch(given) else uuid.uuid4().hex
        _drop_header(scope)
        scope["headers"] = [*scope["headers"], (HEADER.lower().encode(), identity.encode())]
        scope.setdefault("state", {})[_GIVEN] = identity == given
        request_id.set(identity)
        caller_name.set("-")
        error_code.set("-")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = identity
            await send(message)

        await self.app(scope, receive, sending)
