"""In: every POST request; out: the same request with its constraint compiled and waiting for the engine, or a refusal.

An ASGI middleware and not a route dependency: it runs before vLLM's routes parse the body, so a refusal is an HTTP status
before the first byte of a stream, and it sees the fields that vLLM's models would drop. Knows no engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided.constraint import Constraint
from guided.errors import ConstraintError
from guided.limits import Limits
from guided.workers import Overloaded
from server.callers import ClientLeft, caller_of, overloaded, while_connected
from server.compile_service import Compiled, CompileService
from server.enforcement import (
    read_constraint,
    refuse_any_constraint,
    refuse_enforced_tools,
    refuse_text_stop_ids,
    without_constraint,
)
from server.engine import Pending, pending_constraint
from server.errors import RequestRefused, from_constraint_error
from server.guided_fields import FIELDS, REFERENCE, Wanted, looks_guided, read_reference, read_spelling
from server.handover import FIELD as BACKEND
from server.handover import HandedOver, hand_over, named_backend
from server.observation import HANDED_OVER, current, note_kind, note_steps
from server.report import Report, refuse_several_answers, reporting
from server.request_body import is_json, parse_body, refuse_lone_surrogates
from server.request_fields import (
    BUDGETS,
    CHAT,
    MODELS,
    RESPONSES,
    refuse_dropped_fields,
    refuse_what_is_no_array,
    route_of,
)
from server.request_ids import let_body_name
from server.request_options import is_on
from server.tools.constraint import joined
from server.tools.conventions import JSON_CALLS, Convention
from server.tools.request import ToolRequest, as_vllm_reads, read_tools
from server.unconstrained_routes import refuse_dropped_elsewhere
from server.vllm_backends import VllmBackends

ENFORCING_PATHS = tuple(MODELS)
TOOL_PATHS = (CHAT, RESPONSES)
OWN_PATHS = "/v1/guided/"  # routes that read constraints themselves


@dataclass(frozen=True, slots=True)
class _Read:
    """What a request says. Its body is not kept: constraints may be waited for, by many at a time.

    Attributes:
        forwarded: the body for the routes, where it has to change.
        budget_field: the field that limits the answer, as the request calls it.
    """

    wanted: Wanted | HandedOver | None = None
    forwarded: bytes | None = None
    budget_field: str = ""


_NOTHING = _Read()


class ConstraintMiddleware:
    """Sits inside authentication: only callers who may generate may have constraints compiled."""

    def __init__(
        self,
        app: ASGIApp,
        compile_service: CompileService,
        convention: Convention = JSON_CALLS,
        tool_bytes: int = Limits().constraint_bytes,
        built_in_tools: bool = False,
        backends: VllmBackends | None = None,
        generates: bool = True,
    ) -> None:
        """
        Args:
            convention: how the model writes tool calls.
            tool_bytes: of the schemas of all tools of a request.
            built_in_tools: vLLM calls tools of other kinds than functions itself, on /v1/responses.
            backends: vLLM's own; None: requests that name one are refused.
            generates: what comes to `/invocations` goes to chat and completions; else it is for a model of another kind.
        """
        self.app = app
        self.compile_service = compile_service
        self.convention = convention
        self.tool_bytes = tool_bytes
        self.built_in_tools = built_in_tools
        self.backends = backends
        self.generates = generates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        messages, raw = await _read(receive)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        try:
            read = _NOTHING
            if is_json(scope):  # the routes refuse what is not, or read forms
                read = await self._understand(path, raw, receive, scope)
            if read.forwarded is not None:
                messages = [{"type": "http.request", "body": read.forwarded, "more_body": False}]
                _set_content_length(scope, len(read.forwarded))
            del raw  # while the constraint is waited for
            pending = await self._obtain(read, caller_of(scope), receive)
        except RequestRefused as refused:
            await refused.response()(scope, receive, send)
            return
        except ClientLeft:
            return
        token = pending_constraint.set(pending)
        try:
            if isinstance(pending, Pending) and pending.report is not None:
                send = reporting(send, pending.report)
            await self.app(scope, _replay(messages, receive), _guarded(send, pending))
        finally:
            pending_constraint.reset(token)

    async def _understand(self, path: str, raw: bytes, receive: Receive, scope: Scope) -> _Read:
        """Raises RequestRefused, ClientLeft."""
        body = parse_body(raw)
        if not isinstance(body, dict):
            return _NOTHING  # the routes themselves say what they want instead
        let_body_name(scope, body)
        if path.startswith(OWN_PATHS):
            return _NOTHING
        refuse_what_is_no_array(body)
        path = route_of(path, body) if self.generates else path
        if path not in ENFORCING_PATHS:
            refuse_any_constraint(body, path)
            refuse_dropped_elsewhere(body, path)
            return _NOTHING
        tools, flat = None, path == RESPONSES
        if path in TOOL_PATHS:
            tools = read_tools(body, self.tool_bytes, flat=flat, built_in=flat and self.built_in_tools)
        else:
            refuse_enforced_tools(body)
        referred = await while_connected(receive, resolve_reference(body, self.compile_service, caller_of(scope)))
        wanted = self._handed_over(body, referred, tools) or self._own(body, referred, tools)
        refuse_dropped_fields(body, path, looks_guided, FIELDS)
        if is_on(body.get("use_beam_search")):
            note_steps()
        refuse_lone_surrogates(body, raw)
        if wanted is not None:
            refuse_text_stop_ids(body, wanted.field, self.compile_service.is_text)
        rest = without_constraint(as_vllm_reads(body, flat=flat) if path in TOOL_PATHS else body)
        forwarded = json.dumps(rest).encode() if rest != body else None
        return _Read(wanted, forwarded, _budget_field(path, body))

    async def _obtain(self, read: _Read, caller: str, receive: Receive) -> Pending | HandedOver | None:
        """The constraint as the engine wants it, if there is one. Raises RequestRefused, ClientLeft."""
        wanted = read.wanted
        if isinstance(wanted, HandedOver):
            assert self.backends is not None
            wanted.outputs = await while_connected(receive, self.backends.outputs(wanted, caller))
            return wanted
        if wanted is None:
            return None
        try:
            compiling = self._compiled(wanted.constraint, caller, wanted.options.fit_budget)
            compiled, fewest = await while_connected(receive, compiling)
        except ConstraintError as error:
            raise wanted.refused(error) from error
        except Overloaded as error:
            raise overloaded(error) from error
        return Pending(
            compiled,
            wanted.field,
            wanted.options,
            fewest,
            budget_field=read.budget_field,
            may_be_cut=wanted.may_be_cut,
            report=_report() if wanted.options.report else None,
            caller=caller,
        )

    async def _compiled(self, constraint: Constraint, caller: str, fit_budget: bool) -> tuple[Compiled, int | None]:
        """With the fewest tokens of an answer, where they matter and are known: a worker may have to find that out."""
        async with self.compile_service.pool.in_time():
            compiled = await self.compile_service.compile(constraint, caller)
            return compiled, await compiled.fewest_tokens(caller) if fit_budget else None

    def _own(self, body: dict[str, Any], referred: Constraint | None, tools: ToolRequest | None) -> Wanted | None:
        """The constraint of a request that this server enforces itself; None where it has none."""
        join_tools = None if tools is None else partial(joined, tools, self.convention)
        wanted = read_constraint(body, referred, join_tools)
        if wanted is not None and wanted.options.report:
            refuse_several_answers(body)
        return wanted

    def _handed_over(
        self, body: dict[str, Any], referred: Constraint | None, tools: ToolRequest | None
    ) -> HandedOver | None:
        """The constraint of a request that names a backend of vLLM's; None where it names none or has none."""
        backend = named_backend(body)
        if backend is None:
            return None
        wanted = read_spelling(body, referred)
        if wanted is None:
            if tools is not None:
                message = f"tools are not left to vLLM's backends; leave out {BACKEND} {backend!r}"
                raise RequestRefused(message, "not_enforced", "tools")
            return None
        if self.backends is None:
            message = f"{BACKEND} {backend!r} is turned off on this server; leave it out for this server's own"
            raise RequestRefused(message, "unsupported_parameter", BACKEND)
        handed_over = hand_over(body, wanted, backend, with_tools=tools is not None)
        note_kind(HANDED_OVER)
        return handed_over


def _report() -> Report:
    seen = current.get()
    assert seen is not None, "requests are observed from their arrival on"
    return Report(seen)


async def resolve_reference(body: dict[str, Any], compile_service: CompileService, caller: str) -> Constraint | None:
    """The constraint that the body's `guided_ref` stands for; None where it has none.

    Args:
        caller: whose turn it is where many ask.

    Raises:
        RequestRefused: nobody knows it (any more).
    """
    digest = read_reference(body)
    if digest is None:
        return None
    try:
        constraint = await compile_service.find(digest, caller)
    except ConstraintError as error:
        raise from_constraint_error(error, REFERENCE) from error
    except Overloaded as error:
        raise overloaded(error) from error
    if constraint is None:
        message = f"{REFERENCE}: this server has no constraint {digest[:80]!r} (any more); send the constraint itself"
        raise RequestRefused(message, "unknown_reference", REFERENCE)
    return constraint


async def _read(receive: Receive) -> tuple[list[Message], bytes]:
    """All messages of the request up to the end of its body, and the body."""
    messages = []
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    return messages, b"".join(m.get("body", b"") for m in messages)


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """A `receive` that hands out `messages` first and then whatever the client sends, such as its departure."""
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay


def _budget_field(path: str, body: dict[str, Any]) -> str:
    """The field that limits the answer, as the request calls it."""
    return next((name for name in BUDGETS[path] if body.get(name) is not None), BUDGETS[path][-1])


def _set_content_length(scope: Scope, length: int) -> None:
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    scope["headers"] = [*headers, (b"content-length", str(length).encode())]


def _guarded(send: Send, pending: Pending | HandedOver | None) -> Send:
    """A `send` that lets no success pass to which the constraint was not applied: see `server.engine`."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            unconstrained = pending is not None and not pending.taken
            if unconstrained and message["status"] < 400:
                raise RuntimeError("the route answered without applying the request's constraint")
        await send(message)

    return guarded
