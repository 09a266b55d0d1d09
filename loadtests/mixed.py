"""In: an OpenAI endpoint; out: what guided streams do to the plain ones of their batch, and the other way round.

    python -m loadtests.mixed [--url http://127.0.0.1:8000] [--streams 8] [--rounds 3] [--tokens 64] [--shares 0 0.5 1]

Each round sends a batch of `--streams` streams for each share of guided ones, one batch after the other; the guided ones are of
all kinds in turn, and stand between the plain ones. The batches are equally large and every answer has `--tokens` tokens, so that
plain streams beside guided ones and among themselves differ by the constraints alone. `plain_itl_ratio` is the plain streams' p99
of the time between two tokens in the batch with most guided ones that has plain ones too, to that in a batch of plain ones.
`wrong` are answers that do not begin what their constraint allows.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from dataclasses import dataclass, field
from typing import Any

from loadtests.by_kind import KINDS, Seen, batch, speed
from loadtests.first_look import make_serve
from loadtests.report import finish, median, percentiles, show
from tests.live_server import LiveServer

PLAIN, GUIDED = "plain", "guided"


def kinds(streams: int, share: float) -> list[str]:
    """The kind of each stream of a batch; guided ones evenly between plain ones."""
    guided = itertools.cycle(kind for kind in KINDS if kind != PLAIN)
    return [next(guided) if int((n + 1) * share) > int(n * share) else PLAIN for n in range(streams)]


@dataclass(slots=True)
class Mixture:
    """What the batches with one share of guided streams came to."""

    seen: dict[str, Seen] = field(default_factory=lambda: {PLAIN: Seen(), GUIDED: Seen()})
    speeds: list[float] = field(default_factory=list)  # tokens per second of each whole batch
    failed: int = 0


async def measure(server: LiveServer, args: argparse.Namespace) -> dict[float, Mixture]:
    mixtures = {share: Mixture() for share in sorted(set(args.shares))}
    await batch(server, list(KINDS), 4)  # nobody's first request is measured
    for number in range(args.rounds):
        for share, mixture in mixtures.items():
            wanted = kinds(args.streams, share)
            answers, seconds = await batch(server, wanted, args.tokens)
            mixture.speeds.append(speed(answers, seconds))
            for kind, answer in zip(wanted, answers, strict=True):
                if not answer.finished or answer.error is not None:
                    mixture.failed += 1
                    print(f"{kind}: {answer.status} {answer.error}", file=sys.stderr, flush=True)
                mixture.seen[PLAIN if kind == PLAIN else GUIDED].add(kind, answer, args.ttft_ms, args.itl_ms)
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return mixtures


def report(mixtures: dict[float, Mixture]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rows = []
    for share, mixture in mixtures.items():
        streams = {name: _figures(kept) for name, kept in mixture.seen.items() if kept.sent}
        figures[f"{share:g}"] = {"tokens_per_second": median(mixture.speeds), "failed": mixture.failed, **streams}
        for name, f in streams.items():
            ttft, itl = f["ttft_ms"], f["itl_ms"]
            rows.append(
                [f"{share:.0%} guided: {name}", ttft["p50"], ttft["p99"], itl["p50"], itl["p95"], itl["p99"],
                 f["tpot_ms"]["p50"], median(mixture.speeds), f["goodput"], f["wrong"]]
            )  # fmt: skip
    columns = ["streams", "TTFT p50", "p99", "ITL p50", "p95", "p99", "TPOT p50", "tokens/s of all", "goodput", "wrong"]
    show("milliseconds; tokens per second of a whole batch, medians of the rounds", columns, rows)
    return {
        "plain_itl_ratio": _plain_ratio(mixtures),
        "failed": sum(mixture.failed for mixture in mixtures.values()),
        "wrong": sum(kept.wrong for mixture in mixtures.values() for kept in mixture.seen.values()),
        "shares": figures,
    }


def _figures(kept: Seen) -> dict[str, Any]:
    return {
        "ttft_ms": percentiles(kept.first),
        "itl_ms": percentiles(kept.gaps),
        "tpot_ms": percentiles(kept.per_token),
        "e2el_ms": percentiles(kept.whole),
        "goodput": round(kept.good / kept.sent, 3),
        "wrong": kept.wrong,
    }


def _plain_ratio(mixtures: dict[float, Mixture]) -> float | None:
    """None where plain streams were never among themselves, or never beside guided ones."""
    p99 = {share: percentiles(mixture.seen[PLAIN].gaps, 3)["p99"] for share, mixture in mixtures.items()}
    beside = [value for share, value in p99.items() if mixtures[share].seen[GUIDED].sent and value is not None]
    alone = [value for share, value in p99.items() if not mixtures[share].seen[GUIDED].sent and value is not None]
    return round(beside[-1] / alone[-1], 3) if beside and alone and alone[-1] else None


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a share is between 0 and 1")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument(
        "--shares", type=_share, nargs="+", default=[0.0, 0.5, 1.0], help="of guided streams in a batch"
    )
    parser.add_argument("--ttft-ms", type=float, default=2000)
    parser.add_argument("--itl-ms", type=float, default=200)
    args = parser.parse_args()
    if args.url:
        figures = report(asyncio.run(measure(LiveServer.at(args.url), args)))
    else:
        with make_serve() as server:
            figures = report(asyncio.run(measure(server, args)))
    finish(figures)
    raise SystemExit(1 if figures["failed"] or figures["wrong"] else 0)


if __name__ == "__main__":
    main()
