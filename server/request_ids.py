"""In: every request; out: the same with an X-Request-Id, its own or a new one, which the response and the logs carry too.

vLLM makes the ids of its own requests out of that header, so one id is found in all logs and in the answer.
"""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.logs import caller_name, request_id

HEADER = "X-Request-Id"
_CLEAN = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


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
        headers = [(name, value) for name, value in scope["headers"] if name != HEADER.lower().encode()]
        scope["headers"] = [*headers, (HEADER.lower().encode(), identity.encode())]
        request_id.set(identity)
        caller_name.set("-")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = identity
            await send(message)

        await self.app(scope, receive, sending)
