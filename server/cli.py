"""In: the command line of `guided-server`; out: a running server. Every flag of vLLM's server is accepted."""

from __future__ import annotations

import sys
import time

from guided.vocabulary import VocabularyError
from server.settings import Settings, read_settings, set_environment


def main() -> None:
    started = time.monotonic()
    _settings({})  # before vLLM is imported, which takes its time: what is wrong in the environment is known at once
    set_environment()
    print("guided-server: [  0.0 s] loading vLLM", file=sys.stderr, flush=True)
    from server.command_line import parse_arguments

    args, given = parse_arguments(sys.argv[1:])
    settings = _settings(given)

    if args.headless:
        from server.headless import run_ranks

        return run_ranks(args)

    import uvloop

    from server.lifecycle import EngineDied, Progress, serve

    try:
        uvloop.run(serve(settings, args, Progress(started)))
    except (OSError, VocabularyError, EngineDied) as error:
        raise SystemExit(f"guided-server: {error}") from error


def _settings(given: dict) -> Settings:
    try:
        return read_settings(given)
    except ValueError as error:
        raise SystemExit(f"guided-server: {error}") from error


if __name__ == "__main__":
    main()
