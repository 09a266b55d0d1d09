"""In: an OpenAI endpoint; out: how the server holds many open streams that are mostly waiting for the engine.

    python -m loadtests.idle_streams [--url http://127.0.0.1:8000] [--streams 200] [--tokens 2]

All streams are opened at once; the engine takes as many as it takes, the others wait with their connections open. Meanwhile `/health` is
asked ten times a second. Every stream has to end with an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from typing import Any

import httpx

from loadtests.first_look import make_serve
from loadtests.report import finish, percentiles, show
from loadtests.requests import Streamed, stream
from tests.live_server import LiveServer

CHOICES = ["POSITIVE", "NEUTRAL", "NEGATIVE"]
GUIDED = {"structured_outputs": {"choice": CHOICES}}


async def watch_health(server: LiveServer, done: asyncio.Event) -> list[float]:
    """Milliseconds of each look, on a connection of its own each time."""
    times = []
    while not done.is_set():
        async with httpx.AsyncClient(timeout=60) as client:
            begin = time.perf_counter()
            (await client.get(f"{server.url}/health", headers=server.headers)).raise_for_status()
            times.append(1000 * (time.perf_counter() - begin))
        await asyncio.sleep(0.1)
    return times


async def measure(server: LiveServer, streams: int, tokens: int) -> dict[str, Any]:
    done = asyncio.Event()
    health = asyncio.create_task(watch_health(server, done))
    begin = time.perf_counter()
    async with httpx.AsyncClient(timeout=3600, limits=httpx.Limits(max_connections=None)) as client:
        fields = [GUIDED if number % 2 else {"max_tokens": tokens} for number in range(streams)]
        answers: list[Streamed] = await asyncio.gather(*(stream(client, server, **f) for f in fields))
    seconds = time.perf_counter() - begin
    done.set()
    times = await health
    wrong = [a for a, f in zip(answers, fields, strict=True) if f is GUIDED and a.text not in CHOICES]
    figures = {
        "streams": streams,
        "failed": sum(not answer.finished for answer in answers),
        "wrong": len(wrong),
        "seconds": round(seconds, 1),
        "streams_per_second": round(streams / seconds, 1),
        "health_ms": percentiles(times),
    }
    show("open streams", list(figures), [list(figures.values())])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=2)
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * args.streams)), hard))
    if args.url:
        figures = asyncio.run(measure(LiveServer.at(args.url), args.streams, args.tokens))
    else:
        with make_serve() as server:
            figures = asyncio.run(measure(server, args.streams, args.tokens))
    finish(figures)
    raise SystemExit(1 if figures["failed"] or figures["wrong"] else 0)


if __name__ == "__main__":
    main()
