"""In: an OpenAI endpoint; out: what is left of clients that hang up: running requests, and the next answer's time.

    python -m loadtests.disconnects [--url http://127.0.0.1:8000 [--metrics-url http://127.0.0.1:9000/metrics]] [--clients 64]

Each client starts a long stream, guided or plain in turn, reads two pieces and closes the connection. Then the engine has to be empty
within ten seconds, and a short request has to take no longer than before. The metrics have to have shown the requests before: otherwise
an engine that they show as empty proves nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import httpx

from loadtests.first_look import make_serve
from loadtests.report import finish, show
from loadtests.requests import PROMPT, metric, stream
from tests.live_server import LiveServer

PATIENCE_S = 10.0


async def hang_up(client: httpx.AsyncClient, server: LiveServer, number: int) -> int:
    """Pieces that were read before the connection was closed."""
    fields: dict[str, Any] = (
        {"structured_outputs": {"regex": r"[a-z ]{2000}"}, "guided_options": {"fit_budget": False}}
        if number % 2
        else {}
    )
    request = {"model": server.model, "prompt": PROMPT, "stream": True, "max_tokens": 1000, "ignore_eos": True} | fields
    if fields:
        del request["ignore_eos"]
    read = 0
    async with client.stream("POST", f"{server.url}/v1/completions", json=request, headers=server.headers) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            read += line.startswith("data: {")
            if read == 2:
                break
    return read


async def short_ms(client: httpx.AsyncClient, server: LiveServer) -> float:
    begin = time.perf_counter()
    answer = await stream(client, server, max_tokens=4)
    assert answer.finished, answer.error
    return 1000 * (time.perf_counter() - begin)


def in_the_engine(server: LiveServer) -> int:
    """Requests that run or wait, by vLLM's own metrics."""
    return int(metric(server, "vllm:num_requests_running", "vllm:num_requests_waiting"))


async def most_in_the_engine(server: LiveServer, over: asyncio.Event) -> int:
    most = 0
    while not over.is_set():
        most = max(most, await asyncio.to_thread(in_the_engine, server))
        await asyncio.sleep(0.02)
    return most


async def measure(server: LiveServer, clients: int) -> dict[str, Any]:
    in_the_engine(server)  # raises before anything is sent, where there is nothing to see
    async with httpx.AsyncClient(timeout=300, limits=httpx.Limits(max_connections=None)) as client:
        await short_ms(client, server)
        before = await short_ms(client, server)
        over = asyncio.Event()
        watching = asyncio.create_task(most_in_the_engine(server, over))
        read = await asyncio.gather(*(hang_up(client, server, number) for number in range(clients)))
        begin = time.perf_counter()
        over.set()
        most = await watching
        while left := await asyncio.to_thread(in_the_engine, server):
            if time.perf_counter() - begin > PATIENCE_S:
                break
            await asyncio.sleep(0.1)
        seconds = time.perf_counter() - begin
        after = await short_ms(client, server)
    figures = {
        "clients": clients,
        "most_in_the_engine": most,
        "left_after": left,
        "seconds_until_empty": round(seconds, 2),
        "short_request_before_ms": round(before, 1),
        "short_request_after_ms": round(after, 1),
        "pieces_read": sum(read),
    }
    show("clients that hung up", list(figures), [list(figures.values())])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--metrics-url", help="where its metrics are, if not at /metrics of --url")
    parser.add_argument("--clients", type=int, default=64)
    args = parser.parse_args()
    if args.url:
        figures = asyncio.run(measure(LiveServer.at(args.url, args.metrics_url), args.clients))
    else:
        with make_serve() as server:
            figures = asyncio.run(measure(server, args.clients))
    finish(figures)
    if not figures["most_in_the_engine"]:
        raise SystemExit("the metrics never showed a request: they are another server's")
    raise SystemExit(1 if figures["left_after"] else 0)


if __name__ == "__main__":
    main()
