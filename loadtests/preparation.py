"""In: a server of this project; out: seconds until a constraint that nobody asked for before is ready, by kind.

    python -m loadtests.preparation [--url http://127.0.0.1:8000] [--repeats 5]

`POST /v1/guided/compile` on an index that neither memory nor disk knows: a number in each constraint makes it new.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import httpx

from loadtests.compliance import COMPLEX, SIMPLE
from loadtests.first_look import make_serve
from loadtests.report import finish, median, show
from tests.live_server import LiveServer

# Published for such indexes on a vocabulary of 128,000 tokens: seconds from the simplest kind to the hardest.
PUBLISHED_SECONDS = (0.12, 0.87, 1.94, 8.3)


def constraints(number: int) -> dict[str, dict[str, Any]]:
    def new(schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "properties": {**schema["properties"], f"n{number}": {"type": "integer"}}}

    return {
        "choice": {"guided_choice": [f"yes {number}", f"no {number}", f"perhaps {number}"]},
        "regex": {"guided_regex": rf"(25[0-5]|2[0-4]\d|1?\d?\d)(\.\d{{1,3}}){{3}}:{number}\d{{2,5}}"},
        "json, simple": {"guided_json": new(SIMPLE)},
        "json, complex": {"guided_json": new(COMPLEX)},
        "grammar": {"guided_grammar": f'start: "{number}" term (" AND " term)*\nterm: "(" start ")" | /[a-z]{{1,8}}/'},
    }


def measure(server: LiveServer, repeats: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {}
    stages: dict[str, list[float]] = {}
    closed: dict[str, bool] = {}
    first = int(time.time())
    for number in range(repeats):
        for kind, fields in constraints(first + number).items():
            begin = time.perf_counter()
            answer = httpx.post(f"{server.url}/v1/guided/compile", json=fields, headers=server.headers, timeout=120)
            answer.raise_for_status()
            seconds.setdefault(kind, []).append(time.perf_counter() - begin)
            stages.setdefault(kind, []).append(sum(answer.json()["seconds"].values()))
            closed[kind] = answer.json()["closed"]
        print(f"{number + 1} of {repeats}", file=sys.stderr, flush=True)
    figures = {
        k: {
            "median_s": median(v, 4),
            "worst_s": round(max(v), 4),
            "stages_s": median(stages[k], 4),
            "closed": closed[k],
        }
        for k, v in seconds.items()
    }
    show(
        "seconds from the request to the answer",
        ["kind", "median", "worst", "its stages", "closed"],
        [[k, *f.values()] for k, f in figures.items()],
    )
    print(f"published, by complexity: {json.dumps(PUBLISHED_SECONDS)}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if args.url:
        figures = measure(LiveServer.at(args.url), args.repeats)
    else:
        with make_serve() as server:
            figures = measure(server, args.repeats)
    finish({"kinds": figures})


if __name__ == "__main__":
    main()
