"""In: a model; out: how a repeated constraint's time to first token compares with no constraint, also after a restart, as JSON.

    python -m loadtests.repeated_constraint [--repeats 15]

Starts a server with an empty cache and a Redis of its own, asks each constraint until its index is closed, then measures plain and
constrained requests in turn; restarts it and measures again before anything else; then starts a second replica with an empty disk and
the same Redis, and counts what it compiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from loadtests.requests import metric, schemas, stream
from scripts.prepare_model import default_target
from tests.live_server import LiveServer
from tests.redis_server import redis_server

CONSTRAINTS: dict[str, dict[str, Any]] = {
    "regex": {"guided_regex": r"((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d):\d{2,5}"},
    "choice": {"guided_choice": ["POSITIVE", "NEUTRAL", "NEGATIVE"]},
    "grammar": {"guided_grammar": 'start: term (" AND " term)*\nterm: "(" start ")" | /[a-z]{1,8}/'},
    "schema": {"guided_json": schemas()[700]},
}


async def measure(server: LiveServer, repeats: int) -> dict[str, Any]:
    """Medians of milliseconds to the first token, and ratios to unguided: above 1 is faster than unguided."""
    times: dict[str, list[float]] = {"plain": [], **{name: [] for name in CONSTRAINTS}}
    async with httpx.AsyncClient(timeout=120) as client:
        for _ in range(repeats):
            for name in times:
                found = await stream(client, server, max_tokens=2, **CONSTRAINTS.get(name, {}))
                assert found.first_ms is not None, (name, found)
                times[name].append(found.first_ms)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: round(medians["plain"] / medians[name], 3) for name in CONSTRAINTS}
    constrained = statistics.median([value for name in CONSTRAINTS for value in times[name]])
    return {
        "ratio": round(medians["plain"] / constrained, 3),
        "by_kind": ratios,
        "plain_ms": round(medians["plain"], 1),
        "compilations": metric(server, "guided_compilations_total"),
    }


async def settle(server: LiveServer) -> None:
    """Asks for each constraint, and waits until what can be closed is closed."""
    async with httpx.AsyncClient(timeout=300) as client:
        for fields in CONSTRAINTS.values():
            await stream(client, server, max_tokens=2, **fields)
        for _ in range(100):
            if metric(server, "guided_compile_busy") == metric(server, "guided_compile_queue") == 0:
                break
            await asyncio.sleep(0.2)


def say(message: str) -> None:
    print(f"repeated_constraint: {message}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as redis:
        folder, model = Path(name), default_target()

        def replica(number: int) -> Any:
            environment = {"GUIDED_CACHE_DIR": str(folder / f"{number}"), "GUIDED_REDIS_URL": redis.url}
            return LiveServer.started(model, folder / "server.log", environment=environment)

        with replica(1) as server:
            asyncio.run(settle(server))
            first = asyncio.run(measure(server, repeats))
            say(f"first run {first}")
        with replica(1) as server:
            again = asyncio.run(measure(server, repeats))
            say(f"after a restart {again}")
        with replica(2) as server:
            other = asyncio.run(measure(server, 3))
            say(f"second replica {other}")
    print(
        json.dumps(
            {
                "ttft_ratio": first["ratio"],
                "ttft_ratio_after_restart": again["ratio"],
                "second_replica_compilations": int(other["compilations"]),
                "restart_compilations": int(again["compilations"]),
                "by_kind": first["by_kind"],
                "plain_ttft_ms": first["plain_ms"],
            }
        )
    )


if __name__ == "__main__":
    main()
