"""In: the command line of `guided-server`; out: a running server. Every flag of vLLM's server is accepted.

The engine's processes import this module too, before vLLM: nothing that imports Numba may be imported up here.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from server.logs import Progress
    from server.settings import Settings

if multiprocessing.current_process().name != "MainProcess":
    # A terminal's Ctrl-C goes to all of its processes, and the engine's would end in the middle of answers that have time to end: they are
    # the server's to end. Blocked and not ignored, since vLLM installs handlers of its own.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def main() -> None:
    from server import logs
    from server.settings import set_environment

    started = time.monotonic()
    # Before vLLM is imported, which takes its time: what is wrong in the environment is known at once.
    logs.configure(_read({}).log_format)
    set_environment()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)  # until requests are answered, which are given time: see `server.http_server`
    progress = logs.Progress(started)
    progress.say("loading vLLM")
    _serve(progress)


def _end(number: int, frame: object) -> None:
    """At once, as the system would by itself; but for the first process of a container, which it lets ignore what it does not handle.

    With the engine's processes: those that are starting do not look whether this one is there, and would be left over.
    """
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(128 + number)


def _serve(progress: Progress) -> None:
    from server import logs
    from server.command_line import parse_arguments, take_keys

    args, given = parse_arguments(sys.argv[1:])
    settings = _read(given)
    try:
        keys = settings.key_ring(take_keys(args))
    except (ValueError, OSError) as error:
        raise SystemExit(f"guided-server: {error}") from error
    logs.configure_vllm(args, settings.log_format)
    _share_indexes(settings, args.nnodes)

    import uvloop

    from guided.cache import spare_folder
    from guided.vllm_adapters.select import NoRunner
    from guided.vocabulary import VocabularyError
    from server.headless import run_ranks
    from server.lifecycle import EngineDied, serve

    try:
        if args.headless:
            run_ranks(args)
        else:
            with spare_folder(settings.spare_cache_bytes):
                uvloop.run(serve(settings, keys, args, progress))
    except (OSError, VocabularyError, NoRunner, EngineDied) as error:
        raise SystemExit(f"guided-server: {error}") from error


def _share_indexes(settings: Settings, hosts: int) -> None:
    """With the engine's workers: on other hosts than the gateway's they have no other way to what was compiled."""
    if settings.remote is not None:
        settings.remote.leave()
    elif hosts > 1:
        logging.getLogger(__name__).warning(
            "%d hosts and no GUIDED_REDIS_URL: unless they share GUIDED_CACHE_DIR, every constraint is compiled once more on each of "
            "the others, and the engine waits for it (docs/deployment.md)",
            hosts,
        )


def _read(given: dict[str, Any]) -> Settings:
    from server.settings import read_settings

    try:
        return read_settings(given)
    except ValueError as error:
        raise SystemExit(f"guided-server: {error}") from error


if __name__ == "__main__":
    main()
