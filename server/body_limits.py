"""In: every request with a body; out: the same, its body received whole and within the limits. Parses nothing.

What parses JSON later recurses once per level, and stops the event loop for as long as there are values: so both are bounded before.
"""

from __future__ import annotations

import asyncio
import re
from itertools import accumulate

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import RequestRefused

_ECHOED_NESTING = {"/v1/responses": 200}  # the answer repeats the schema, and Pydantic writes no more than 255 levels
_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
_STRING = re.compile(rb'"[^"]*"')
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - _STEP.keys())


class BodyLimits:
    """Answers 413, 408, 415 or 400 in place of the application where a body goes beyond a limit."""

    def __init__(self, app: ASGIApp, *, most_bytes: int, seconds: float, nesting: int, values: int) -> None:
        """
        Args:
            most_bytes: of a body as it comes in.
            seconds: from its first to its last byte.
            nesting: levels of arrays and objects in a body of JSON.
            values: in it, those within others too.
        """
        self.app = app
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._nesting = nesting
        self._values = values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            _refuse_encoding(headers)
            body, gone = await self._received(headers, receive)
            if not headers.get("content-type", "").startswith("multipart/"):
                self._refuse_structure(body, scope["path"].removeprefix(scope.get("root_path", "")))
        except RequestRefused as refused:
            response = refused.response()
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        if not gone:
            first = _first(body, receive)
            del body  # the application may let it go before it answers
            await self.app(scope, first, send)

    async def _received(self, headers: Headers, receive: Receive) -> tuple[bytes, bool]:
        """The body; and whether the client left while it sent it."""
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return b"", True
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._most_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts), False
        except TimeoutError:
            late = f"the body did not arrive within {self._seconds:g} s"
            raise RequestRefused(late, "request_timeout", status=408) from None

    def _too_large(self) -> RequestRefused:
        return RequestRefused(f"the body is larger than {self._most_bytes:,} bytes", "request_too_large", status=413)

    def _refuse_structure(self, body: bytes, path: str) -> None:
        if b"\0" in body:
            raise RequestRefused("the body is not JSON in UTF-8: it has a byte of value 0", "invalid_request")
        if has_more(body, self._values):
            message = f"the body has more than {self._values:,} values"
            raise RequestRefused(message, "request_too_large", status=413)
        nesting = min(self._nesting, _ECHOED_NESTING.get(path, self._nesting))
        if is_deeper(body, nesting):
            message = f"the body is nested more than {nesting} levels deep"
            raise RequestRefused(message, "constraint_too_complex")


def _refuse_encoding(headers: Headers) -> None:
    """Nobody unpacks a body: a packed one would be no JSON, and the limits hold for what is read."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        message = f"the body has the Content-Encoding {encoding[:80]!r}; send it as it is"
        raise RequestRefused(message, "unsupported_media_type", "Content-Encoding", 415)


def has_more(text: bytes, values: int) -> bool:
    """Are there more than `values` numbers, strings, arrays and the like? Exact for JSON; empty arrays and objects count twice.

    All loops run in C, as in `is_deeper`.
    """
    if _separators(text) < values:
        return False
    unescaped = _without_escapes(text)
    if unescaped.count(b'"') > 4 * values:  # a value has a key and is a string, at most
        return True
    return _separators(_STRING.sub(b"", unescaped)) >= values


def is_deeper(text: bytes, levels: int) -> bool:
    """Are there more than `levels` arrays and objects in one another? Exact for JSON, and for the part before its first error.

    All loops run in C: one pass each to drop escaped characters, strings and what is no bracket, one to add up.
    """
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", _without_escapes(text)).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > levels


def _separators(text: bytes) -> int:
    """What a value other than the outermost has in front of it: a comma, or the beginning of what it is in."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _without_escapes(text: bytes) -> bytes:
    return text.replace(rb"\\", b"").replace(rb"\"", b"")


def _first(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body and then whatever else comes, such as the client's departure."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
