"""In: a server (or none: then `make serve` is started); out: time to ready, to the first token, and tokens per second.

    python -m loadtests.first_look [--url http://127.0.0.1:8000] [--repeats 7]

Conditions are measured in turn in one run, and medians are given: new constraint, the same constraint again, no constraint;
then batches of 8 with and without a constraint, 64 tokens each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadtests.long_constraints import LONG_TEXT
from loadtests.report import finish, median, show
from tests.live_server import ROOT, LiveServer, free_port, stop, wait_until_ready

BATCH = 8
TOKENS = 64
PROMPT = "Describe the harbour of Oslo."


def schema(number: int) -> dict[str, Any]:
    """A schema that no one has asked for before: `number` is part of it."""
    properties = {
        f"id_{number}": {"type": "integer"},
        "name": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,8}$"}, "maxItems": 5},
        "state": {"enum": ["open", "closed", "unknown"]},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def regex(number: int) -> str:
    return rf"(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)(\.[0-9]{{1,3}}){{3}}:{number}[0-9]{{2,5}}"


CONSTRAINTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "regex": lambda number: {"structured_outputs": {"regex": regex(number)}},
    "json": lambda number: {"structured_outputs": {"json": schema(number)}},
    "choice": lambda number: {"structured_outputs": {"choice": [f"yes {number}", f"no {number}", f"perhaps {number}"]}},
}
BATCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "regex": {"structured_outputs": {"regex": r"[\s\S]*"}},
    "json": {"structured_outputs": {"json": LONG_TEXT}},
}
CUT = {
    "guided_options": {"fit_budget": False}
}  # answers are cut off; without a constraint there is nothing to say that of


def first_token_ms(server: LiveServer, fields: dict[str, Any]) -> float:
    """Milliseconds from sending a streaming request to its first piece of text."""
    begin = time.perf_counter()
    stream = server.client.completions.create(
        model=server.model, prompt=PROMPT, stream=True, max_tokens=2, extra_body=fields and fields | CUT
    )
    for chunk in stream:
        if chunk.choices and chunk.choices[0].text:
            break
    elapsed = time.perf_counter() - begin
    stream.close()
    return 1000 * elapsed


def tokens_per_second(server: LiveServer, fields: dict[str, Any]) -> float:
    """Of a batch of requests that all write exactly `TOKENS` tokens."""

    def one(seed: int) -> int:
        options = {"max_tokens": TOKENS, "temperature": 1.0, "seed": seed}
        made = server.client.completions.create(
            model=server.model, prompt=PROMPT, **options, extra_body={**(fields and fields | CUT), "min_tokens": TOKENS}
        )
        assert made.usage is not None
        return made.usage.completion_tokens

    begin = time.perf_counter()
    with ThreadPoolExecutor(BATCH) as pool:
        written = sum(pool.map(one, range(BATCH)))
    return written / (time.perf_counter() - begin)


def measure_first_token(server: LiveServer, repeats: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"plain": []}
    unique = int(time.time())  # a server that ran this before must not know the constraints
    for kind in CONSTRAINTS:
        figures[kind] = {"new": [], "repeated": []}
    for repeat in range(repeats):
        figures["plain"].append(first_token_ms(server, {}))
        for kind, build in CONSTRAINTS.items():
            fields = build(10 * unique + repeat)
            figures[kind]["new"].append(first_token_ms(server, fields))
            figures[kind]["repeated"].append(first_token_ms(server, fields))
        print(f"first token: {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return {
        name: median(values, 1) if isinstance(values, list) else {how: median(v, 1) for how, v in values.items()}
        for name, values in figures.items()
    }


def measure_batches(server: LiveServer, repeats: int) -> dict[str, float | None]:
    speeds: dict[str, list[float]] = {name: [] for name in BATCHES}
    for repeat in range(repeats):
        for name, fields in BATCHES.items():
            speeds[name].append(tokens_per_second(server, fields))
        print(f"batches: {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return {name: median(values, 1) for name, values in speeds.items()}


@contextmanager
def make_serve() -> Iterator[LiveServer]:
    """`make serve` on a free port, as a user would start it, timed."""
    port = free_port()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["make", "serve", f"PORT={port}"], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            wait_until_ready(process, log)
            live = LiveServer.at(f"http://127.0.0.1:{port}")
            yield LiveServer(live.url, live.model, time.monotonic() - begin)
        finally:
            stop(process)


def measure(server: LiveServer, repeats: int) -> dict[str, Any]:
    for fields in BATCHES.values():  # nobody's first request is measured
        tokens_per_second(server, fields)
    first, speeds = measure_first_token(server, repeats), measure_batches(server, repeats)
    rows = [[kind, ms["new"], ms["repeated"]] for kind, ms in first.items() if kind != "plain"]
    show("milliseconds to the first token", ["kind", "new", "repeated"], [["plain", None, first["plain"]], *rows])
    show(f"tokens per second of {BATCH} streams", list(speeds), [list(speeds.values())])
    return {
        "seconds_to_ready": round(server.seconds_to_ready, 1) or None,
        "first_token_ms": first,
        f"tokens_per_second_batch_{BATCH}": speeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.url:
        figures = measure(LiveServer.at(arguments.url), arguments.repeats)
    else:
        with make_serve() as server:
            figures = measure(server, arguments.repeats)
    finish(figures)


if __name__ == "__main__":
    main()
