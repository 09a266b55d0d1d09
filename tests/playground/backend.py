"""What the page talks to in its tests: the real page, the real routes for constraints, and answers that are written down.

Constraints are compiled by a real compile service with a small vocabulary, so facts, advice, pictures and refusals are the server's own.
Only the model is missing: `/v1/chat/completions` streams `Script.tokens` in the shape of vLLM's chunks.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from guided.cache import Files
from guided.compiler import writable_network
from guided.errors import ConstraintError
from guided.limits import Limits
from guided.workers import Pool, PoolOptions
from server.allowance import Allowance
from server.availability import Availability
from server.compile_service import CompileService
from server.enforcement import read_constraint
from server.errors import RequestRefused, from_constraint_error
from server.gate import Gate
from server.keys import KeyRing, from_plain
from server.routes import guided
from server.routes.playground import add_playground
from tests.index.test_token_index import VOCABULARY

MODELS = ["small-model", "larger-model"]


@dataclass
class Script:
    """What the backend answers; a test sets it before it presses a button.

    Attributes:
        tokens: text, probability mass of what was allowed, number of tokens allowed.
        thoughts: texts of the tokens before them, and of the mark that ends them; under the name that `thinks_as` is.
        measures: does the engine measure pressure? On another host it does not.
        hold_after: tokens after which the stream waits until the client leaves or `let_go` is set.
        breaks: "error": an error event in the middle; "cut": the connection ends in the middle.
        key: what clients must send; None: nothing.
        requests: bodies of chat completions, as they came.
        left: the client of a held stream has left.
    """

    tokens: list[tuple[str, float, int]] = field(
        default_factory=lambda: [("[", 0.004, 1), ("1", 0.7, 10), ("]", 1.0, 3)]
    )
    thoughts: list[str] = field(default_factory=list)
    thinks_as: str = "reasoning"
    finish_reason: str = "stop"
    measures: bool = True
    hold_after: int | None = None
    breaks: str | None = None
    key: str | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)


@dataclass
class Backend:
    """A running backend: its address and what it answers."""

    url: str
    script: Script


@contextmanager
def running(folder: Path) -> Iterator[Backend]:
    """`folder`: for indexes."""
    backend = Backend("", Script())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        backend.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(create_app(backend, folder), log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 300
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the backend did not start"
            time.sleep(0.02)
        yield backend
        backend.script.let_go.set()
        server.should_exit = True
        thread.join(20)


def create_app(backend: Backend, folder: Path) -> FastAPI:
    pool = Pool(VOCABULARY, PoolOptions(folder, limits=Limits(seconds=5.0, states=20_000), nice=0))
    files = Files.at(folder, VOCABULARY, rebuild=lambda c: writable_network(c, VOCABULARY))
    service = CompileService(VOCABULARY, pool, files, memory_bytes=64 << 20)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.close()

    app = FastAPI(lifespan=lifespan)
    app.state.compile_service, app.state.thinking = service, None
    app.include_router(guided.router)
    add_playground(app)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "vllm"} for name in MODELS]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        backend.script.requests.append(json.loads(json.dumps(body)))
        try:
            constrained = await enforce(service, body)
        except RequestRefused as refused:
            return refused.response()
        if not body.get("stream"):
            return JSONResponse(whole(backend.script, body))
        report = constrained and (body.get("guided_options") or {}).get("report") is True
        return StreamingResponse(chunks(backend.script, body, report), media_type="text/event-stream")

    class Key:
        """The server's gate, with the key that the script says."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            keys = KeyRing(from_plain([backend.script.key]) if backend.script.key else ())
            available = Availability(SimpleNamespace(errored=False, stall=None))
            await Gate(self.app, keys=keys, availability=available, allowance=Allowance())(scope, receive, send)

    app.add_middleware(Key)
    return app


async def enforce(service: CompileService, body: dict[str, Any]) -> bool:
    """Is there a constraint? It is compiled, and refused as the gateway does it. Raises RequestRefused."""
    wanted = read_constraint(body)
    if wanted is None:
        return False
    try:
        compiled = await service.compile(wanted.constraint)
    except ConstraintError as error:
        raise from_constraint_error(error, wanted.field) from error
    fewest = await compiled.fewest_tokens("")
    if fewest is not None and fewest > body["max_tokens"]:
        raise RequestRefused(f"the shortest answer needs {fewest} tokens", "budget_too_small", "max_tokens")
    return True


def whole(script: Script, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(text for text, _, _ in script.tokens)}
    choice = {"index": 0, "message": message, "finish_reason": script.finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}


async def chunks(script: Script, body: dict[str, Any], report: bool) -> AsyncIterator[str]:
    """As vLLM 0.32 streams with `return_token_ids` and `stream_options.include_usage`; the stop token comes with the end."""

    def event(**fields: Any) -> str:
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], **fields}
        return f"data: {json.dumps(chunk)}\n\n"

    def choice(text: str, ids: list[int], finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
        part = {"index": 0, "delta": {**delta, "content": text}, "logprobs": None, "finish_reason": finish_reason}
        return {**part, "token_ids": ids if body.get("return_token_ids") else None}

    yield event(choices=[choice("", [], role="assistant")], prompt_token_ids=[1, 2, 3])
    for thought in script.thoughts:
        yield event(choices=[choice("", [50], **({script.thinks_as: thought} if thought else {}))])
    for position, (text, _, _) in enumerate(script.tokens):
        if script.hold_after == position:
            await held(script)
        if position == 1 and script.breaks == "error":
            error = {"message": "the engine is gone", "type": "server_error", "param": None, "code": 500}
            yield f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n"
            return
        if position == 1 and script.breaks == "cut":
            return
        yield event(choices=[choice(text, [100 + position])])
    yield event(choices=[choice("", [0], script.finish_reason)])
    tokens = len(script.thoughts) + len(script.tokens) + 1
    usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}
    yield event(choices=[], usage=usage, **({"guided": report_of(script)} if report else {}))
    yield "data: [DONE]\n\n"


async def held(script: Script) -> None:
    try:
        while not script.let_go.is_set():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:  # so starlette ends a stream whose client has left
        script.left.set()
        raise


def report_of(script: Script) -> dict[str, Any]:
    """The `guided` object of a last chunk; the stop token counts as a token."""
    mass = [1.0 for _ in script.thoughts] + [mass for _, mass, _ in script.tokens] + [1.0]
    allowed = [900 for _ in script.thoughts] + [count for _, _, count in script.tokens] + [1]
    measured = {
        "states": 12,
        "forced_tokens": sum(count == 1 for count in allowed),
        "mass": {"mean": sum(mass) / len(mass), "min": min(mass)},
        "token_mass": mass,
        "token_allowed": allowed,
    }
    told = measured if script.measures else dict.fromkeys(measured)
    return {"constraint": "0" * 64, "cache": "memory", "compile_ms": 3.2, "tokens": len(mass), **told}
