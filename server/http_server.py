"""In: the application and its sockets; out: HTTP until a signal or the engine's death, and the end of what runs. Knows no routes.

In place of vLLM's own `serve_http`, which stops the engine first: an answer that goes on in a second request of the engine
(`server.continuation`) would then be cut, and clients that come in the meantime would wait for an engine that takes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm import envs
from vllm.entrypoints.launchers.launcher import NoSignalServer, terminate_if_errored
from vllm.entrypoints.launchers.utils.server_utils import get_uvicorn_log_config
from vllm.entrypoints.launchers.utils.ssl import SSLCertRefresher

from server import logs
from server.availability import Availability
from server.engine import GuidedEngine
from server.gate import ADMIN_PORT, LISTENER
from server.request_ids import RequestIds
from server.start_log import for_uvicorn

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5  # how often the engine is looked at
_LAST_SECONDS = (
    2  # for answers that were told to end; the chart leaves 10 s for all that comes after the time for requests
)


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket. `admin`: for the routes of operators."""

    socket: socket.socket
    admin: bool = False


class _Marked:
    """The application, told that a request came in on the admin port."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[LISTENER] = ADMIN_PORT
        await self.app(scope, receive, send)


class Signals:
    """SIGINT and SIGTERM: the first one asks for an end, the second one for an end at once."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.now = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.now if self.stop.is_set() else self.stop).set()


async def serve(
    app: FastAPI,
    listeners: list[Listener],
    engine: GuidedEngine,
    availability: Availability,
    args: Namespace,
    log_format: str,
) -> bool:
    """Serves until it is told to end, or the engine died; returns whether the end was wanted at once.

    Args:
        args: vLLM's; its flags of HTTP and TLS are honoured, and `shutdown_timeout`: seconds for what runs when the end comes.
    """
    signals = Signals()
    servers = [_server(app, listener, args, log_format) for listener in listeners]
    app.state.server = servers[0]  # vLLM's error handlers end it when the engine is dead
    serving = [
        asyncio.create_task(server.serve(sockets=[listener.socket]))
        for server, listener in zip(servers, listeners, strict=True)
    ]
    refreshers = [_refresher(server, args) for server in servers if args.enable_ssl_refresh]
    watching = asyncio.create_task(_watch(servers[0], engine))
    stopping = asyncio.create_task(signals.stop.wait())
    try:
        await asyncio.wait([*serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        if signals.stop.is_set():
            await _drain(engine, availability, signals.now, args.shutdown_timeout)
    finally:
        watching.cancel()
        stopping.cancel()
        for refresher in refreshers:
            refresher.stop()
        for server in servers:
            server.should_exit = True
            server.force_exit = signals.now.is_set()
        await asyncio.gather(*serving)
    return signals.now.is_set()


def _server(app: FastAPI, listener: Listener, args: Namespace, log_format: str) -> NoSignalServer:
    outermost: Any = RequestIds(_Marked(app) if listener.admin else app)
    config = uvicorn.Config(
        outermost,
        lifespan="off" if listener.admin else "on",
        log_level=args.uvicorn_log_level,
        log_config=logs.of_uvicorn(
            log_format, get_uvicorn_log_config(for_uvicorn(args)) or uvicorn.config.LOGGING_CONFIG
        ),
        access_log=not args.disable_uvicorn_access_log,
        timeout_keep_alive=envs.VLLM_HTTP_TIMEOUT_KEEP_ALIVE,
        timeout_graceful_shutdown=_LAST_SECONDS,
        ssl_keyfile=args.ssl_keyfile,
        ssl_certfile=args.ssl_certfile,
        ssl_ca_certs=args.ssl_ca_certs,
        ssl_cert_reqs=args.ssl_cert_reqs,
        **({"ssl_ciphers": args.ssl_ciphers} if args.ssl_ciphers else {}),
    )
    config.h11_max_incomplete_event_size = args.h11_max_incomplete_event_size
    config.h11_max_header_count = args.h11_max_header_count  # type: ignore[attr-defined]
    config.load()
    return NoSignalServer(config)


def _refresher(server: NoSignalServer, args: Namespace) -> SSLCertRefresher:
    return SSLCertRefresher(
        ssl_context=server.config.ssl,
        key_path=args.ssl_keyfile,
        cert_path=args.ssl_certfile,
        ca_path=args.ssl_ca_certs,
    )


async def _watch(server: NoSignalServer, engine: GuidedEngine) -> None:
    """Ends the server when the engine is dead, also where no request meets it, and sees whether it hangs."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        terminate_if_errored(server, engine)
        if engine.stall is not None:
            engine.stall.look(engine.output_processor.get_num_unfinished_requests())


async def _drain(engine: GuidedEngine, availability: Availability, now: asyncio.Event, seconds: float) -> None:
    """From here on nothing new is taken. What runs may end; what does not within `seconds`, or before `now`, is aborted."""
    availability.draining = True
    logger.info("shutting down: %d requests have %g s to end", availability.running, seconds)
    await _first_of(availability.idle(), now.wait(), seconds=seconds)
    if availability.running and not now.is_set():
        logger.warning("%d requests did not end in %g s and are aborted", availability.running, seconds)
        await engine.abort(list(engine.output_processor.request_states), internal=True)
        await _first_of(availability.idle(), now.wait(), seconds=_LAST_SECONDS)


async def _first_of(*waits: Any, seconds: float) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
