"""In: an OpenAI endpoint; out: latency, throughput and overhead by kind of constraint, under load.

    python -m loadtests.by_kind [--url http://127.0.0.1:8000] [--streams 8] [--rounds 3] [--tokens 64]

Each round sends a batch of `--streams` streams of each kind, one kind after the other, so that all kinds see the same weather. Every answer
has exactly `--tokens` tokens where the constraint lets it. `wrong` are answers that do not begin what their constraint allows: a server
that does not read the constraint has no overhead either. Overhead is what a kind's tokens per second lack of the unconstrained ones.
Goodput counts requests whose first token came within --ttft-ms and whose later ones came within --itl-ms (the slowest in twenty).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.first_look import make_serve
from loadtests.long_constraints import CONSTRAINTS, begins_an_answer
from loadtests.report import finish, median, percentiles, show
from loadtests.requests import Streamed, stream
from tests.live_server import LiveServer

# Published overheads of guided decoding in percent, for comparison: regex, choice, JSON and grammar in the order of their cost.
PUBLISHED_PERCENT = {"regex": 1.5, "choice": 3.2, "json": 6.8, "grammar": 23.5}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    **{
        kind: {"structured_outputs": constraint, "guided_options": {"fit_budget": False}}
        for kind, constraint in CONSTRAINTS.items()
    },
}


@dataclass(slots=True)
class Seen:
    """What a kind's requests took; milliseconds, tokens and seconds."""

    first: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    per_token: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)  # tokens per second of each batch
    good: int = 0
    sent: int = 0
    wrong: int = 0

    def add(self, kind: str, answer: Streamed, ttft_ms: float, itl_ms: float) -> None:
        self.sent += 1
        self.wrong += not begins_an_answer(kind, answer.text)
        if answer.first_ms is None:
            return
        self.first.append(answer.first_ms)
        self.gaps += answer.gaps_ms
        self.whole.append(answer.first_ms + sum(answer.gaps_ms))
        if answer.gaps_ms:
            self.per_token.append(sum(answer.gaps_ms) / len(answer.gaps_ms))
        slow = percentiles(answer.gaps_ms)["p95"] or 0.0
        self.good += answer.finished and answer.first_ms <= ttft_ms and slow <= itl_ms


async def batch(server: LiveServer, kinds: Sequence[str], tokens: int) -> tuple[list[Streamed], float]:
    """An answer of each kind at the same time, and the seconds that all of them took."""
    options = {"max_tokens": tokens, "min_tokens": tokens, "temperature": 1.0}
    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=None)) as client:
        begin = time.perf_counter()
        asked = (stream(client, server, **options, **KINDS[kind], seed=seed) for seed, kind in enumerate(kinds))
        answers = await asyncio.gather(*asked)
        return answers, time.perf_counter() - begin


def speed(answers: Sequence[Streamed], seconds: float) -> float:
    """Tokens per second of a batch."""
    return sum(len(answer.gaps_ms) + 1 for answer in answers if answer.first_ms is not None) / seconds


async def measure(server: LiveServer, args: argparse.Namespace) -> dict[str, Seen]:
    seen = {kind: Seen() for kind in KINDS}
    for kind in KINDS:  # nobody's first request is measured
        await batch(server, [kind] * 2, 4)
    for number in range(args.rounds):
        for kind in KINDS:
            answers, seconds = await batch(server, [kind] * args.streams, args.tokens)
            for answer in answers:
                if answer.status != 200 or answer.error:
                    raise SystemExit(f"{kind}: {answer.status} {answer.error}")
                seen[kind].add(kind, answer, args.ttft_ms, args.itl_ms)
            seen[kind].speeds.append(speed(answers, seconds))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return seen


def report(seen: dict[str, Seen]) -> dict[str, Any]:
    plain = median(seen["plain"].speeds) or 1.0
    figures: dict[str, Any] = {}
    for kind, kept in seen.items():
        tokens_per_second = median(kept.speeds) or 0.0
        figures[kind] = {
            "ttft_ms": percentiles(kept.first),
            "itl_ms": percentiles(kept.gaps),
            "tpot_ms": percentiles(kept.per_token),
            "e2el_ms": percentiles(kept.whole),
            "tokens_per_second": tokens_per_second,
            "overhead_percent": round(100 * (1 - tokens_per_second / plain), 1),
            "goodput": round(kept.good / kept.sent, 3),
            "wrong": kept.wrong,
        }
    columns = [
        "kind",
        "TTFT p50",
        "p99",
        "ITL p50",
        "p95",
        "p99",
        "TPOT p50",
        "E2EL p50",
        "p99",
        "tokens/s",
        "overhead %",
        "goodput",
        "wrong",
    ]
    rows = [
        [kind, f["ttft_ms"]["p50"], f["ttft_ms"]["p99"], f["itl_ms"]["p50"], f["itl_ms"]["p95"], f["itl_ms"]["p99"],
         f["tpot_ms"]["p50"], f["e2el_ms"]["p50"], f["e2el_ms"]["p99"], f["tokens_per_second"], f["overhead_percent"],
         f["goodput"], f["wrong"]]
        for kind, f in figures.items()
    ]  # fmt: skip
    show("milliseconds; tokens per second of a whole batch, medians of the rounds", columns, rows)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ttft-ms", type=float, default=2000)
    parser.add_argument("--itl-ms", type=float, default=200)
    args = parser.parse_args()
    if args.url:
        seen = asyncio.run(measure(LiveServer.at(args.url), args))
    else:
        with make_serve() as server:
            seen = asyncio.run(measure(server, args))
    finish({"kinds": report(seen), "published_overhead_percent": PUBLISHED_PERCENT})
    raise SystemExit(1 if any(kept.wrong for kept in seen.values()) else 0)


if __name__ == "__main__":
    main()
