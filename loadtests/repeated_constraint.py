"""In: a model; out: how a repeated constraint's time to first token compares with no constraint, also after a restart, as JSON.

    python -m loadtests.repeated_constraint [--url http://127.0.0.1:8000] [--repeats 40] [--schemas FILE]

With --url the constraints are asked there, and nothing is restarted. Without it, starts one with an empty cache and a Redis of its own,
asks each until its index is closed, then measures plain and constrained requests in turn; restarts it and measures again
before anything else; then starts a second replica with an empty disk and the same Redis, and counts what it compiles.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from loadtests.report import finish, show
from loadtests.requests import calm, metric, stream
from loadtests.sample_schemas import schemas
from scripts.prepare_model import default_target
from tests.live_server import LiveServer
from tests.redis_server import redis_server

Constraints = dict[str, dict[str, Any]]  # kind -> structured_outputs
COMPILATIONS = "guided_compilations_total"
WITHOUT_SCHEMA: Constraints = {
    "regex": {"regex": r"((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d):\d{2,5}"},
    "choice": {"choice": ["POSITIVE", "NEUTRAL", "NEGATIVE"]},
    "grammar": {"grammar": 'root ::= term (" AND " term)*\nterm ::= "(" root ")" | [a-z]{1,8}'},
}


def asked(constraint: dict[str, Any] | None) -> dict[str, Any]:
    """The request: two tokens of an answer, whole or not."""
    options = {} if constraint is None else {"structured_outputs": constraint, "guided_options": {"fit_budget": False}}
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
        "ms": {name: round(value, 1) for name, value in medians.items()},
    }


async def settle(server: LiveServer, constraints: Constraints, settle_s: float | None = None) -> None:
    """Asks for each constraint, and waits until what can be closed is closed."""
    async with httpx.AsyncClient(timeout=300) as client:
        for constraint in constraints.values():
            await stream(client, server, **asked(constraint))
    await calm(server, settle_s)


def say(message: str) -> None:
    print(f"repeated_constraint: {message}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running, which is not restarted")
    parser.add_argument("--metrics-url", help="where its metrics are, if not at /metrics of --url")
    parser.add_argument(
        "--settle-s", type=float, help="with --url of another server: how long its compilations may take"
    )
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--schemas", type=Path, help="gzipped JSON lines with a `schema` each")
    args = parser.parse_args()
    constraints = WITHOUT_SCHEMA | {"schema": {"json": schemas(args.schemas)[700]}}
    if args.url:
        server = LiveServer.at(args.url, args.metrics_url)
        asyncio.run(settle(server, constraints, args.settle_s))
        first = asyncio.run(measure(server, constraints, args.repeats))
        runs, figures = {"first run": first}, report(first)
    else:
        runs, figures = with_restarts(constraints, args.repeats)
    columns = ["milliseconds to the first token", "plain", *constraints, "ratio"]
    show("a repeated constraint", columns, [[name, *run["ms"].values(), run["ratio"]] for name, run in runs.items()])
    finish(figures)


def with_restarts(constraints: Constraints, repeats: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each run measured, and the figures."""
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
            recompiled = int(metric(server, COMPILATIONS))
            say(f"after a restart {again}")
        with replica(2) as server:
            other = asyncio.run(measure(server, constraints, 3))
            compiled = int(metric(server, COMPILATIONS))
            say(f"second replica {other}")
    figures = report(first) | {
        "ttft_ratio_after_restart": again["ratio"],
        "second_replica_compilations": compiled,
        "restart_compilations": recompiled,
    }
    return {"first run": first, "after a restart": again, "second replica": other}, figures


def report(first: dict[str, Any]) -> dict[str, Any]:
    return {"ttft_ratio": first["ratio"], "by_kind": first["by_kind"], "plain_ttft_ms": first["ms"]["plain"]}


if __name__ == "__main__":
    main()
