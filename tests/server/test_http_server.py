"""The end of a server: what runs is finished, nothing new begins, a second signal does not wait, an engine's death ends all."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from server import http_server
from server.allowance import Allowance
from server.availability import Availability
from server.command_line import parse_arguments
from server.gate import Gate
from server.http_server import Listener
from server.keys import KeyRing
from server.routes import probes

PATH = "/v1/stream"


class Engine:
    """Aborts as vLLM's does: whoever reads an answer finds its end."""

    is_running = False  # only asked when it errored
    stall = None

    def __init__(self) -> None:
        self.errored = False
        self.aborted = asyncio.Event()
        self.output_processor = SimpleNamespace(request_states={"a": None})

    async def abort(self, ids, internal) -> None:
        assert (ids, internal) == (["a"], True)
        self.aborted.set()


class Running:
    """A server in this event loop, one stream of which has begun."""

    def __init__(self, seconds: int, *flags: str) -> None:
        args, _ = parse_arguments(["--model", "a/b", "--shutdown-timeout", str(seconds), *flags])
        self.engine, self.go_on, app = Engine(), asyncio.Event(), FastAPI()
        app.state.availability = self.availability = Availability(self.engine)
        app.state.engine_client = self.engine
        app.add_middleware(Gate, keys=KeyRing(), availability=self.availability, allowance=Allowance(), admin_port=True)
        app.include_router(probes.router)

        @app.get(PATH)
        async def stream() -> StreamingResponse:
            return StreamingResponse(self._parts(), media_type="text/plain")

        @app.get("/metrics")
        async def metrics() -> str:
            return "metrics"

        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.url, self.admin_url = (f"http://127.0.0.1:{s.getsockname()[1]}" for s in self.sockets)
        listeners = [Listener(self.sockets[0]), Listener(self.sockets[1], admin=True)]
        self.task = asyncio.create_task(http_server.serve(app, listeners, self.engine, self.availability, args, "text"))
        self.app = app

    async def _parts(self):
        yield "first "
        ends = [asyncio.ensure_future(event.wait()) for event in (self.go_on, self.engine.aborted)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        yield "last" if self.go_on.is_set() else "aborted"

    async def begin(self, client: httpx.AsyncClient) -> asyncio.Task[str]:
        while not (hasattr(self.app.state, "server") and self.app.state.server.started):
            await asyncio.sleep(0.01)
        begun = asyncio.Event()

        async def read() -> str:
            text = ""
            async with client.stream("GET", self.url + PATH) as response:
                async for part in response.aiter_text():
                    text += part
                    begun.set()
            return text

        task = asyncio.create_task(read())
        await begun.wait()
        return task


def run(scenario, seconds: int = 30) -> None:
    async def main() -> None:
        running = Running(seconds)
        async with httpx.AsyncClient(timeout=30) as client:
            reading = await running.begin(client)
            await scenario(running, client, reading)
        for one in running.sockets:
            one.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def signalled(running: Running) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    while not running.availability.draining:
        await asyncio.sleep(0.01)


def test_a_stream_ends_and_nothing_new_begins():
    async def scenario(running, client, reading) -> None:
        assert (await client.get(running.url + "/ready")).status_code == 200
        await signalled(running)
        assert (await client.get(running.url + "/ready")).status_code == 503
        refused = await client.get(running.url + PATH)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert not reading.done() and not running.task.done()
        running.go_on.set()
        assert await reading == "first last"
        assert await running.task is False
        assert not running.engine.aborted.is_set()

    run(scenario)


def test_what_does_not_end_in_time_is_aborted():
    async def scenario(running, client, reading) -> None:
        await signalled(running)
        assert await reading == "first aborted"
        assert await running.task is False

    run(scenario, seconds=1)


def test_a_second_signal_does_not_wait():
    async def scenario(running, client, reading) -> None:
        await signalled(running)
        os.kill(os.getpid(), signal.SIGINT)
        assert await running.task is True
        assert not reading.done()  # the end of the process cuts it
        reading.cancel()

    run(scenario, seconds=3600)


def test_the_death_of_the_engine_ends_the_server():
    async def scenario(running, client, reading) -> None:
        running.engine.errored = True
        assert (await client.get(running.url + "/ready")).status_code == 503
        running.go_on.set()
        assert await reading == "first last"
        assert await running.task is False

    run(scenario)


def test_the_admin_port_has_other_routes():
    async def scenario(running, client, reading) -> None:
        assert (await client.get(running.url + "/metrics")).status_code == 404
        assert (await client.get(running.admin_url + "/metrics")).json() == "metrics"
        assert (await client.get(running.admin_url + PATH)).status_code == 404
        assert (await client.get(running.admin_url + "/ready")).status_code == 200
        assert (await client.get(running.url + "/ready", headers={"X-Request-Id": "mine"})).headers[
            "x-request-id"
        ] == "mine"
        running.go_on.set()
        await reading
        await signalled(running)
        await running.task

    run(scenario)


def test_tls_by_the_flags_of_vllm(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made += ["-keyout", key, "-out", certificate, "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)

    async def main() -> None:
        running = Running(1, "--ssl-keyfile", key, "--ssl-certfile", certificate)
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=certificate)) as client:
            while not (hasattr(running.app.state, "server") and running.app.state.server.started):
                await asyncio.sleep(0.01)
            for url in (running.url, running.admin_url):
                assert (await client.get(url.replace("http:", "https:") + "/ready")).status_code == 200
                with pytest.raises(httpx.TransportError):
                    await client.get(url + "/ready")
        await signalled(running)
        assert await running.task is False
        for one in running.sockets:
            one.close()

    asyncio.run(asyncio.wait_for(main(), 60))
