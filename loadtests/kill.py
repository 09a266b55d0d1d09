"""In: a model; out: what requests came to while processes were killed, files damaged and the disk filled.

    python -m loadtests.kill

Constrained requests go on all the time, known constraints and new ones, while each misfortune happens in turn. `failed` are requests that
did not end in a complete answer, `wrong` are answers that do not satisfy their constraint. The disk is a small file system of its own,
where this may be mounted (root); otherwise that part is left out, and the result says so. There is no --url: what is killed and damaged
here has to be this test's own. Last, two servers start together on one empty cache folder, without a model (`tests.server.gateway`), and
get the same new constraints at the same moments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from loadtests.report import finish, show
from loadtests.requests import stream
from scripts.prepare_model import default_target
from tests.live_server import ROOT, LiveServer
from tests.redis_server import RedisServer, redis_server

AT_ONCE = 4
TOGETHER = 40  # constraints that two servers get at the same time
DISK_MIB = 24
END_SECONDS = 60


class Traffic:
    """Requests without end: every other one with a constraint that nobody has sent before."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self._numbers = itertools.count()
        self.results: dict[str, int] = {"requests": 0, "failed": 0, "wrong": 0}
        self.errors: list[Any] = []

    async def run(self, misfortune: Callable[[], Any], seconds: float = 6.0) -> dict[str, Any]:
        """Traffic for some seconds, with the misfortune in the middle; what became of it."""
        before = dict(self.results)
        over = time.monotonic() + seconds
        async with httpx.AsyncClient(timeout=120) as client:
            traffic = [asyncio.create_task(self._requests(client, over)) for _ in range(AT_ONCE)]
            await asyncio.sleep(seconds / 3)
            await asyncio.to_thread(misfortune)
            await asyncio.gather(*traffic)
        return {name: value - before[name] for name, value in self.results.items()}

    async def _requests(self, client: httpx.AsyncClient, over: float) -> None:
        while time.monotonic() < over:
            number = next(self._numbers)
            length = 3 + number % 5 if number % 2 else 1_000 + number
            pattern = rf"[a-c]{{2,{length}}}!" if number % 2 else rf"(yes|no|{length})"
            found = await stream(client, self._server, max_tokens=length + 4, structured_outputs={"regex": pattern})
            self.results["requests"] += 1
            if not found.finished:
                self.results["failed"] += 1
                self.errors.append(found.error)
            elif re.fullmatch(pattern, found.text) is None:
                self.results["wrong"] += 1


def processes(server: LiveServer, what: str) -> list[psutil.Process]:
    assert server.process is not None
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [child for child in children if what in " ".join(child.cmdline()) or what in child.name()]


def kill_workers(server: LiveServer) -> None:
    (nursery,) = [p for p in processes(server, "guided.workers.nursery") if p.parent().pid == server.process.pid]  # type: ignore[union-attr]
    for worker in nursery.children():
        worker.kill()


def kill_nursery(server: LiveServer) -> None:
    for process in processes(server, "guided.workers.nursery"):
        process.kill()


def damage_files(folder: Path) -> None:
    """Every index file is cut in half, as after a crash: under its name there is another file now."""
    for path in folder.rglob("*.index"):
        data = path.read_bytes()
        other = path.with_suffix(".cut")
        other.write_bytes(data[: len(data) // 2])
        other.replace(path)


def remove_files(folder: Path) -> None:
    """As another server does that needs the room."""
    for path in folder.rglob("*.index"):
        path.unlink(missing_ok=True)


def fill(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "ballast").open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of a few MiB on the folder, if that may be done."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def flush(server: LiveServer) -> None:
    httpx.post(f"{server.url}/v1/guided/cache/flush", headers=server.headers, timeout=60).raise_for_status()


async def measure(server: LiveServer, redis: RedisServer, indexes: Path, disk: bool) -> dict[str, Any]:
    traffic = Traffic(server)
    found: dict[str, Any] = {"quiet": await traffic.run(lambda: None)}

    async def suffer(name: str, misfortune: Callable[[], Any]) -> None:
        found[name] = await traffic.run(misfortune)
        print(f"kill: {name} {found[name]} {traffic.errors[-2:]}", file=sys.stderr, flush=True)

    await suffer("workers", lambda: kill_workers(server))
    await suffer("nursery", lambda: kill_nursery(server))
    await suffer("damaged files", lambda: damage_files(indexes))
    await suffer("evicted files", lambda: remove_files(indexes))
    await suffer("flush", lambda: flush(server))
    await suffer("redis silent", redis.pause)
    await suffer("redis", redis.kill)
    if disk:
        await suffer("full disk", lambda: fill(indexes))
    return found


async def two_servers(folder: Path) -> dict[str, int]:
    """What the same new constraints come to at two servers that started together on one folder."""
    results = {"requests": 0, "failed": 0, "wrong": 0}
    command = [sys.executable, "-m", "tests.server.gateway", str(default_target())]
    environment = {**os.environ, "GUIDED_CACHE_DIR": str(folder)}
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True))
            for _ in range(2)
        ]
        for process in started:
            stack.callback(process.terminate)
        servers = [LiveServer.at(_ready(process)) for process in started]
        async with httpx.AsyncClient(timeout=120) as client:
            for number in range(TOGETHER):
                pattern = rf"(yes|no){number}[a-c]{{2,9}}!"
                asked = (
                    stream(client, server, max_tokens=40, structured_outputs={"regex": pattern}) for server in servers
                )
                for found in await asyncio.gather(*asked):
                    results["requests"] += 1
                    results["failed"] += not found.finished
                    results["wrong"] += found.finished and re.fullmatch(pattern, found.text) is None
    return results


def _ready(process: subprocess.Popen[str]) -> str:
    """The address of a server, once it answers."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready on "):
            return line.removeprefix("ready on ").strip()
    raise RuntimeError(f"the server ended with status {process.wait()}")


def end_of_engine(server: LiveServer) -> dict[str, Any]:
    """Kills the engine's process; how the server ended."""
    assert server.process is not None
    (engine, *_) = processes(server, "EngineCore")
    begin = time.monotonic()
    os.kill(engine.pid, signal.SIGKILL)
    try:
        status = server.process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        status = None
    return {"exit_status": status, "seconds": round(time.monotonic() - begin, 1)}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as redis:
        folder = Path(name)
        with small_disk(folder / "indexes") as mounted:
            environment = {
                "GUIDED_CACHE_DIR": name,
                "GUIDED_REDIS_URL": redis.url,
                "GUIDED_DISK_CACHE_BYTES": str(1 << 30),
            }
            with LiveServer.started(default_target(), folder / "server.log", environment=environment) as server:
                found = asyncio.run(measure(server, redis, folder / "indexes", mounted))
                ending = end_of_engine(server)
        found["two servers"] = asyncio.run(two_servers(folder / "two"))
    totals = {key: sum(part[key] for part in found.values()) for key in ("requests", "failed", "wrong")}
    rows = [[misfortune, *part.values()] for misfortune, part in found.items()]
    show("requests while it happened", ["misfortune", *totals], [*rows, ["all", *totals.values()]])
    print(f"the engine killed: {ending}")
    finish({**totals, "by_misfortune": found, "full_disk_tried": mounted, "engine_killed": ending})


if __name__ == "__main__":
    main()
