"""In: a number of requests, each with an enum of its own; out: whether memory and disk stayed under their caps.

    python -m loadtests.random_enums [--requests 10000] [--engine | --url http://127.0.0.1:8000]

Without --engine the constraints go through the compile service alone (gateway and workers, no model); with it through a whole server.
The caps are small, so that they matter. With --url they go to a server that is running, whose memory, disk and caps are its own
affair: what is counted are answers that are none of their choices.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

import guided
from guided.cache import Files
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.workers import Pool, PoolOptions
from loadtests.report import finish, show
from loadtests.requests import metric, resident_bytes, stream
from scripts.prepare_model import default_target
from server.compile_service import CompileService
from tests.live_server import LiveServer

AT_ONCE = 16
DISK_BYTES, MEMORY_BYTES = 64 << 20, 64 << 20


def choices(number: int) -> list[str]:
    source = random.Random(number)
    return [f"{source.choice('abcdef')}{source.randrange(10**9)}" for _ in range(source.randint(2, 40))]


def bytes_on_disk(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        try:
            found += 512 * path.stat().st_blocks if path.is_file() else 0
        except OSError:  # removed in between
            continue
    return found


async def through_the_service(requests: int, folder: Path) -> dict[str, Any]:
    vocabulary = guided.Vocabulary.from_pretrained(default_target())
    options = PoolOptions(folder / "indexes", disk_bytes=DISK_BYTES, nice=0)
    files = Files.at(options.folder, vocabulary, rebuild=lambda constraint: writable_network(constraint, vocabulary))
    service = CompileService(vocabulary, Pool(vocabulary, options), files, memory_bytes=MEMORY_BYTES)
    await service.start()
    process = psutil.Process()
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        texts = choices(number)
        compiled = await service.compile(Constraint.choice(texts))
        pieces = [vocabulary_token[character] for character in texts[0]]
        failed += not await compiled.satisfied_by(pieces, "")

    vocabulary_token = {chr(data[0]): token for token, data in enumerate(vocabulary.token_bytes) if len(data) == 1}
    watch = Watch(lambda: process.memory_info().rss, options.folder)
    await in_turns(one, requests, watch)
    used = service.memory.used_bytes
    await service.close()
    return {"failed": failed, "memory_tier_bytes": used, **watch.result()}


async def through_a_server(requests: int, folder: Path) -> dict[str, Any]:
    environment = {
        "GUIDED_CACHE_DIR": str(folder),
        "GUIDED_DISK_CACHE_BYTES": str(DISK_BYTES),
        "GUIDED_MEMORY_CACHE_BYTES": str(MEMORY_BYTES),
    }
    with LiveServer.started(default_target(), folder / "server.log", environment=environment) as server:
        assert server.process is not None
        watch = Watch(partial(resident_bytes, server.process.pid), folder / "indexes")
        return {
            "failed": await ask(server, requests, watch),
            "memory_tier_bytes": int(metric(server, 'guided_cache_bytes{tier="memory"}')),
            **watch.result(),
        }


async def ask(server: LiveServer, requests: int, watch: Watch | None) -> int:
    """Answers that are none of their choices."""
    failed = 0
    async with httpx.AsyncClient(timeout=300, limits=httpx.Limits(max_connections=None)) as client:

        async def one(number: int) -> None:
            nonlocal failed
            texts = choices(number)
            found = await stream(client, server, max_tokens=24, structured_outputs={"choice": texts})
            failed += found.text not in texts

        await in_turns(one, requests, watch)
    return failed


class Watch:
    """Memory and disk while the requests go on."""

    def __init__(self, resident: Any, folder: Path) -> None:
        self._resident, self._folder = resident, folder
        self._most_disk = 0
        self._memory: list[int] = []

    def look(self) -> None:
        self._most_disk = max(self._most_disk, bytes_on_disk(self._folder))
        self._memory.append(self._resident())

    def result(self) -> dict[str, Any]:
        tenths = [self._memory[i * (len(self._memory) - 1) // 10] >> 20 for i in range(11)]
        return {"disk_bytes_most": self._most_disk, "resident_mib_by_tenth": tenths}


async def in_turns(one: Any, requests: int, watch: Watch | None) -> None:
    """`AT_ONCE` at a time; looks at memory and disk after every hundredth."""
    numbers = iter(range(requests))
    done = 0

    async def some() -> None:
        nonlocal done
        for number in numbers:
            await one(number)
            done += 1
            if watch is not None and done % max(1, requests // 100) == 0:
                watch.look()
            if done % max(1, requests // 10) == 0:
                print(f"random_enums: {done} of {requests}", file=sys.stderr, flush=True)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--engine", action="store_true")
    ways.add_argument("--url", help="a server that is running")
    arguments = parser.parse_args()
    if arguments.url:
        begin = time.perf_counter()
        failed = asyncio.run(ask(LiveServer.at(arguments.url), arguments.requests, None))
        seconds = round(time.perf_counter() - begin, 1)
        tell({"requests": arguments.requests, "failed": failed, "seconds": seconds})
        return
    way = through_a_server if arguments.engine else through_the_service
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        found = asyncio.run(way(arguments.requests, Path(name)))
    caps = {"disk_cap": DISK_BYTES, "memory_tier_cap": MEMORY_BYTES}
    under = found["disk_bytes_most"] <= DISK_BYTES and found["memory_tier_bytes"] <= MEMORY_BYTES
    seconds = round(time.perf_counter() - begin, 1)
    tell({"requests": arguments.requests, "under_caps": under, **found, **caps, "seconds": seconds})


def tell(figures: dict[str, Any]) -> None:
    show("enums of their own", ["", "figure"], list(figures.items()))
    finish(figures)


if __name__ == "__main__":
    main()
