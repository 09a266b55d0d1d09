"""In: a model folder; out: requests per second and latency of this server beside those of `vllm serve`, with the same engine arguments.

    python -m loadtests.gateway_overhead [--model FOLDER | --url OURS --vllm-url THEIRS] [--rounds 12] [--requests 48] [--parallel 16]

Plain requests with answers of one token, so that the front end is as much of the work as it ever is. Both servers run from the beginning
and are asked in turn, ROUNDS times a little; the processes of the other one are stopped meanwhile (SIGSTOP), so that it costs nothing but
its memory. A machine's speed changes within minutes, and what lies side by side is compared: `ratio` is the median over the rounds of our
requests per second by vLLM's, `added_ms` that of the difference between the medians of one request alone. With --url both run already,
and neither is stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from loadtests.report import finish, show
from scripts.prepare_model import default_target
from tests.live_server import ROOT, START_SECONDS, LiveServer, free_port, stop

MODULES = {"vllm": "vllm.entrypoints.openai.api_server", "guided": "server.cli"}
ENGINE = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "16"]
WARM_UP = 50
ALONE = 12  # requests one after the other, in each round


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
            yield LiveServer(url, "model", process=process)
        finally:
            let(process, go_on=True)
            stop(process)


def let(process: subprocess.Popen[bytes] | None, *, go_on: bool) -> None:
    """Stops a server's processes where they are, or lets them go on; None: it is somebody else's."""
    if process is None or process.poll() is not None:
        return
    server = psutil.Process(process.pid)
    for one in [server, *server.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            one.resume() if go_on else one.suspend()


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


async def warm_up(server: LiveServer, numbers: Iterator[int]) -> None:
    async with httpx.AsyncClient(timeout=120) as client:
        for _ in range(WARM_UP):
            await ask(client, server, next(numbers))


async def measure(server: LiveServer, numbers: Iterator[int], requests: int, parallel: int) -> tuple[float, float]:
    """Requests per second of `parallel` clients, and the median milliseconds of one alone."""
    async with httpx.AsyncClient(timeout=120) as client:

        async def some(count: int) -> None:
            for _ in range(count):
                await ask(client, server, next(numbers))

        await some(1)  # what was stopped has cold caches
        alone = [await ask(client, server, next(numbers)) for _ in range(ALONE)]
        begin = time.perf_counter()
        await asyncio.gather(*(some(requests // parallel) for _ in range(parallel)))
        seconds = time.perf_counter() - begin
    return parallel * (requests // parallel) / seconds, statistics.median(alone)


def in_turn(servers: dict[str, LiveServer], rounds: int, requests: int, parallel: int) -> dict[str, Any]:
    """The figures. Each round asks both, the one first that was last in the round before."""
    numbers = itertools.count()
    for server in servers.values():
        asyncio.run(warm_up(server, numbers))
        let(server.process, go_on=False)
    speeds: dict[str, list[float]] = {name: [] for name in servers}
    latencies: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(rounds):
        for name in list(servers)[:: -1 if number % 2 else 1]:
            let(servers[name].process, go_on=True)
            speed, latency = asyncio.run(measure(servers[name], numbers, requests, parallel))
            let(servers[name].process, go_on=False)
            speeds[name].append(round(speed, 2))
            latencies[name].append(round(latency, 2))
            print(f"round {number + 1}: {name} {speed:.1f}/s, {latency:.2f} ms", file=sys.stderr, flush=True)
    rows = [[name, *(round(statistics.median(each[name]), 2) for each in (speeds, latencies))] for name in servers]
    show("answers of one token", ["server", "requests/s", "alone ms"], rows)
    ratios = [ours / theirs for ours, theirs in zip(speeds["guided"], speeds["vllm"], strict=True)]
    added = [ours - theirs for ours, theirs in zip(latencies["guided"], latencies["vllm"], strict=True)]
    each = {name: {"per_second": speeds[name], "alone_ms": latencies[name]} for name in servers}
    return {**each, "added_ms": round(statistics.median(added), 2), "ratio": round(statistics.median(ratios), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=default_target())
    parser.add_argument("--url", help="this server, running; needs --vllm-url")
    parser.add_argument("--vllm-url", help="`vllm serve`, running, with the same model and arguments")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=48, help="of each round")
    parser.add_argument("--parallel", type=int, default=16)
    args, flags = parser.parse_known_args()
    if (args.url is None) != (args.vllm_url is None):
        parser.error("--url and --vllm-url go together: one is compared with the other")
    with ExitStack() as stack:
        if args.url:
            servers = {"vllm": LiveServer.at(args.vllm_url), "guided": LiveServer.at(args.url)}
        else:
            started = partial(serving, model=args.model, flags=flags or ENGINE)
            servers = {name: stack.enter_context(started(name)) for name in MODULES}
        figures = in_turn(servers, args.rounds, args.requests, args.parallel)
    finish(figures)


if __name__ == "__main__":
    main()
