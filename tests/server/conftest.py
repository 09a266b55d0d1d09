"""The whole application, without a model, for all tests of this folder that ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_server import LiveServer
from tests.server.gateway import running


@pytest.fixture(scope="session")
def gateway(model_folder: Path) -> Iterator[LiveServer]:
    with running(model_folder) as server:
        yield server
