"""In: a live server; out: what a request took, token by token, and what its metrics say. Judges nothing."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.live_server import LiveServer

PROMPT = "Describe the harbour of Oslo."


@dataclass(slots=True)
class Streamed:
    """A streamed answer.

    Attributes:
        status: HTTP status; 0 where the connection broke.
        first_ms: from sending the request to its first piece of text; None where there was none.
        gaps_ms: between the pieces.
        finished: it said why it ended.
    """

    status: int = 0
    first_ms: float | None = None
    gaps_ms: list[float] = field(default_factory=list)
    text: str = ""
    finished: bool = False
    error: Any = None


async def stream(client: httpx.AsyncClient, server: LiveServer, **body: Any) -> Streamed:
    """One text completion, streamed."""
    found = Streamed()
    request = {"model": server.model, "prompt": PROMPT, "stream": True, **body}
    last = time.perf_counter()
    try:
        async with client.stream(
            "POST", f"{server.url}/v1/completions", json=request, headers=server.headers
        ) as response:
            found.status = response.status_code
            if response.status_code != 200:
                found.error = json.loads(await response.aread())
                return found
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                now = time.perf_counter()
                data = json.loads(line[6:])
                if "error" in data:
                    found.error = data["error"]
                    return found
                choice = data["choices"][0]
                found.finished = found.finished or choice["finish_reason"] is not None
                found.text += choice["text"]
                if found.first_ms is None:
                    found.first_ms = 1000 * (now - last)
                else:
                    found.gaps_ms.append(1000 * (now - last))
                last = now
    except (httpx.HTTPError, OSError) as error:
        found.error = repr(error)
    return found


def metric(server: LiveServer, *names: str) -> float:
    """The sum of the samples of metrics such as `guided_compilations_total` or `guided_cache_bytes{tier="disk"}`.

    Raises:
        LookupError: the server does not show its metrics there, or has no such metric: a sum of nothing is not 0.
    """
    url = server.metrics_url or f"{server.url}/metrics"
    answer = httpx.get(url, headers=server.headers, timeout=30)
    if answer.status_code != 200:
        raise LookupError(
            f"{url} answers {answer.status_code}: with an admin port, --metrics-url says where metrics are"
        )
    return sum(value for name in names for value in samples(answer.text, name))


def samples(text: str, name: str) -> list[float]:
    """Of one metric in Prometheus's text format; labels that `name` does not have may have any value.

    Raises:
        LookupError: there are none.
    """
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M)
    if not found:
        raise LookupError(f"the server's metrics have no {name}")
    return [float(value) for value in found]


async def calm(server: LiveServer, settle_s: float | None = None, most_seconds: float = 600.0) -> float | None:
    """Waits until no constraint is compiled or waits for it; the seconds that this took, where they are known.

    Args:
        settle_s: wait so long and ask nothing.

    Raises:
        LookupError: the server says nothing of it, as one that is not of this project: `settle_s` is for those.
    """
    if settle_s is not None:
        await asyncio.sleep(settle_s)
        return None
    begin = time.monotonic()
    while time.monotonic() - begin < most_seconds:
        if await asyncio.to_thread(metric, server, "guided_compile_busy", "guided_compile_queue") == 0:
            return time.monotonic() - begin
        await asyncio.sleep(0.2)
    raise TimeoutError(f"constraints are still being compiled after {most_seconds:g} s")


def resident_bytes(pid: int) -> int:
    """Memory of a server's process and of those that compile for it; pages that they share are counted for each."""
    roles = _processes(pid)
    return sum(process.memory_info().rss for process in [*roles["gateway"], *roles["compiling"]])


def own_bytes(pid: int) -> dict[str, int]:
    """Memory that ends with a server's processes, by what they do; of pages that processes share each has its part.

    Pages of files are left out: the system takes those back when it needs them.
    """
    return {role: sum(map(_anonymous_bytes, processes)) for role, processes in _processes(pid).items()}


def _processes(pid: int) -> dict[str, list[psutil.Process]]:
    gateway = psutil.Process(pid)
    roles: dict[str, list[psutil.Process]] = {"gateway": [gateway], "engine": [], "compiling": []}
    for child in gateway.children():
        role = "compiling" if "guided.workers.nursery" in " ".join(child.cmdline()) else "engine"
        roles[role] += [child, *child.children(recursive=True)]
    return roles


def _anonymous_bytes(process: psutil.Process) -> int:
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:  # it ended in between
        return 0
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss_Anon:"))
