"""In: an OpenAI endpoint; out: what one request with a very large schema does to the streams of its batch.

    python -m loadtests.large_schema [--url http://127.0.0.1:8000] [--properties 16000] [--streams 8]

A schema of thousands of optional properties has an index that never closes and states that take long. Plain streams decode; then they
decode again beside a request with this schema. The longest time between two tokens of any stream is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from loadtests.report import finish, show
from loadtests.requests import Streamed, stream
from scripts.prepare_model import default_target
from tests.live_server import LiveServer


def schema(properties: int) -> dict[str, Any]:
    source = random.Random(1)
    kinds = ("string", "integer", "boolean")
    names = [f"prop_{n:05}_{source.randrange(10**6)}" for n in range(properties)]
    return {
        "type": "object",
        "properties": {name: {"type": source.choice(kinds)} for name in names},
        "required": [names[properties // 3], names[2 * properties // 3]],
    }


async def plain(client: httpx.AsyncClient, server: LiveServer, count: int, over: asyncio.Event) -> list[Streamed]:
    """Streams one after the other, `count` at a time, until `over` is set; each to its end."""

    async def some(seed: int) -> list[Streamed]:
        found = []
        while True:
            found.append(await stream(client, server, seed=seed, max_tokens=40, ignore_eos=True))
            if over.is_set():
                return found

    return [one for many in await asyncio.gather(*(some(seed) for seed in range(count))) for one in many]


def gaps(answers: list[Streamed]) -> dict[str, float]:
    values = [gap for answer in answers for gap in answer.gaps_ms] or [0.0]
    return {
        "p50": round(float(np.median(values)), 1),
        "p99": round(float(np.percentile(values, 99)), 1),
        "most": round(max(values), 1),
    }


async def measure(server: LiveServer, properties: int, count: int) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=600) as client:
        over = asyncio.Event()
        over.set()
        await plain(client, server, count, over)
        quiet = await plain(client, server, count, over)
        over = asyncio.Event()
        beside = asyncio.create_task(plain(client, server, count, over))
        await asyncio.sleep(1)
        large = await stream(
            client, server, structured_outputs={"json": schema(properties)}, max_tokens=160, seed=3, temperature=1.0
        )
        over.set()
        loud = await beside
    print(f"large_schema: {large.text[:300]!r} {large.error}", file=sys.stderr, flush=True)
    failed = sum(answer.error is not None or not answer.finished for answer in [*loud, large])
    beside_it = {"quiet": gaps(quiet), "beside": gaps(loud)}
    rows = [[name, *values.values()] for name, values in [*beside_it.items(), ("the large one", gaps([large]))]]
    show("milliseconds between two tokens", ["streams", "p50", "p99", "most"], rows)
    return {
        "longest_gap_ratio": round(beside_it["beside"]["most"] / beside_it["quiet"]["most"], 2),
        "failed": failed,
        "gaps_ms": beside_it,
        "large_ttft_ms": large.first_ms and round(large.first_ms, 1),
        "large_gaps_ms": gaps([large]),
        "large_tokens": 1 + len(large.gaps_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it one with the embedded model is started")
    parser.add_argument("--properties", type=int, default=16_000)
    parser.add_argument("--streams", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.url:
        finish(asyncio.run(measure(LiveServer.at(arguments.url), arguments.properties, arguments.streams)))
        return
    with tempfile.TemporaryDirectory() as name:
        environment = {"GUIDED_CACHE_DIR": name}
        with LiveServer.started(default_target(), Path(name) / "server.log", environment=environment) as server:
            found = asyncio.run(measure(server, arguments.properties, arguments.streams))
            print(Path(name, "server.log").read_text()[-1500:], file=sys.stderr)
    finish(found)


if __name__ == "__main__":
    main()
