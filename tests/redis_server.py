"""A real Redis for the tests: Debian's `redis-server` on a free port, with or without password and TLS; skipped where there is none."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live_server import free_port


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server that answers."""

    port: int
    process: subprocess.Popen[bytes]
    scheme: str = "redis"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/0"

    def pause(self) -> None:
        """It keeps its connections and says nothing more."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server(folder: Path, *options: str, tls: tuple[Path, Path] | None = None) -> Iterator[RedisServer]:
    """`tls`: certificate and key."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server: python scripts/fetch_programs.py installs it where it can")
    port = free_port()
    ports = ["--port", str(port)]
    if tls is not None:
        certificate, key = map(str, tls)
        ports = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", certificate]
        ports += ["--tls-key-file", key, "--tls-ca-cert-file", certificate]
    log = folder / "redis.log"
    with log.open("wb") as out:
        command = [program, *ports, "--save", "", "--appendonly", "no", "--dir", str(folder), *options]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 20
        while b"Ready to accept connections" not in log.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield RedisServer(port, process, "redis" if tls is None else "rediss")
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
