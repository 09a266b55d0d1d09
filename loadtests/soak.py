"""In: an OpenAI endpoint; out: errors and the slope of memory under mixed traffic: plain and guided, old constraints and new ones.

    python -m loadtests.soak [--url http://127.0.0.1:8000] [--minutes 5] [--streams 8] [--pid PID]

Memory is that of the server's process and all of its children, where it runs on this machine: give its PID with --url. The slope is a least
squares fit over the second half of the time, when caches have filled; five minutes find errors, an hour finds a leak.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
from typing import Any

import httpx
import psutil

from loadtests.report import finish, median, percentiles, show
from loadtests.requests import Streamed, stream
from scripts.prepare_model import default_target
from tests.live_server import LiveServer

SAMPLE_S = 5.0
NEW_SHARE = 0.1  # of the guided requests bring a constraint that nobody sent before


def guided(kind: str, constraint: Any) -> dict[str, Any]:
    return {"structured_outputs": {kind: constraint}}  # which plain vLLM reads too


def fields(dice: random.Random, number: int) -> dict[str, Any]:
    """A request of the mix: a third plain, the others guided."""
    word = f"x{number}" if dice.random() < NEW_SHARE else dice.choice(["red", "green", "blue"])
    return dice.choice(
        [
            {"max_tokens": 24},
            guided("choice", [f"{word} yes", f"{word} no"]),
            guided("json", {"type": "object", "properties": {word: {"type": "integer"}}, "required": [word]}),
            guided("regex", rf"{word} [a-z]{{1,12}}\."),
            {"max_tokens": 8, "temperature": 0},
            guided("grammar", f'root ::= "{word}" (" " [0-9]{{1,3}}){{1,3}}'),
        ]
    )


def resident_bytes(pid: int) -> int:
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    total = 0
    for process in tree:
        try:
            total += process.memory_full_info().uss  # what would be free again if it ended
        except psutil.Error:
            continue
    return total


def slope_mib_per_hour(samples: list[tuple[float, int]]) -> float | None:
    """Of (seconds, bytes), second half."""
    half = [s for s in samples if s[0] >= samples[-1][0] / 2] if samples else []
    if len(half) < 3:
        return None
    fit = statistics.linear_regression([s[0] for s in half], [s[1] for s in half])
    return round(fit.slope * 3600 / 2**20, 1)


async def measure(server: LiveServer, minutes: float, streams: int, pid: int | None) -> dict[str, Any]:
    end = time.monotonic() + 60 * minutes
    numbers = itertools.count()
    kept: list[Streamed] = []
    memory: list[tuple[float, int]] = []

    async def client_of_many(seed: int) -> None:
        dice = random.Random(seed)
        async with httpx.AsyncClient(timeout=600) as client:
            while time.monotonic() < end:
                kept.append(await stream(client, server, **fields(dice, next(numbers))))

    async def watch() -> None:
        begin = time.monotonic()
        while pid is not None and time.monotonic() < end:
            memory.append((time.monotonic() - begin, await asyncio.to_thread(resident_bytes, pid)))
            await asyncio.sleep(SAMPLE_S)

    await asyncio.gather(watch(), *(client_of_many(seed) for seed in range(streams)))
    failed = [answer for answer in kept if not answer.finished]
    thirds = [kept[i * len(kept) // 3 : (i + 1) * len(kept) // 3] for i in range(3)]
    figures = {
        "minutes": minutes,
        "requests": len(kept),
        "failed": len(failed),
        "first_failure": str(failed[0].error) if failed else None,
        "ttft_ms": percentiles([a.first_ms for a in kept if a.first_ms is not None]),
        "ttft_ms_median_by_third": [
            median([a.first_ms for a in third if a.first_ms is not None], 1) for third in thirds
        ],
        "memory_mib_start": memory[0][1] >> 20 if memory else None,
        "memory_mib_end": memory[-1][1] >> 20 if memory else None,
        "memory_mib_per_hour": slope_mib_per_hour(memory),
    }
    show("soak", list(figures), [list(figures.values())])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it one with the embedded model is started")
    parser.add_argument("--minutes", type=float, default=5, help="60 for a slope of memory that says something")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--pid", type=int, help="of the server, with --url")
    args = parser.parse_args()
    if args.url:
        figures = asyncio.run(measure(LiveServer.at(args.url), args.minutes, args.streams, args.pid))
    else:
        import tempfile
        from pathlib import Path

        with (
            tempfile.TemporaryDirectory() as folder,
            LiveServer.started(default_target(), Path(folder) / "log") as server,
        ):
            assert server.process is not None
            figures = asyncio.run(measure(server, args.minutes, args.streams, server.process.pid))
    finish(figures)
    raise SystemExit(1 if figures["failed"] else 0)


if __name__ == "__main__":
    main()
