"""In: a live server; out: how many calls made up from its own OpenAPI description got a 5xx.

    python -m loadtests.openapi --calls 10000 --url http://127.0.0.1:8000 [--seed 0]

schemathesis makes the calls, valid and invalid ones; `python -m scripts.fetch_clients` fetches it. Routes that would end the test are left
out: those that scale or stop the engine, and the cache's flush. The last line has "calls" and "status_5xx".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import httpx

from loadtests.report import finish, show
from scripts.fetch_clients import target
from tests.live_server import LiveServer

LEFT_OUT = ("/scale_elastic_ep", "/is_scaling_elastic_ep", "/v1/guided/cache/flush")


def operations(url: str) -> int:
    """How many there are that take something, without those that are left out: of the others there is one call each."""
    server = LiveServer(url, "")
    paths = httpx.get(f"{url}/openapi.json", headers=server.headers, timeout=30).raise_for_status().json()["paths"]
    described = [what for path, methods in paths.items() if path not in LEFT_OUT for what in methods.values()]
    return sum("requestBody" in what or "parameters" in what for what in described)


def run(url: str, calls: int, seed: int, report: Path) -> None:
    """Writes what schemathesis did to `report`, one event a line."""
    program = target() / "schemathesis" / "bin" / "schemathesis"
    if not program.exists():
        raise SystemExit("schemathesis is not there: python -m scripts.fetch_clients")
    left_out = [option for path in LEFT_OUT for option in ("--exclude-path", path)]
    command = [str(program), "run", f"{url}/openapi.json", "--phases", "fuzzing", "--checks", "not_a_server_error"]
    command += ["--max-examples", str(-(-calls // operations(url))), "--seed", str(seed), "--workers", "4", *left_out]
    command += ["--continue-on-failure", "--no-shrink", "--request-timeout", "600", "--no-color"]
    command += ["--report", "ndjson", "--report-ndjson-path", str(report), "--generation-database", "none"]
    if os.environ.get("API_KEY"):  # in a file: command lines are everybody's to read
        (report.parent / "schemathesis.toml").write_text('headers = { Authorization = "Bearer ${API_KEY}" }\n')
    subprocess.run(command, check=False, cwd=report.parent)


def statuses(report: Path) -> Counter[int]:
    """HTTP status -> how many calls; 0 where no answer came."""
    found: Counter[int] = Counter()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            if "status_code" in value:
                found[int(value["status_code"])] += 1
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    with report.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if "ScenarioFinished" in event:
                walk(event)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.ndjson"
        run(args.url.rstrip("/"), args.calls, args.seed, report)
        found = statuses(report)
    failed = sum(count for status, count in found.items() if status >= 500)
    show("calls by status; 0: no answer", ["status", "calls"], sorted(found.items()))
    finish({"calls": sum(found.values()), "status_5xx": failed})
    raise SystemExit(1 if failed or not found else 0)


if __name__ == "__main__":
    main()
