"""In: settings and vLLM's arguments; out: a running server, until a signal or the engine's death ends it. Knows no constraint."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI
from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.launcher import serve_http, setup_server
from vllm.usage.usage_lib import UsageContext

import guided
from guided.cache import Disk, default_folder
from guided.compiler import writable_network
from guided.constraint_files import find_files
from guided.vllm_adapters.select import processor_name
from guided.workers import Pool
from server.app import create_app
from server.compile_service import CompileService
from server.engine import GuidedEngine
from server.settings import Settings
from server.warm import warm

EXAMPLE_PROMPT = "The migration failed and customers were logged out. What is the sentiment?"


class EngineDied(Exception):
    """The engine's process is gone."""


class Progress:
    """Prints the long steps of the start with the seconds since `started` (time.monotonic())."""

    def __init__(self, started: float) -> None:
        self.started = started

    def say(self, message: str) -> None:
        print(f"guided-server: [{time.monotonic() - self.started:5.1f} s] {message}", file=sys.stderr, flush=True)


async def serve(settings: Settings, args: Namespace, progress: Progress) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises:
        EngineDied: the engine's process ended by itself; whoever started this server should start it anew.
        OSError: the port is taken, or a file that is to be warmed is not there.
    """
    to_warm = find_files(settings.warm_paths)
    address, listener = setup_server(args, reuse_port=False)  # before the long start: a taken port is known at once
    progress.say(f"starting the engine with {args.model}")
    engine_args, config = engine_config(args)
    with ThreadPoolExecutor(
        1
    ) as beside:  # the engine starts in processes of its own; this one would only wait for them
        preparing = beside.submit(prepare_compilation, settings, config)
        engine = start_engine(engine_args, config)
    try:
        await engine.reset_mm_cache()
        compile_service = preparing.result()
        progress.say(f"the engine is up, vocabulary of {compile_service.vocabulary.size:,} tokens")
        try:
            await compile_service.start()
            await warm(compile_service, to_warm, progress)
            http_shutdown = await accept_requests(args, address, listener, engine, compile_service, progress)
        finally:
            await compile_service.close()
        died = engine.errored
    finally:
        engine.shutdown(timeout=config.shutdown_timeout)
    try:
        await http_shutdown  # vLLM's order: first the engine, then the connections that waited for it
    finally:
        listener.close()
    if died:
        raise EngineDied("the engine died")


def engine_config(args: Namespace) -> tuple[AsyncEngineArgs, VllmConfig]:
    """The engine's configuration, with our logits processor among those that the worker loads."""
    engine_args = AsyncEngineArgs.from_cli_args(args)
    config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    model = config.model_config
    model.logits_processors = [*(model.logits_processors or []), processor_name(config)]
    return engine_args, config


def start_engine(engine_args: AsyncEngineArgs, config: VllmConfig) -> GuidedEngine:
    """Returns when the model is loaded and the engine's processes answer."""
    return GuidedEngine.from_vllm_config(
        config,
        usage_context=UsageContext.OPENAI_API_SERVER,
        enable_log_requests=engine_args.enable_log_requests,
        disable_log_stats=engine_args.disable_log_stats,
    )


def prepare_compilation(settings: Settings, config: VllmConfig) -> CompileService:
    """Reads the vocabulary and compiles or loads the kernels, so that no request waits for either."""
    model = config.model_config
    vocabulary = guided.Vocabulary.from_pretrained(model.tokenizer, padded_size=model.get_vocab_size())
    guided.warm_up(vocabulary)
    folder = default_folder()
    return CompileService(
        vocabulary,
        Pool(vocabulary, settings.pool_options(folder)),
        Disk(folder, vocabulary, rebuild=lambda constraint: writable_network(constraint, vocabulary)),
        memory_bytes=settings.memory_cache_bytes,
        close_seconds=settings.close_seconds,
    )


async def accept_requests(
    args: Namespace,
    address: str,
    listener: socket.socket,
    engine: GuidedEngine,
    compile_service: CompileService,
    progress: Progress,
) -> Awaitable[None]:
    """Serves until a signal comes or the engine dies; what is left to await then closes the connections."""
    app = await create_app(args, engine, compile_service)
    announcement = asyncio.create_task(announce_when_ready(app, args, address, progress))
    try:
        return await serve_http(
            app,
            sock=listener,
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
    finally:
        announcement.cancel()


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
