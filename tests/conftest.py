"""Fixtures that several folders of tests share: the embedded model, its vocabulary, and one live server for the whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.prepare_model import default_target, is_complete
from tests.live_server import LiveServer
from tests.trace_collector import Collector


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Numba compiles before the tests, as it does before a server is ready: their budgets are for constraints."""
    import guided

    guided.warm_up()


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The embedded model as a folder; `make test` exports it before the tests start."""
    folder = default_target()
    if not is_complete(folder):
        pytest.skip("the embedded model is not exported: run scripts/prepare_model.py")
    return folder


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path):
    """The vocabulary of the embedded model, 49,152 tokens."""
    from guided.vocabulary import Vocabulary

    return Vocabulary.from_pretrained(model_folder)


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """What the server's traces go to."""
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="session")
def server(model_folder: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A real server with the embedded model. GUIDED_TEST_URL names one that is already running instead."""
    running = os.environ.get("GUIDED_TEST_URL")
    if running:
        yield LiveServer.at(running)
        return
    log = tmp_path_factory.mktemp("server") / "server.log"
    with LiveServer.started(model_folder, log, collector.flags, collector.environment) as live:
        yield live
