"""In: every request; out: the same, if its path, its key and what its caller has used allow it, or a refusal. Reads no body.

An ASGI middleware inside the count of requests and CORS, so that refusals are counted and browsers may read them, and outside
everything that reads a body: who may not ask is not listened to.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.access import Access, access_to
from server.allowance import Allowance, Allowances
from server.availability import Availability
from server.callers import CALLER, caller_of
from server.errors import RequestRefused
from server.keys import ApiKey, KeyRing
from server.logs import caller_name

LISTENER = "guided.listener"  # key of the scope
ADMIN_PORT = "admin"  # its value for what comes in on the admin port
METRICS = "/metrics"


class Gate:
    """Decides who is let in."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyRing,
        availability: Availability,
        allowance: Allowance,
        open_paths: Collection[str] = (),
        admin_port: bool = False,
    ) -> None:
        """
        Args:
            allowance: of each caller whose key names none of its own.
            open_paths: paths that need no key here.
            admin_port: the routes of operators are on a port of their own, and not here.
        """
        self.app = app
        self._keys = keys
        self._availability = availability
        self._allowance = allowance
        self._open_paths = frozenset(open_paths)
        self._admin_port = admin_port
        self._allowances = Allowances()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        access = access_to(path)
        if access is Access.PUBLIC:
            await self.app(scope, receive, send)
            return
        try:
            key = self._let_in(path, access, scope)
            await self._answer(key, access, scope, receive, send)
        except RequestRefused as refused:
            await _refuse(refused, scope, receive, send)

    def _let_in(self, path: str, access: Access, scope: Scope) -> ApiKey | None:
        """The caller's key; None where none is needed. Raises RequestRefused."""
        on_admin_port = scope.get(LISTENER) == ADMIN_PORT
        if on_admin_port if access is Access.CALLER else self._admin_port and not on_admin_port:
            other = "API's" if on_admin_port else "admin"
            raise RequestRefused(
                f"{path[:200]} is not here; there may be one on the {other} port", "not_found", status=404
            )
        if on_admin_port:
            needed = path != METRICS and self._keys.has_admin
        else:
            needed = self._keys.is_closed and path not in self._open_paths
        if not needed:
            return None
        key = self._authenticate(Headers(scope=scope))
        if access is Access.ADMIN and not key.admin:
            raise RequestRefused(
                f"{path[:200]} needs an admin key, if it is there at all", "admin_key_required", status=403
            )
        return key

    def _authenticate(self, headers: Headers) -> ApiKey:
        scheme, _, presented = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            presented = headers.get("x-api-key", "")  # as Anthropic's clients say it
        if not presented.strip():
            message = "there is no API key: send it as a header, Authorization: Bearer KEY"
            raise RequestRefused(message, "missing_api_key", status=401)
        key = self._keys.find(presented.strip())
        if key is None:
            raise RequestRefused("the API key is not known", "invalid_api_key", status=401)
        return key

    async def _answer(self, key: ApiKey | None, access: Access, scope: Scope, receive: Receive, send: Send) -> None:
        if access is Access.ADMIN:
            await self.app(scope, receive, send)
            return
        if (unavailable := self._availability.refusal()) is not None:
            raise unavailable
        if key is not None:
            scope.setdefault("state", {})[CALLER] = key.name
            caller_name.set(key.name)
        name, allowance = caller_of(scope), self._allowance_of(key)
        try:
            headers = self._allowances.enter(name, allowance)
        except RequestRefused as refused:
            await _refuse(refused, scope, receive, _with_headers(send, self._allowances.headers(name, allowance)))
            return
        self._availability.enter()
        try:
            await self.app(scope, receive, _with_headers(send, headers) if headers else send)
        finally:
            self._availability.leave()
            self._allowances.leave(name)

    def _allowance_of(self, key: ApiKey | None) -> Allowance:
        if key is None:
            return self._allowance
        rate, most = key.requests_per_minute, key.concurrent_requests
        return Allowance(
            self._allowance.requests_per_minute if rate is None else rate,
            self._allowance.concurrent_requests if most is None else most,
        )


async def _refuse(refused: RequestRefused, scope: Scope, receive: Receive, send: Send) -> None:
    response = refused.response()
    if refused.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    # The body was not read: the connection cannot serve another request. And a server that shuts down wants no other one.
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sending
