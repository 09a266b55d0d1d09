"""In: the command line of `guided-server`; out: a running server. Every flag of vLLM's server is accepted."""

from __future__ import annotations

import sys
import time

from pydantic import ValidationError

from guided.vocabulary import VocabularyError


def main() -> None:
    started = time.monotonic()
    from server.settings import Settings, parse_arguments, set_environment

    try:
        settings = Settings()
    except ValidationError as error:
        wrong = (f"GUIDED_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise SystemExit(f"guided-server: {'; '.join(wrong)}") from error
    set_environment()
    print("guided-server: [  0.0 s] loading vLLM", file=sys.stderr, flush=True)
    args = parse_arguments(sys.argv[1:])

    if args.headless:
        from server.headless import run_ranks

        return run_ranks(args)

    import uvloop

    from server.lifecycle import EngineDied, Progress, serve

    try:
        uvloop.run(serve(settings, args, Progress(started)))
    except (OSError, VocabularyError, EngineDied) as error:
        raise SystemExit(f"guided-server: {error}") from error


if __name__ == "__main__":
    main()
