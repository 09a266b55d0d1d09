"""In: settings, keys and vLLM's arguments; out: a running server, until a signal or the engine's death ends it. Knows no constraint."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from argparse import Namespace
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from fastapi import FastAPI
from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.launcher import create_server_socket, setup_server
from vllm.usage.usage_lib import UsageContext

import guided
from guided.cache import Files, Spare, default_folder
from guided.compiler import writable_network
from guided.constraint_files import find_files
from guided.vllm_adapters.select import let_drafts_choose, processor_name
from guided.workers import Pool
from server import http_server
from server.app import create_app
from server.compile_service import CompileService
from server.engine import GuidedEngine
from server.executor import sleep_while_waiting
from server.http_server import Listener
from server.keys import KeyRing
from server.load import Load
from server.logs import Progress
from server.settings import Settings
from server.stall import Stall
from server.vllm_backends import VllmBackends
from server.warm import warm

logger = logging.getLogger(__name__)

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_ENGINE_SECONDS = 4.0  # for its processes to end by themselves, when nothing runs any more
_PATIENCE_SECONDS = 15.0  # kernels that are there are loaded in less
EXAMPLE_PROMPT = "The migration failed and customers were logged out. What is the sentiment?"


class EngineDied(Exception):
    """The engine's process is gone."""


async def serve(settings: Settings, keys: KeyRing, args: Namespace, progress: Progress) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises:
        EngineDied: the engine's process ended by itself; whoever started this server should start it anew.
        NoRunner: see `guided.vllm_adapters.select`.
        OSError: the port is taken, or a file that is to be warmed is not there.
    """
    to_warm = find_files(settings.warm_paths)
    address, listeners = bind(settings, args)  # before the long start: a taken port is known at once
    warn_of_open_doors(args, keys)
    progress.say(f"starting the engine with {args.model}")
    engine_args, config = engine_config(args)
    with ThreadPoolExecutor(
        1
    ) as beside:  # the engine starts in processes of its own; this one would only wait for them
        preparing = beside.submit(prepare_compilation, settings, config)
        tell_of_compilation(preparing, progress)
        engine = start_engine(engine_args, config, load := Load())
    if not engine_args.disable_log_stats:  # which tell of its steps
        engine.stall = Stall(load, settings.engine_stall_seconds)
    at_once = False
    try:
        await engine.reset_mm_cache()
        compile_service = preparing.result()
        backends = vllm_backends(settings, config)
        progress.say(f"the engine is up, vocabulary of {compile_service.vocabulary.size:,} tokens")
        try:
            await compile_service.start()
            app = await create_app(
                args, engine, compile_service, settings=settings, keys=keys, load=load, backends=backends
            )
            thinking = app.state.thinking
            await warm(compile_service, to_warm, progress, None if thinking is None else thinking.forms)
            announcement = asyncio.create_task(announce_when_ready(app, args, address, progress))
            availability = app.state.availability
            try:
                at_once = await http_server.serve(app, listeners, engine, availability, args, settings.log_format)
            finally:
                announcement.cancel()
        finally:
            await compile_service.close()
            if backends is not None:
                await backends.close()
        died = engine.errored
    finally:
        engine.shutdown(timeout=0 if at_once else _ENGINE_SECONDS)
        for listener in listeners:
            listener.socket.close()
    if died:
        raise EngineDied("the engine died")


def bind(settings: Settings, args: Namespace) -> tuple[str, list[Listener]]:
    """The address of the API, and its socket with that of the admin port. Raises OSError."""
    try:
        address, listener = setup_server(args, reuse_port=False)
    except OSError as error:
        where = args.uds or f"port {args.port}"
        raise OSError(error.errno, f"{where}: {error.strerror}") from error
    listeners = [Listener(listener)]
    if settings.admin_port is not None:
        where = (settings.admin_host, settings.admin_port)
        try:
            listeners.append(Listener(create_server_socket(where, reuse_port=False), admin=True))
        except OSError as error:
            raise OSError(error.errno, f"the admin port {where[0]}:{where[1]}: {error.strerror}") from error
    return address, listeners


def warn_of_open_doors(args: Namespace, keys: KeyRing) -> None:
    if not keys.is_closed and not args.uds and args.host not in _LOOPBACK:
        logger.warning(
            "whoever reaches %s:%s may use this server: it has no API keys (docs/security.md)", args.host, args.port
        )


def engine_config(args: Namespace) -> tuple[AsyncEngineArgs, VllmConfig]:
    """The engine's configuration, with our logits processor among those that the worker loads, and an executor that does not spin."""
    engine_args = AsyncEngineArgs.from_cli_args(args)
    let_drafts_choose(engine_args)
    config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    model = config.model_config
    model.logits_processors = [*(model.logits_processors or []), processor_name(config)]
    sleep_while_waiting(config)
    return engine_args, config


def start_engine(engine_args: AsyncEngineArgs, config: VllmConfig, load: Load) -> GuidedEngine:
    """Returns when the model is loaded and the engine's processes answer."""
    return GuidedEngine.from_vllm_config(
        config,
        usage_context=UsageContext.OPENAI_API_SERVER,
        enable_log_requests=engine_args.enable_log_requests,
        disable_log_stats=engine_args.disable_log_stats,
        stat_loggers=None if engine_args.disable_log_stats else [load.logger],  # one would turn the statistics on
    )


def tell_of_compilation(preparing: Future[CompileService], progress: Progress) -> None:
    """The first start of an installation compiles for minutes, and says so."""
    said = "compiling kernels for this machine, once; this takes a minute or two"
    notice = threading.Timer(_PATIENCE_SECONDS, progress.say, [said])
    notice.daemon = True
    notice.start()
    preparing.add_done_callback(lambda _: notice.cancel())


def prepare_compilation(settings: Settings, config: VllmConfig) -> CompileService:
    """Reads the vocabulary and compiles or loads the kernels, so that no request waits for either."""
    model = config.model_config
    vocabulary = guided.Vocabulary.from_pretrained(model.tokenizer, padded_size=model.get_vocab_size())
    guided.warm_up(vocabulary)
    several_hosts = config.parallel_config.nnodes > 1
    options = replace(settings.pool_options(default_folder(), Spare.left()), shares_first=several_hosts)
    files = Files.at(
        options.folder,
        vocabulary,
        capacity_bytes=options.disk_bytes,
        spare=options.spare,
        rebuild=lambda constraint: writable_network(constraint, vocabulary),
    )
    return CompileService(
        vocabulary,
        Pool(vocabulary, options),
        files,
        memory_bytes=settings.memory_cache_bytes,
        close_seconds=settings.close_seconds,
    )


def vllm_backends(settings: Settings, config: VllmConfig) -> VllmBackends | None:
    """None where requests may not name them."""
    if not settings.vllm_backends:
        return None
    return VllmBackends(config.model_config, settings.pool_options(default_folder()), settings.vllm_backend_bytes)


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
