"""Deployment files, checked by the tools that operators use. `make test-deploy` fetches those and sets GUIDED_TEST_DEPLOY.

Plain `make test` does not run these tests a second time; a tool that could not be had skips its tests by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.backends import Backend, serving

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("GUIDED_TEST_DEPLOY"):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="run make test-deploy"))


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """No constraint is compiled here: overrides the fixture that prepares for it."""


@pytest.fixture
def httpserver_answering() -> Iterator[Callable[[str], tuple[str, list[Any]]]]:
    """A function: the text that the server answers with -> its URL, and the list of what it is asked."""
    with ExitStack() as stack:

        def start(answer: str, busy: int = 0) -> tuple[str, list[Any]]:
            backend = stack.enter_context(serving(Backend(answer, busy=busy)))
            return backend.url, backend.asked

        yield start
