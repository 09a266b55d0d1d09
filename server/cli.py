"""In: the command line of `guided-server`; out: a running server. Every flag of vLLM's server is accepted.

The engine's processes import this module too, before vLLM: nothing that imports Numba may be imported up here.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.settings import Settings


def main() -> None:
    started = time.monotonic()
    from guided.vocabulary import VocabularyError
    from server.settings import set_environment

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
    from server.settings import read_settings

    try:
        return read_settings(given)
    except ValueError as error:
        raise SystemExit(f"guided-server: {error}") from error


if __name__ == "__main__":
    main()
