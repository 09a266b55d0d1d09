"""In: a model; out: how a repeated constraint's time to first token compares with no constraint, also after a restart, as JSON.

    python -m loadtests.repeated_constraint [--url http://127.0.0.1:8000] [--repeats 15] [--schemas FILE]

With --url the constraints are asked there, and nothing is restarted. Without it, starts one with an empty cache and a Redis of its own,
asks each until its index is closed, then measures plain and constrained requests in turn; restarts it and measures again
before anything else; then starts a second replica with an empty disk and the same Redis, and counts what it compiles.
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

from loadtests.requests import calm, metric, stream
from loadtests.sample_schemas import schemas
from scripts.prepare_model import default_target
from tests.live_server import LiveServer
from tests.redis_server import redis_server

Constraints = dict[str, dict[str, Any]]  # kind -> fields of a request
CUT = {"guided_options": {"fit_budget": False}}  # two tokens are enough to see the first of them
WITHOUT_SCHEMA: Constraints = {
    "regex": {"guided_regex": r"((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d):\d{2,5}"},
    "choice": {"guided_choice": ["POSITIVE", "NEUTRAL", "NEGATIVE"]},
    "grammar": {"guided_grammar": 'start: term (" AND " term)*\nterm: "(" start ")" | /[a-z]{1,8}/'},
}


def asked(fields: dict[str, Any] | None) -> dict[str, Any]:
    """The request: two tokens of an answer, whole or not."""
    options = {} if fields is None else {"guided_options": {"fit_budget": False}, **fields}
    return {"max_tokens": 2, **options}


async def measure(server: LiveServer, constraints: Constraints, repeats: int) -> dict[str, Any]:
    """Medians of milliseconds to the first token, and ratios to unguided: above 1 is faster than unguided."""
    times: dict[str, list[float]] = {"plain": [], **{name: [] for name in constraints}}
    async with httpx.AsyncClient(timeout=120) as client:
        for _ in range(repeats):
            for name in times:
                found = await stream(client, server, **asked(constraints.get(name)))
                assert found.first_ms is not None, (name, found)
                times[name].append(found.first_ms)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: round(medians["plain"] / medians[name], 3) for name in constraints}
    constrained = statistics.median([value for name in constraints for value in times[name]])
    return {
        "ratio": round(medians["plain"] / constrained, 3),
        "by_kind": ratios,
        "plain_ms": round(medians["plain"], 1),
        "compilations": metric(server, "guided_compilations_total"),
    }


async def settle(server: LiveServer, constraints: Constraints) -> None:
    """Asks for each constraint, and waits until what can be closed is closed."""
    async with httpx.AsyncClient(timeout=300) as client:
        for fields in constraints.values():
            await stream(client, server, **asked(fields))
    await calm(server)


def say(message: str) -> None:
    print(f"repeated_constraint: {message}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running, which is not restarted")
    parser.add_argument("--metrics-url", help="where its metrics are, if not at /metrics of --url")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--schemas", type=Path, help="gzipped JSON lines with a `schema` each")
    args = parser.parse_args()
    wanted = WITHOUT_SCHEMA | {"schema": {"guided_json": schemas(args.schemas)[700]}}
    constraints = {kind: fields | CUT for kind, fields in wanted.items()}
    if args.url:
        server = LiveServer.at(args.url, args.metrics_url)
        asyncio.run(settle(server, constraints))
        first = asyncio.run(measure(server, constraints, args.repeats))
        print(json.dumps(report(first)))
    else:
        print(json.dumps(with_restarts(constraints, args.repeats)))


def with_restarts(constraints: Constraints, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as redis:
        folder, model = Path(name), default_target()

        def replica(number: int) -> Any:
            environment = {"GUIDED_CACHE_DIR": str(folder / f"{number}"), "GUIDED_REDIS_URL": redis.url}
            return LiveServer.started(model, folder / "server.log", environment=environment)

        with replica(1) as server:
            asyncio.run(settle(server, constraints))
            first = asyncio.run(measure(server, constraints, repeats))
            say(f"first run {first}")
        with replica(1) as server:
            again = asyncio.run(measure(server, constraints, repeats))
            say(f"after a restart {again}")
        with replica(2) as server:
            other = asyncio.run(measure(server, constraints, 3))
            say(f"second replica {other}")
    return report(first) | {
        "ttft_ratio_after_restart": again["ratio"],
        "second_replica_compilations": int(other["compilations"]),
        "restart_compilations": int(again["compilations"]),
    }


def report(first: dict[str, Any]) -> dict[str, Any]:
    return {"ttft_ratio": first["ratio"], "by_kind": first["by_kind"], "plain_ttft_ms": first["plain_ms"]}


if __name__ == "__main__":
    main()
