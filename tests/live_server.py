"""In: a model folder, or an address; out: a server that answers: its address, log and model name, and how to ask it.

A server that wants a key gets API_KEY of the environment.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from openai import OpenAI

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 900  # three processes import vLLM one after the other; on a busy machine that takes minutes
STOP_SECONDS = 30


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A server that is ready.

    Attributes:
        url: without a trailing slash, such as http://127.0.0.1:8000.
        model: the name to put into requests.
        seconds_to_ready: from the start of the process to its "ready" line; 0.0 for a server that was already running.
        log, process: what the process wrote, and the process; None for a server that was already running.
        metrics_url: where its metrics are, if not at /metrics of `url`.
    """

    url: str
    model: str
    seconds_to_ready: float = 0.0
    log: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    metrics_url: str | None = None

    @property
    def client(self) -> OpenAI:
        key = os.environ.get("API_KEY") or "none"
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=300)

    @property
    def headers(self) -> dict[str, str]:
        """Those that every request needs."""
        key = os.environ.get("API_KEY")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def is_healthy(self) -> bool:
        return httpx.get(f"{self.url}/health", headers=self.headers, timeout=10).status_code == 200

    @classmethod
    def at(cls, url: str, metrics_url: str | None = None) -> LiveServer:
        """A server that is running.

        Raises:
            httpx.HTTPError: it is not, or it does not take the key.
        """
        server = cls(url.rstrip("/"), "", metrics_url=metrics_url)
        answer = httpx.get(f"{server.url}/v1/models", headers=server.headers, timeout=10)
        return replace(server, model=answer.raise_for_status().json()["data"][0]["id"])

    @classmethod
    @contextmanager
    def started(
        cls, model_folder: Path, log: Path, flags: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> Iterator[LiveServer]:
        """Starts `python -m server.cli`, waits until it says that it is ready, and stops it in the end.

        Args:
            environment: variables beside those of this process.
        """
        port = free_port()
        command = [sys.executable, "-m", "server.cli", "--model", str(model_folder), "--port", str(port), *flags]
        begin = time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                process_group=0,  # the keys of a terminal can be pressed for it alone
            )
        try:
            wait_until_ready(process, log)
            yield cls(f"http://127.0.0.1:{port}", model_folder.name, time.monotonic() - begin, log, process)
        finally:
            stop(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while b"ready on" not in log.read_bytes():
        tail = log.read_text(errors="replace")[-4000:]
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode} before it was ready:\n{tail}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server was not ready within {START_SECONDS} s:\n{tail}")
        time.sleep(0.1)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
