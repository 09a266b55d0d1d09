"""In: an OpenAI endpoint; out: errors and the slopes of memory under mixed traffic: plain and guided, old constraints and new ones.

    python -m loadtests.soak [--url http://127.0.0.1:8000] [--minutes 5] [--streams 8] [--pid PID]

Memory is what would be free if the server's processes ended, by what they do, where they run on this machine: give the server's PID with
--url. A slope is a least squares fit over the second half, when caches have filled; five minutes find errors, an hour finds a leak.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.report import finish, median, percentiles, show
from loadtests.requests import Streamed, own_bytes, stream
from scripts.prepare_model import default_target
from tests.live_server import LiveServer

SAMPLE_S = 5.0
NEW_SHARE = 0.1  # of the guided requests bring a constraint that nobody sent before


def guided(kind: str, constraint: Any) -> dict[str, Any]:
    return {"structured_outputs": {kind: constraint}}  # which plain vLLM reads too


def request(dice: random.Random, number: int) -> tuple[dict[str, Any], str]:
    """A request of the mix, a third plain, the others guided; and what the whole answer has to match."""
    word = f"x{number}" if dice.random() < NEW_SHARE else dice.choice(["red", "green", "blue"])
    schema = {"type": "object", "properties": {word: {"type": "integer"}}, "required": [word]}
    return dice.choice(
        [
            ({"max_tokens": 24}, "(?s:.*)"),
            (guided("choice", [f"{word} yes", f"{word} no"]), f"{word} (yes|no)"),
            (guided("json", schema), rf'{{\s*"{word}"\s*:\s*-?[0-9][0-9.eE+-]*\s*}}'),
            (guided("regex", rf"{word} [a-z]{{1,12}}\."), rf"{word} [a-z]{{1,12}}\."),
            ({"max_tokens": 8, "temperature": 0}, "(?s:.*)"),
            (guided("grammar", f'root ::= "{word}" (" " [0-9]{{1,3}}){{1,3}}'), f"{word}( [0-9]{{1,3}}){{1,3}}"),
        ]
    )


@dataclass
class Memory:
    """Samples of it, in bytes, by what the processes do: "gateway", "engine", "compiling"."""

    seconds: list[float] = field(default_factory=list)
    of: dict[str, list[int]] = field(default_factory=dict)

    def add(self, seconds: float, found: dict[str, int]) -> None:
        self.seconds.append(seconds)
        for role, value in found.items():
            self.of.setdefault(role, []).append(value)

    def mib(self, position: int) -> dict[str, int]:
        return {role: values[position] >> 20 for role, values in self.of.items()}

    def mib_per_hour(self) -> dict[str, float]:
        """The slopes of the second half."""
        half = len(self.seconds) // 2
        if len(self.seconds) - half < 3:
            return {}
        fits = {
            role: statistics.linear_regression(self.seconds[half:], values[half:]) for role, values in self.of.items()
        }
        return {role: round(fit.slope * 3600 / 2**20, 1) for role, fit in fits.items()}


async def measure(server: LiveServer, minutes: float, streams: int, pid: int | None) -> dict[str, Any]:
    end = time.monotonic() + 60 * minutes
    numbers = itertools.count()
    kept: list[Streamed] = []
    wrong: list[str] = []
    memory = Memory()

    async def client_of_many(seed: int) -> None:
        dice = random.Random(seed)
        async with httpx.AsyncClient(timeout=600) as client:
            while time.monotonic() < end:
                fields, pattern = request(dice, next(numbers))
                answer = await stream(client, server, **fields)
                kept.append(answer)
                if answer.finished and not re.fullmatch(pattern, answer.text):
                    wrong.append(f"{fields}: {answer.text}")

    async def watch() -> None:
        begin = time.monotonic()
        while pid is not None and time.monotonic() < end:
            memory.add(time.monotonic() - begin, await asyncio.to_thread(own_bytes, pid))
            await asyncio.sleep(SAMPLE_S)

    await asyncio.gather(watch(), *(client_of_many(seed) for seed in range(streams)))
    failed = [answer for answer in kept if not answer.finished]
    thirds = [kept[i * len(kept) // 3 : (i + 1) * len(kept) // 3] for i in range(3)]
    figures = {
        "minutes": minutes,
        "requests": len(kept),
        "failed": len(failed),
        "wrong": len(wrong),
        "first_fault": str(failed[0].error) if failed else next(iter(wrong), None),
        "ttft_ms": percentiles([a.first_ms for a in kept if a.first_ms is not None]),
        "ttft_ms_median_by_third": [
            median([a.first_ms for a in third if a.first_ms is not None], 1) for third in thirds
        ],
        "memory_mib_start": memory.mib(0),
        "memory_mib_half": memory.mib(len(memory.seconds) // 2),
        "memory_mib_end": memory.mib(-1),
        "memory_mib_per_hour": memory.mib_per_hour(),
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
    raise SystemExit(1 if figures["failed"] or figures["wrong"] else 0)


if __name__ == "__main__":
    main()
