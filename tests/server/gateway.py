"""The whole application on a port of this machine, with an engine that has no model: see `engine_without_model`.

python -m tests.server.gateway [MODEL FOLDER]     serves until Ctrl-C, for load tests and by hand
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from server.keys import KeyRing
from tests.live_server import LiveServer, free_port

START_SECONDS = 600  # where kernels are compiled anew on a busy machine


@contextmanager
def running(model_folder: Path, flags: Sequence[str] = (), keys: KeyRing | None = None) -> Iterator[LiveServer]:
    """A server that answers in milliseconds; what it writes is random, but obeys the constraints. It runs in a thread."""
    from server.settings import Settings, set_environment

    set_environment()
    import uvicorn

    from server import app as application
    from server.command_line import parse_arguments
    from server.lifecycle import engine_config, prepare_compilation, vllm_backends
    from tests.server.engine_without_model import engine_without_model

    args, _ = parse_arguments(["--model", str(model_folder), *flags])
    _, config = engine_config(args)
    service = prepare_compilation(Settings(), config)
    backends = vllm_backends(Settings(), config)
    port = free_port()
    ready = threading.Event()
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        engine = engine_without_model(config, service.vocabulary)
        await service.start()
        # Metrics of their own: other applications may run in this process, and a registry takes a name once.
        with patch.object(application, "get_prometheus_registry", return_value=CollectorRegistry()):
            app = await application.create_app(args, engine, service, keys=keys, backends=backends)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
        servers.append(server)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        try:
            await serving
        finally:
            await service.close()
            if backends is not None:
                await backends.close()

    problems: list[Exception] = []

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:  # noqa: BLE001 - the other thread raises it
            problems.append(error)
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not ready.wait(START_SECONDS) or problems:
        raise RuntimeError("the application did not start") from (problems or [None])[0]
    try:
        yield LiveServer(f"http://127.0.0.1:{port}", model_folder.name)
    finally:
        servers[0].should_exit = True
        thread.join(30)


def main() -> None:
    from scripts.prepare_model import default_target

    with running(Path(sys.argv[1]) if len(sys.argv) > 1 else default_target()) as server:
        print(f"ready on {server.url}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
