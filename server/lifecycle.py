"""In: settings and vLLM's arguments; out: a running server, until a signal or the engine's death ends it. Knows no constraint."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.launcher import serve_http, setup_server
from vllm.usage.usage_lib import UsageContext

from guided.vllm_adapters.select import processor_name
from guided.vocabulary import Vocabulary
from server.app import create_app
from server.compile_service import CompileService
from server.engine import GuidedEngine
from server.settings import Settings

EXAMPLE_PROMPT = "The migration failed and customers were logged out. What is the sentiment?"


class Progress:
    """Prints the long steps of the start with the seconds since `started` (time.monotonic())."""

    def __init__(self, started: float) -> None:
        self.started = started

    def say(self, message: str) -> None:
        print(f"guided-server: [{time.monotonic() - self.started:5.1f} s] {message}", file=sys.stderr, flush=True)


async def serve(settings: Settings, args: Namespace, progress: Progress) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises:
        OSError: the port is taken.
    """
    address, socket = setup_server(
        args, reuse_port=False
    )  # before the long start, so that a taken port is known at once
    async with start_engine(args, progress) as engine:
        compile_service = await start_compile_service(settings, engine, progress)
        app = await create_app(args, engine, compile_service)
        announcement = asyncio.create_task(announce_when_ready(app, args, address, progress))
        shutdown = await serve_http(
            app,
            sock=socket,
            enable_ssl_refresh=args.enable_ssl_refresh,
            host=args.host,
            port=args.port,
            log_level=args.uvicorn_log_level,
            access_log=not args.disable_uvicorn_access_log,
            ssl_keyfile=args.ssl_keyfile,
            ssl_certfile=args.ssl_certfile,
            ssl_ca_certs=args.ssl_ca_certs,
            ssl_cert_reqs=args.ssl_cert_reqs,
            ssl_ciphers=args.ssl_ciphers,
            h11_max_incomplete_event_size=args.h11_max_incomplete_event_size,
            h11_max_header_count=args.h11_max_header_count,
        )
        announcement.cancel()
        compile_service.close()
    try:
        await shutdown
    finally:
        socket.close()


@asynccontextmanager
async def start_engine(args: Namespace, progress: Progress) -> AsyncIterator[GuidedEngine]:
    """vLLM's engine in its own processes, with our logits processor in the worker."""
    progress.say(f"starting the engine with {args.model}")
    engine_args = AsyncEngineArgs.from_cli_args(args)
    engine_args.logits_processors = [*(engine_args.logits_processors or []), processor_name()]
    config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    engine = GuidedEngine.from_vllm_config(
        config,
        usage_context=UsageContext.OPENAI_API_SERVER,
        enable_log_requests=engine_args.enable_log_requests,
        disable_log_stats=engine_args.disable_log_stats,
    )
    try:
        await engine.reset_mm_cache()
        progress.say("the engine is up")
        yield engine
    finally:
        engine.shutdown(timeout=config.shutdown_timeout)


async def start_compile_service(settings: Settings, engine: GuidedEngine, progress: Progress) -> CompileService:
    model = engine.model_config
    vocabulary = await asyncio.to_thread(
        Vocabulary.from_pretrained, model.tokenizer, padded_size=model.get_vocab_size()
    )
    progress.say(f"vocabulary of {vocabulary.size:,} tokens read")
    return CompileService(vocabulary, limits=settings.limits, capacity=settings.index_cache_size)


async def announce_when_ready(app: FastAPI, args: Namespace, address: str, progress: Progress) -> None:
    """Prints one line when connections are accepted, and one to paste."""
    while not (hasattr(app.state, "server") and app.state.server.started):
        await asyncio.sleep(0.02)
    model = (args.served_model_name or [args.model])[0]
    progress.say(f"ready on {address}, model {model}. Try:\n\n{example(address, model)}\n")


def example(address: str, model: str) -> str:
    """A `curl` command that shows a constraint at work."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": EXAMPLE_PROMPT}],
        "guided_choice": ["POSITIVE", "NEUTRAL", "NEGATIVE"],
    }
    return f"curl -s {address}/v1/chat/completions -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
