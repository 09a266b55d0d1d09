"""The middleware in front of a plain ASGI application that plays vLLM: what it forwards, what it refuses, what it guards."""

from __future__ import annotations

import asyncio
import json
import sys
import weakref
from typing import Any

import pytest

from guided.constraint import Constraint
from guided.errors import InvalidConstraint
from guided.workers import Overloaded
from server.body_limits import BodyLimits
from server.callers import caller_of
from server.constraint_middleware import ConstraintMiddleware
from server.engine import pending_constraint
from server.errors import RequestRefused
from tests.server.asgi import scope_of
from tests.server.fakes import FakeBackends, FakeCompileService

CHAT = "/v1/chat/completions"


class Route:
    """Answers 200 with what it saw; takes the constraint like the engine does unless it is told to forget it."""

    def __init__(self, *, forgets: bool = False, status: int = 200) -> None:
        self.forgets = forgets
        self.status = status
        self.body: Any = None
        self.pending: Any = "not called"
        self.headers: dict[bytes, bytes] = {}

    async def __call__(self, scope, receive, send) -> None:
        self.headers = dict(scope["headers"])
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.body = raw
        self.pending = await asyncio.create_task(self.generate())  # vLLM runs handlers in tasks of their own
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def generate(self):
        pending = pending_constraint.get()
        if pending is not None and not self.forgets:
            pending.taken = True
        return pending


def call(app, path: str, body: Any, *, method: str = "POST", chunks: int = 1, root_path: str = "") -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = -(-len(raw) // chunks) or 1
    parts = [raw[i : i + size] for i in range(0, len(raw), size)] or [b""]
    incoming = [{"type": "http.request", "body": part, "more_body": i < len(parts) - 1} for i, part in enumerate(parts)]
    sent: list[dict] = []

    async def receive():
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": root_path,
        "headers": [(b"content-length", str(len(raw)).encode()), (b"x-other", b"1")],
    }
    asyncio.run(app(scope, receive, send))
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(answer)


@pytest.mark.parametrize("chunks", [1, 3, 1000])
def test_constraint_reaches_the_generation_and_leaves_the_body(chunks):
    route, service = Route(), FakeCompileService()
    body = {"messages": [{"role": "user", "content": "ä"}], "guided_choice": ["ok"], "seed": 1}
    status, _ = call(ConstraintMiddleware(route, service), CHAT, body, chunks=chunks)
    assert status == 200
    assert route.pending.compiled.constraint == Constraint.choice(["ok"]) == service.compiled[0]
    assert json.loads(route.body) == {"messages": body["messages"], "seed": 1}
    assert route.headers[b"content-length"] == str(len(route.body)).encode()
    assert route.headers[b"x-other"] == b"1"


def test_plain_body_is_forwarded_byte_for_byte():
    route = Route()
    raw = b'{"messages" : [], "temperature": 1.0000, "seed": 12345678901234567890}'
    status, _ = call(ConstraintMiddleware(route, FakeCompileService()), CHAT, raw)
    assert (status, route.body, route.pending) == (200, raw, None)


def test_the_constraint_of_one_request_does_not_outlive_it():
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    call(app, CHAT, {"guided_choice": ["ok"]})
    call(app, CHAT, {"messages": []})
    assert route.pending is None
    assert pending_constraint.get() is None


@pytest.mark.parametrize("stream", [False, True])
def test_refusal_comes_before_the_route_is_called(stream):
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    status, answer = call(app, CHAT, {"guided_choise": ["ok"], "stream": stream})
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == "guided_choise"
    assert "guided_choice" in answer["error"]["message"]
    assert route.pending == "not called"


def test_refusal_of_the_compiler_names_field_and_place():
    error = InvalidConstraint("unbalanced parenthesis", column=3, source="(abc")
    app = ConstraintMiddleware(Route(), FakeCompileService(error))
    status, answer = call(app, CHAT, {"guided_regex": "(abc"})
    assert status == 400
    assert answer["error"]["code"] == "invalid_constraint"
    assert answer["error"]["param"] == "guided_regex:4"
    assert "unbalanced parenthesis" in answer["error"]["message"]


def test_stop_token_ids_that_are_text_are_refused():
    route, text_id, eos_id = Route(), ord("k"), 2
    app = ConstraintMiddleware(route, FakeCompileService())
    for written in (text_id, float(text_id), str(text_id)):  # vLLM's models read all of these
        status, answer = call(app, CHAT, {"guided_choice": ["ok"], "stop_token_ids": [eos_id, written]})
        assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "stop_token_ids", "not_enforced")
    assert route.pending == "not called"
    assert call(app, CHAT, {"guided_choice": ["ok"], "stop_token_ids": [eos_id]})[0] == 200
    assert call(app, CHAT, {"stop_token_ids": [text_id]})[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"guided_\ud800": 1}',
        rb'{"structured_outputs": {"\ud800": 1}}',
        rb'{"response_format": {"type": "text", "\ud800": 1}}',
        rb'{"guided_json": {}, "guided_options": {"\ud800": 1}}',
    ],
)
def test_a_refusal_can_quote_a_lone_surrogate(raw):
    status, answer = call(ConstraintMiddleware(Route(), FakeCompileService()), CHAT, raw)
    assert status == 400
    assert "\ud800" in answer["error"]["message"]
    assert "\ud800" in answer["error"]["param"]


@pytest.mark.parametrize("fields", [{"request_id": "\ud800"}, {"bad_words": ["\ud800"]}, {"logit_bias": {"\ud800": 1}}])
def test_lone_surrogates_do_not_reach_the_routes(fields):
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    status, answer = call(app, CHAT, fields)
    assert (status, answer["error"]["param"]) == (400, next(iter(fields)))
    assert route.pending == "not called"
    assert call(app, CHAT, {"user": "\U0001f600"})[0] == 200  # a pair, as JSON writes it in ASCII


def test_json_pointer_is_part_of_the_param():
    error = InvalidConstraint("no such type", pointer="/properties/a/type")
    app = ConstraintMiddleware(Route(), FakeCompileService(error))
    body = {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}
    _, answer = call(app, CHAT, body)
    assert answer["error"]["param"] == "response_format.json_schema.schema#/properties/a/type"


def test_a_body_is_not_kept_while_its_constraint_is_waited_for(monkeypatch):
    """Many may wait, and a parsed body takes many times the room of its bytes."""
    raw = json.dumps({"guided_regex": "ok", "n": 1}).encode()
    held, parsed = [], []

    class Parsed(dict):
        """An object that can be pointed to weakly."""

    def parse(text: bytes) -> Parsed:
        body = Parsed(json.loads(text))
        parsed.append(weakref.ref(body))
        return body

    class Waiting(FakeCompileService):
        async def compile(self, constraint: Constraint, caller: str = "") -> Any:
            held.append((sys.getrefcount(raw) - without, parsed[0]()))
            return await super().compile(constraint, caller)

    monkeypatch.setattr("server.constraint_middleware.parse_body", parse)
    app = BodyLimits(ConstraintMiddleware(Route(), Waiting()), most_bytes=1000, seconds=5.0, nesting=20, values=100)
    messages = [{"type": "http.request", "body": raw}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    without = sys.getrefcount(raw) - 1  # what `messages` has is taken out
    asyncio.run(app(scope_of("POST", CHAT), receive, send))
    assert held == [(0, None)]


NAMED = {"guided_regex": "a+", "guided_decoding_backend": "xgrammar", "n": 2}


def test_a_request_that_names_a_backend_of_vllms():
    route, service = Route(), FakeCompileService()
    assert call(ConstraintMiddleware(route, service, backends=FakeBackends()), CHAT, NAMED)[0] == 200
    assert json.loads(route.body) == {"n": 2} and not service.compiled
    assert (route.pending.backend, route.pending.outputs, route.pending.taken) == ("xgrammar", {"regex": "a+"}, True)


def test_what_a_backend_refuses_reaches_no_route():
    route, refused = Route(), RequestRefused("no", "invalid_constraint", "guided_regex")
    app = ConstraintMiddleware(route, FakeCompileService(), backends=FakeBackends(refused))
    status, answer = call(app, CHAT, NAMED)
    assert (status, answer["error"]["param"], route.pending) == (400, "guided_regex", "not called")


def test_backends_that_are_turned_off_are_refused_by_name():
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService(), backends=None)
    status, answer = call(app, CHAT, NAMED)
    assert (status, answer["error"]["code"]) == (400, "unsupported_parameter")
    assert answer["error"]["param"] == "guided_decoding_backend" and "xgrammar" in answer["error"]["message"]
    assert route.pending == "not called"
    assert call(app, CHAT, {"guided_regex": "a+", "guided_decoding_backend": "guided"})[0] == 200


@pytest.mark.parametrize("backend", ["guided", "xgrammar"])
def test_vllm_sees_no_structural_tag(backend):
    """Its models would have xgrammar read it, on the event loop."""
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService(), backends=FakeBackends())
    status, answer = call(app, CHAT, {"response_format": tag, "n": 1, "guided_decoding_backend": backend})
    if backend == "guided":
        assert status == 200 and json.loads(route.body) == {"n": 1}
    else:
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "not_enforced", "response_format")


@pytest.mark.parametrize("path", ["/v1/messages", "/invocations", "/v1/chat/completions/batch"])
def test_routes_that_enforce_nothing_refuse_constraints(path):
    route = Route()
    status, answer = call(ConstraintMiddleware(route, FakeCompileService()), path, {"guided_regex": "a"})
    assert status == 400
    assert path in answer["error"]["message"]
    assert route.pending == "not called"
    assert call(ConstraintMiddleware(route, FakeCompileService()), path, {"model": "m"})[0] == 200


INVOCATIONS = "/invocations"


@pytest.mark.parametrize("body", [{"messages": []}, {"prompt": "x"}, {"prompt_embeds": ["AAAA"]}])
def test_invocations_are_what_vllm_hands_them_on_to(body):
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    assert call(app, INVOCATIONS, {**body, "guided_choice": ["ok"]})[0] == 200
    assert route.pending.compiled.constraint == Constraint.choice(["ok"]) and json.loads(route.body) == body
    for field in ("temprature", "input", "giuded_json"):
        status, answer = call(app, INVOCATIONS, {**body, field: "x"})
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "unknown_parameter", field)
    assert call(app, INVOCATIONS, {**body, "guided_options": {"report": True}})[0] == 400
    assert call(app, INVOCATIONS, body)[0] == 200


def test_invocations_know_the_budget_and_the_tools_of_chat():
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    body = {"messages": [], "max_completion_tokens": 9, "tools": [tool], "tool_choice": "required"}
    assert call(app, INVOCATIONS, body)[0] == 200
    assert (route.pending.field, route.pending.budget_field) == ("tools", "max_completion_tokens")


def test_invocations_of_a_model_that_does_not_generate():
    """Its requests have fields that chat has not."""
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService(), generates=False)
    assert call(app, INVOCATIONS, {"messages": [], "encoding_format": "float"})[0] == 200
    assert call(app, INVOCATIONS, {"messages": [], "guided_choice": ["ok"]})[0] == 400


def test_root_path_is_not_part_of_the_route():
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService())
    assert call(app, "/proxy" + CHAT, {"guided_choice": ["ok"]}, root_path="/proxy")[0] == 200
    assert route.pending is not None


@pytest.mark.parametrize("raw", [b"", b"[1]", b'"x"'])
def test_what_is_not_a_json_object_is_the_routes_business(raw):
    route = Route()
    assert call(ConstraintMiddleware(route, FakeCompileService()), CHAT, raw)[0] == 200
    assert route.body == raw


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "line 1, column 2"),
        (b"\xff\xfe", "byte 0"),
        (b'{"a": "\xe4"}', "byte 7"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"temperature": NaN}', "NaN"),
        (b'{"temperature": -Infinity}', "-Infinity"),
    ],
)
def test_what_is_not_json_is_refused(raw, words):
    status, answer = call(ConstraintMiddleware(Route(), FakeCompileService()), CHAT, raw)
    assert (status, answer["error"]["code"]) == (400, "invalid_json")
    assert words in answer["error"]["message"]


def test_nesting_that_breaks_the_parser_is_refused():
    status, answer = call(ConstraintMiddleware(Route(), FakeCompileService()), CHAT, b"[" * 200_000)
    assert status == 400
    assert "nested" in answer["error"]["message"]


def test_a_route_that_forgets_the_constraint_may_not_answer():
    app = ConstraintMiddleware(Route(forgets=True), FakeCompileService())
    with pytest.raises(RuntimeError, match="without applying"):
        call(app, CHAT, {"guided_choice": ["ok"]})


def test_a_route_that_fails_before_it_generates_may_say_so():
    app = ConstraintMiddleware(Route(forgets=True, status=404), FakeCompileService())
    assert call(app, CHAT, {"guided_choice": ["ok"]})[0] == 404


def test_other_methods_pass():
    route = Route()
    assert call(ConstraintMiddleware(route, FakeCompileService()), "/health", b"", method="GET")[0] == 200


# --- waiting --------------------------------------------------------------------------------------------------------------


def test_a_full_queue_is_a_429_that_says_when():
    route = Route()
    app = ConstraintMiddleware(route, FakeCompileService(Overloaded("too many constraints are waiting", 7)))
    status, answer = call(app, CHAT, {"guided_choice": ["ok"]})
    assert (status, answer["error"]["code"], answer["error"]["type"]) == (429, "overloaded", "rate_limit_error")
    assert "7 s" in answer["error"]["message"]
    assert route.pending == "not called"


def test_retry_after_is_a_header():
    response = RequestRefused("busy", "overloaded", status=429, retry_seconds=7).response()
    assert response.headers["retry-after"] == "7"


class Endless(FakeCompileService):
    """Compiles until it is cancelled."""

    cancelled = False

    async def compile(self, constraint, caller=""):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def test_a_client_that_leaves_ends_its_compilation():
    route, service = Route(), Endless()
    body = json.dumps({"guided_choice": ["ok"]}).encode()
    incoming = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
    sent: list[dict] = []

    async def receive():
        return incoming.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    asyncio.run(ConstraintMiddleware(route, service)(scope, receive, send))
    assert service.cancelled and sent == [] and route.pending == "not called"


@pytest.mark.parametrize(
    ("scope", "caller"),
    [
        (
            {"headers": [(b"authorization", b"Bearer one")], "client": ("1.2.3.4", 5), "state": {"caller": "team"}},
            "team",
        ),
        ({"headers": [(b"authorization", b"made up")], "client": ("1.2.3.4", 5)}, "1.2.3.4"),
        ({"headers": []}, ""),
    ],
)
def test_callers(scope, caller):
    assert caller_of(scope) == caller


# --- references -----------------------------------------------------------------------------------------------------------


def test_a_digest_stands_for_its_constraint():
    route, service = Route(), FakeCompileService()
    app = ConstraintMiddleware(route, service)
    call(app, CHAT, {"guided_choice": ["ok"]})
    status, _ = call(app, CHAT, {"guided_ref": Constraint.choice(["ok"]).digest, "seed": 1})
    assert status == 200
    assert route.pending.compiled.constraint == Constraint.choice(["ok"])
    assert json.loads(route.body) == {"seed": 1}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"guided_ref": "0" * 64}, "unknown_reference"),
        ({"guided_ref": "../../x"}, "unknown_reference"),
        ({"guided_ref": 7}, "invalid_constraint"),
        ({"guided_ref": Constraint.choice(["ok"]).digest, "guided_regex": "a"}, "conflicting_constraints"),
        ({"guided_ref": Constraint.choice(["ok"]).digest, "ignore_eos": True}, "not_enforced"),
    ],
)
def test_references_that_are_refused(body, code):
    route, service = Route(), FakeCompileService()
    app = ConstraintMiddleware(route, service)
    call(app, CHAT, {"guided_choice": ["ok"]})
    route.pending = "not called"
    status, answer = call(app, CHAT, body)
    assert (status, answer["error"]["code"], route.pending) == (400, code, "not called")


def test_our_own_routes_read_their_constraints_themselves():
    route = Route()
    raw = json.dumps({"guided_choice": ["ok"]}).encode()
    status, _ = call(ConstraintMiddleware(route, FakeCompileService()), "/v1/guided/compile", raw)
    assert (status, route.body, route.pending) == (200, raw, None)
