"""In: a model folder; out: requests per second and latency of this server beside those of `vllm serve`, with the same engine arguments.

    python -m loadtests.gateway_overhead [--model FOLDER | --url OURS --vllm-url THEIRS] [--rounds 2] [--requests 300] [--parallel 16]

Plain requests with answers of one token, so that the front end is as much of the work as it ever is. Both servers are started one after the
other, in turn, ROUNDS times: only one engine fits on a machine, and what changes on it meanwhile meets both. With --url both run
already, and are asked in turn. `ratio` is that of the median
requests per second, ours to vLLM's; `added_ms` the difference of the median latencies of one request alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx

from loadtests.report import finish, show
from scripts.prepare_model import default_target
from tests.live_server import ROOT, START_SECONDS, LiveServer, free_port, stop

MODULES = {"vllm": "vllm.entrypoints.openai.api_server", "guided": "server.cli"}
ENGINE = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "16"]
WARM_UP = 50
ALONE = 100  # requests one after the other


@contextmanager
def serving(name: str, model: Path, flags: list[str]) -> Iterator[LiveServer]:
    """A server that answers; it is stopped in the end."""
    from server.settings import set_environment

    set_environment()  # vLLM's own server gets the same variables
    port = free_port()
    command = [sys.executable, "-m", MODULES[name], "--model", str(model), "--served-model-name", "model"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log", *flags]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+b") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ))
        try:
            url = f"http://127.0.0.1:{port}"
            wait(process, url, Path(log.name))
            yield LiveServer(url, "model")
        finally:
            stop(process)


def wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the server was not ready within {START_SECONDS} s")


async def ask(client: httpx.AsyncClient, server: LiveServer, number: int) -> float:
    """Milliseconds of one request; the prompt is another each time."""
    messages = [{"role": "user", "content": f"Request {number}: say yes or no."}]
    body = {"model": server.model, "messages": messages, "max_tokens": 1, "temperature": 0}
    begin = time.perf_counter()
    answer = await client.post(f"{server.url}/v1/chat/completions", json=body, headers=server.headers)
    answer.raise_for_status()
    return 1000 * (time.perf_counter() - begin)


async def measure(server: LiveServer, requests: int, parallel: int) -> tuple[float, float]:
    """Requests per second of `parallel` clients, and the median milliseconds of one alone."""
    async with httpx.AsyncClient(timeout=120) as client:
        numbers = iter(range(10**9))

        async def some(count: int) -> None:
            for _ in range(count):
                await ask(client, server, next(numbers))

        await some(WARM_UP)
        alone = [await ask(client, server, next(numbers)) for _ in range(ALONE)]
        begin = time.perf_counter()
        await asyncio.gather(*(some(requests // parallel) for _ in range(parallel)))
        seconds = time.perf_counter() - begin
    return parallel * (requests // parallel) / seconds, statistics.median(alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=default_target())
    parser.add_argument("--url", help="this server, running; needs --vllm-url")
    parser.add_argument("--vllm-url", help="`vllm serve`, running, with the same model and arguments")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--parallel", type=int, default=16)
    args, flags = parser.parse_known_args()
    if (args.url is None) != (args.vllm_url is None):
        parser.error("--url and --vllm-url go together: one is compared with the other")
    running = {"vllm": args.vllm_url, "guided": args.url} if args.url else {}
    speeds: dict[str, list[float]] = {name: [] for name in MODULES}
    latencies: dict[str, list[float]] = {name: [] for name in MODULES}
    for number in range(args.rounds):
        for name in MODULES:
            known = nullcontext(LiveServer.at(running[name])) if running else None
            with known or serving(name, args.model, flags or ENGINE) as server:
                speed, latency = asyncio.run(measure(server, args.requests, args.parallel))
            speeds[name].append(round(speed, 1))
            latencies[name].append(round(latency, 2))
            print(f"round {number + 1}: {name} {speed:.1f}/s, {latency:.2f} ms", file=sys.stderr, flush=True)
    figures: dict[str, Any] = {name: {"per_second": speeds[name], "alone_ms": latencies[name]} for name in MODULES}
    rows = [[name, statistics.median(speeds[name]), statistics.median(latencies[name])] for name in MODULES]
    show("answers of one token", ["server", "requests/s", "alone ms"], rows)
    ratio = statistics.median(speeds["guided"]) / statistics.median(speeds["vllm"])
    added = statistics.median(latencies["guided"]) - statistics.median(latencies["vllm"])
    finish({**figures, "added_ms": round(added, 2), "ratio": round(ratio, 3)})


if __name__ == "__main__":
    main()
