"""The whole application on a port of this machine, with an engine that has no model: see `engine_without_model`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_server import LiveServer, free_port


@pytest.fixture(scope="session")
def gateway(model_folder: Path) -> Iterator[LiveServer]:
    """A server that answers in milliseconds; what it writes is random, but obeys the constraints."""
    from server.settings import set_environment

    set_environment()
    import uvicorn

    from server.app import create_app
    from server.command_line import parse_arguments
    from server.lifecycle import engine_config, prepare_compilation
    from server.settings import Settings
    from tests.server.engine_without_model import engine_without_model

    args, _ = parse_arguments(["--model", str(model_folder)])
    _, config = engine_config(args)
    service = prepare_compilation(Settings(), config)
    port = free_port()
    ready = threading.Event()
    running: list[uvicorn.Server] = []

    async def serve() -> None:
        engine = engine_without_model(config, service.vocabulary)
        await service.start()
        app = await create_app(args, engine, service)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
        running.append(server)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        try:
            await serving
        finally:
            await service.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(600), "the application did not start"
    yield LiveServer(f"http://127.0.0.1:{port}", model_folder.name)
    running[0].should_exit = True
    thread.join(30)
