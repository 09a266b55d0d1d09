"""In: a model; out: what a storm of new constraints, hostile ones among them, does to streams that have none, as JSON.

    python -m loadtests.compile_storm [--tokens 100] [--rounds 2]

16 plain streams decode: in a quiet round, in one in which 100 requests without a constraint arrive within 5 s, and in one in which the
same 100 bring distinct schemas (90 real ones, 10 hostile). The batch of the engine is full with the streams, so that what is measured is
compilation, not longer batches. `ratio_to_plain_requests` is what the constraints add to what any 100 requests do on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from loadtests.requests import Streamed, resident_bytes, stream
from loadtests.sample_schemas import schemas
from scripts.prepare_model import default_target
from tests.live_server import LiveServer

STREAMS, STORM, HOSTILE, SECONDS = 16, 100, 10, 5.0


def hostile(number: int) -> str:
    """JSON text of a schema that is meant to hurt; no two are the same."""
    kind, size = number % HOSTILE, 17 + number // HOSTILE
    letters = [{"pattern": f"^(a|b)*{c}(a|b){{{k}}}$"} for c in "ab" for k in (11, 13, size)]
    made: list[Any] = [
        {"type": "string", "not": {"pattern": f"^(a|b)*a(a|b){{{size}}}$"}},
        {"type": "string", "not": {"pattern": f"^(a|b)*b(a|b){{{size}}}$"}},
        {"type": "string", "allOf": letters},
        {"type": "object", "properties": {f"p{n}": {"type": "string", "allOf": letters} for n in range(3)}},
        {"type": "string", "pattern": f"^(?=(a|b)*a(a|b){{{size}}}$)(?!(a|b)*b(a|b){{{size - 1}}}$)(a|b)*$"},
        {"type": "string", "pattern": f"^(?=(a|b)*b(a|b){{{size}}}$)(?!(a|b)*a(a|b){{{size - 1}}}$)(a|b)*$"},
        {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": [f"v{n}" for n in range(400 + size)]},
            "minItems": 200,
        },
        {"type": "array", "contains": letters[0], "minContains": 20, "maxContains": 30, "items": letters[2]},
        {"enum": [f"{size}-{n:09}" * 4 for n in range(50_000)]},  # 2.4 MB
    ]
    if kind < len(made):
        return json.dumps(made[kind])
    return '{"properties":{"a":' * 5_000 + "true" + "}}" * 5_000


async def streams(client: httpx.AsyncClient, server: LiveServer, tokens: int) -> list[Streamed]:
    options = {"max_tokens": tokens, "ignore_eos": True, "temperature": 1.0}
    return await asyncio.gather(*(stream(client, server, seed=n, **options) for n in range(STREAMS)))


@dataclass(slots=True)
class Storm:
    """What the requests of a storm came to, real and hostile ones apart."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: {"real": Counter(), "hostile": Counter()})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"real": [], "hostile": []})


async def storm(
    client: httpx.AsyncClient, server: LiveServer, real: list[Any], number: int | None, found: Storm
) -> None:
    """Sends the requests evenly over the seconds, hostile ones between real ones; no schema comes in two storms.

    Args:
        number: of the storm; None: the requests have no constraint.
    """

    async def one(place: int) -> None:
        await asyncio.sleep(SECONDS * place / STORM)
        is_hostile = place % (STORM // HOSTILE) == 0
        constraint = ""
        if number is not None:
            schema = json.dumps({**real[place], "$id": f"/{number}"})
            if is_hostile:
                schema = hostile(HOSTILE * number + place // HOSTILE)
            constraint = f', "guided_json": {schema}'
        body = f'{{"model": "{server.model}", "prompt": "As JSON:", "stream": true, "max_tokens": 3000{constraint}}}'
        headers = {"content-type": "application/json"}
        begin = time.perf_counter()
        # The status comes when the constraint is compiled and the engine has the request; then this client leaves.
        async with client.stream("POST", f"{server.url}/v1/completions", content=body, headers=headers) as answer:
            kind = "hostile" if is_hostile else "real"
            found.statuses[kind][answer.status_code] += 1
            found.seconds[kind].append(round(time.perf_counter() - begin, 2))

    await asyncio.gather(*(one(place) for place in range(STORM)))


async def health(client: httpx.AsyncClient, server: LiveServer, until: asyncio.Event) -> float:
    """The longest time that /health took, milliseconds."""
    worst = 0.0
    while not until.is_set():
        begin = time.perf_counter()
        await client.get(f"{server.url}/health")
        worst = max(worst, 1000 * (time.perf_counter() - begin))
        await asyncio.sleep(0.1)
    return worst


def p99(answers: list[Streamed]) -> float:
    return float(np.percentile([gap for answer in answers for gap in answer.gaps_ms], 99))


async def measure(server: LiveServer, tokens: int, rounds: int) -> dict[str, Any]:
    real = schemas()[-900::9]
    limits = httpx.Limits(max_connections=None)
    rounds_p99: dict[str, list[float]] = {"quiet": [], "plain": [], "storm": []}
    failed, health_ms = 0, 0.0
    total = Storm()
    async with httpx.AsyncClient(timeout=600, limits=limits) as client:
        await streams(client, server, 8)  # nobody's first request is measured
        before = resident_bytes(server)
        for number in range(rounds):
            for condition, values in rounds_p99.items():
                decoding = asyncio.create_task(streams(client, server, tokens))
                await asyncio.sleep(0.5)
                if condition == "plain":
                    await storm(client, server, real, None, Storm())
                elif condition == "storm":
                    over = asyncio.Event()
                    probing = asyncio.create_task(health(client, server, over))
                    await storm(client, server, real, number, total)
                    over.set()
                    health_ms = max(health_ms, await probing)
                answers = await decoding
                values.append(p99(answers))
                failed += sum(not answer.finished or answer.error is not None for answer in answers)
                say(f"round {number + 1}: {condition} {values[-1]:.0f} ms")
        peak = resident_bytes(server)
        await asyncio.sleep(10)
        after = resident_bytes(server)
    statuses = total.statuses
    return {
        "p99_itl_ratio": _ratio(rounds_p99["storm"], rounds_p99["quiet"]),
        "failed_streams": failed,
        "hostile_refused": sum(count for status, count in statuses["hostile"].items() if 400 <= status < 500),
        "hostile_sent": sum(statuses["hostile"].values()),
        "ratio_to_plain_requests": _ratio(rounds_p99["storm"], rounds_p99["plain"]),
        "statuses": {kind: dict(counts) for kind, counts in statuses.items()},
        "seconds_to_status": {k: [round(float(np.median(v)), 2), max(v)] for k, v in total.seconds.items()},
        "p99_itl_ms": {condition: [round(value, 1) for value in values] for condition, values in rounds_p99.items()},
        "health_ms_worst": round(health_ms, 1),
        "resident_mib": [value >> 20 for value in (before, peak, after)],
    }


def _ratio(values: list[float], base: list[float]) -> float:
    """The median of the rounds' ratios."""
    return round(float(np.median([value / other for value, other in zip(values, base, strict=True)])), 3)


def say(message: str) -> None:
    print(f"compile_storm: {message}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        environment = {"GUIDED_CACHE_DIR": name}
        with LiveServer.started(default_target(), Path(name) / "server.log", environment=environment) as server:
            print(json.dumps(asyncio.run(measure(server, arguments.tokens, arguments.rounds))))


if __name__ == "__main__":
    main()
