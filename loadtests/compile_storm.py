"""In: an OpenAI endpoint; out: what a storm of new constraints, hostile ones among them, does to streams that have none.

    python -m loadtests.compile_storm [--url http://127.0.0.1:8000] [--tokens 100] [--rounds 2]

16 plain streams decode: in a quiet round, in one in which 100 requests without a constraint arrive within 5 s, and in one in which the
same 100 bring distinct schemas (90 real ones, 10 hostile). The batch of the engine is full with the streams, so that what is measured is
compilation, not longer batches. `ratio_to_plain_requests` is what the constraints add to what any 100 requests do on the same machine.
Bodies are written before the streams begin, and no round begins while constraints of the last one are still being compiled: the clock
measures the server. Memory is what would be free if the processes ended, pages of files left out.

Without --url a server with an empty cache is started; the memory of one that runs already is not looked at. This project's servers say in
their metrics when nothing is compiled any more; --settle-s is for others.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
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

from loadtests.report import finish, show
from loadtests.requests import Streamed, calm, own_bytes, stream
from loadtests.sample_schemas import schemas
from scripts.prepare_model import default_target
from tests.live_server import LiveServer

STREAMS, STORM, HOSTILE, SECONDS = 16, 100, 10, 5.0
REST_SECONDS = 45.0  # from the last compilation until memory is looked at: workers rest for 30


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
    return '{"properties":{"a":' * (5_000 + size) + "true" + "}}" * (5_000 + size)


async def streams(client: httpx.AsyncClient, server: LiveServer, tokens: int) -> list[Streamed]:
    options = {"max_tokens": tokens, "ignore_eos": True, "temperature": 1.0}
    return await asyncio.gather(*(stream(client, server, seed=n, **options) for n in range(STREAMS)))


@dataclass(slots=True)
class Storm:
    """What the requests of a storm came to, real and hostile ones apart; status 0: no answer."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: {"real": Counter(), "hostile": Counter()})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"real": [], "hostile": []})


def bodies(model: str, real: list[Any], number: int | None) -> list[bytes]:
    """The requests of a storm in their order, every tenth one hostile; no schema comes in two storms.

    Args:
        number: of the storm; None: the requests have no constraint.
    """

    def one(place: int) -> bytes:
        constraint = ""
        if number is not None:
            schema = json.dumps({**real[place], "$id": f"/{number}"})
            if is_hostile(place):
                schema = hostile(HOSTILE * number + place // HOSTILE)
            constraint = f', "structured_outputs": {{"json": {schema}}}'
        return f'{{"model": "{model}", "prompt": "As JSON:", "stream": true, "max_tokens": 3000{constraint}}}'.encode()

    return [one(place) for place in range(STORM)]


def is_hostile(place: int) -> bool:
    return place % (STORM // HOSTILE) == 0


async def storm(client: httpx.AsyncClient, server: LiveServer, requests: list[bytes], found: Storm) -> None:
    """Sends the requests evenly over the seconds."""

    async def one(place: int) -> None:
        await asyncio.sleep(SECONDS * place / STORM)
        headers = {"content-type": "application/json", **server.headers}
        url = f"{server.url}/v1/completions"
        begin = time.perf_counter()
        try:
            # The status comes when the constraint is compiled and the engine has the request; then this client leaves.
            async with client.stream("POST", url, content=requests[place], headers=headers) as answer:
                status = answer.status_code
        except httpx.HTTPError as error:
            say(f"request {place}: {error!r}")
            status = 0
        kind = "hostile" if is_hostile(place) else "real"
        found.statuses[kind][status] += 1
        found.seconds[kind].append(round(time.perf_counter() - begin, 2))

    await asyncio.gather(*(one(place) for place in range(len(requests))))


async def health(client: httpx.AsyncClient, server: LiveServer, until: asyncio.Event) -> float:
    """The longest time that /health took, milliseconds."""
    worst = 0.0
    while not until.is_set():
        begin = time.perf_counter()
        (await client.get(f"{server.url}/health", headers=server.headers)).raise_for_status()
        worst = max(worst, 1000 * (time.perf_counter() - begin))
        await asyncio.sleep(0.1)
    return worst


def p99(answers: list[Streamed]) -> float:
    gaps = [gap for answer in answers for gap in answer.gaps_ms]
    if not gaps:
        raise SystemExit(f"compile_storm: no stream wrote anything: {answers[0].status} {answers[0].error}")
    return float(np.percentile(gaps, 99))


@dataclass(slots=True)
class Rounds:
    """What the streams and the server went through.

    Attributes:
        p99_ms: by condition, one for each round.
        calm_s: from the end of the streams until nothing was compiled any more, after each storm; None: not known.
        own: bytes of memory by process: before, the most during a storm, and after the last one.
    """

    p99_ms: dict[str, list[float]] = field(default_factory=lambda: {"quiet": [], "plain": [], "storm": []})
    failed: int = 0
    health_ms: float = 0.0
    calm_s: list[float | None] = field(default_factory=list)
    total: Storm = field(default_factory=Storm)
    own: dict[str, list[int]] = field(default_factory=dict)

    def remember(self, server: LiveServer) -> None:
        for name, value in own_bytes(server.process.pid).items() if server.process else ():
            self.own.setdefault(name, [value, value, value])
            self.own[name][1] = max(value, self.own[name][1])
            self.own[name][2] = value


async def measure(server: LiveServer, tokens: int, rounds: int, settle_s: float | None = None) -> Rounds:
    real = schemas()[-900::9]
    found = Rounds()
    gc.collect()
    gc.freeze()  # a collection of all that has been imported would stop this client's clock for a tenth of a second
    if settle_s is None:
        await calm(server)  # raises before the first storm, where nobody would know when it is over
    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=None)) as client:
        await streams(client, server, 8)  # nobody's first request is measured
        found.remember(server)
        for number in range(rounds):
            for condition, values in found.p99_ms.items():
                requests = bodies(server.model, real, number if condition == "storm" else None)
                answers = await under(client, server, tokens, condition, requests, found)
                values.append(p99(answers))
                found.failed += sum(not answer.finished or answer.error is not None for answer in answers)
                say(f"round {number + 1}: {condition} {values[-1]:.0f} ms")
                found.remember(server)
                if condition == "storm":
                    found.calm_s.append(await calm(server, settle_s))
        if server.process is not None:
            await asyncio.sleep(REST_SECONDS)
        found.remember(server)
    return found


async def under(
    client: httpx.AsyncClient, server: LiveServer, tokens: int, condition: str, requests: list[bytes], found: Rounds
) -> list[Streamed]:
    """The streams under a condition."""
    decoding = asyncio.create_task(streams(client, server, tokens))
    await asyncio.sleep(0.5)
    if condition == "plain":
        await storm(client, server, requests, Storm())
    elif condition == "storm":
        over = asyncio.Event()
        probing = asyncio.create_task(health(client, server, over))
        await storm(client, server, requests, found.total)
        over.set()
        found.health_ms = max(found.health_ms, await probing)
    return await decoding


def report(found: Rounds) -> dict[str, Any]:
    statuses, p99_ms = found.total.statuses, found.p99_ms
    figures: dict[str, Any] = {
        "p99_itl_ratio": _ratio(p99_ms["storm"], p99_ms["quiet"]),
        "failed_streams": found.failed,
        "hostile_refused": _between(statuses["hostile"], 400, 500),
        "hostile_sent": sum(statuses["hostile"].values()),
        "ratio_to_plain_requests": _ratio(p99_ms["storm"], p99_ms["plain"]),
        "statuses": {kind: dict(counts) for kind, counts in statuses.items()},
        "seconds_to_status": {k: [round(float(np.median(v)), 2), max(v)] for k, v in found.total.seconds.items()},
        "seconds_until_calm": [value and round(value, 1) for value in found.calm_s],
        "p99_itl_ms": {condition: [round(value, 1) for value in values] for condition, values in p99_ms.items()},
        "health_ms_worst": round(found.health_ms, 1),
        "own_mib": {name: [value >> 20 for value in values] for name, values in found.own.items()},
    }
    rounds = [f"round {number + 1}" for number in range(len(p99_ms["quiet"]))]
    rows = [[condition, *values] for condition, values in figures["p99_itl_ms"].items()]
    show("p99 of the milliseconds between two tokens of the streams", ["condition", *rounds], rows)
    columns = ["requests of the storms", "sent", "answered", "refused", "5xx or none", "median s to status", "most"]
    rows = [
        [kind, sum(counts.values()), *(_between(counts, *ends) for ends in ((200, 300), (400, 500))),
         _between(counts, 500, 600) + counts[0], *figures["seconds_to_status"][kind]]
        for kind, counts in statuses.items()
    ]  # fmt: skip
    show(f"ratio {figures['p99_itl_ratio']}, failed streams {found.failed}", columns, rows)
    return figures


def _between(counts: Counter[int], low: int, high: int) -> int:
    return sum(count for status, count in counts.items() if low <= status < high)


def _ratio(values: list[float], base: list[float]) -> float:
    """The median of the rounds' ratios."""
    return round(float(np.median([value / other for value, other in zip(values, base, strict=True)])), 3)


def say(message: str) -> None:
    print(f"compile_storm: {message}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it one with the embedded model is started")
    parser.add_argument("--metrics-url", help="where its metrics are, if not at /metrics of --url")
    parser.add_argument(
        "--settle-s", type=float, help="with --url of another server: how long its compilations may take"
    )
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.url:
        server = LiveServer.at(arguments.url, arguments.metrics_url)
        found = asyncio.run(measure(server, arguments.tokens, arguments.rounds, arguments.settle_s))
    else:
        with tempfile.TemporaryDirectory() as name:
            environment = {"GUIDED_CACHE_DIR": name}
            with LiveServer.started(default_target(), Path(name) / "server.log", environment=environment) as server:
                found = asyncio.run(measure(server, arguments.tokens, arguments.rounds))
    finish(report(found))
    raise SystemExit(1 if found.failed else 0)


if __name__ == "__main__":
    main()
