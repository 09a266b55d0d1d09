"""In: a live server; out: how many of many hostile requests got a 5xx, or no answer at all. Neither may happen.

    python -m loadtests.fuzz --calls 2000 --url http://127.0.0.1:8000 [--seed 0] [--parallel 8]

What is random are the constraints, in every field that takes one, and some of the other fields: random JSON, schemas, patterns and
grammars that are nearly right, Unicode with lone surrogates and NUL, huge and deeply nested values, bytes that are no JSON. Call number
N of a seed is always the same request, and what went wrong is printed with it. Status 0 is no answer. The last
line has "calls", "status_5xx", "hangs".
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

import httpx

from loadtests.hostile import request_of
from loadtests.report import finish, show
from tests.live_server import LiveServer

PATIENCE_S = 90.0  # a compilation is killed after 30 seconds, and may wait as long for its turn


async def call(client: httpx.AsyncClient, server: LiveServer, seed: int, number: int) -> int:
    """The status of one call; 0 where no answer came in time, or none at all."""
    path, body = request_of(seed, number, server.model)
    try:
        async with asyncio.timeout(PATIENCE_S):
            headers = {"Content-Type": "application/json", **server.headers}
            answer = await client.post(f"{server.url}{path}", content=body, headers=headers)
    except (TimeoutError, httpx.HTTPError) as error:
        print(f"call {number}: {error!r}: {path} {body[:300]!r}", file=sys.stderr, flush=True)
        return 0
    if answer.status_code >= 500 or (answer.status_code >= 400 and not _is_openai(answer)):
        print(
            f"call {number}: {answer.status_code} {answer.text[:300]}: {path} {body[:300]!r}",
            file=sys.stderr,
            flush=True,
        )
    return answer.status_code


def _is_openai(answer: httpx.Response) -> bool:
    try:
        return bool(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return False


async def fuzz(server: LiveServer, calls: int, seed: int, parallel: int) -> Counter[int]:
    """Status -> how often."""
    seen: Counter[int] = Counter()
    numbers = iter(range(calls))

    async def worker(client: httpx.AsyncClient) -> None:
        for number in numbers:
            seen[await call(client, server, seed, number)] += 1
            if sum(seen.values()) % 500 == 0:
                print(f"{sum(seen.values())} of {calls}: {dict(seen)}", file=sys.stderr, flush=True)

    async with httpx.AsyncClient(timeout=None) as client:
        await asyncio.gather(*(worker(client) for _ in range(parallel)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=8)
    args = parser.parse_args()
    server = LiveServer.at(args.url)
    seen = asyncio.run(fuzz(server, args.calls, args.seed, args.parallel))
    alive = server.is_healthy()
    show(f"the server is {'alive' if alive else 'gone'}", ["status", "calls"], sorted(seen.items()))
    failed = sum(count for status, count in seen.items() if status >= 500)
    finish({"calls": sum(seen.values()), "status_5xx": failed, "hangs": seen[0]})
    raise SystemExit(0 if alive and not failed and not seen[0] else 1)


if __name__ == "__main__":
    main()
