"""One backend and one browser for all tests of the page; each test has a script of its own and leaves no complaint behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.playground.backend import Backend, Script, running
from tests.playground.browser import Page, chromium


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with running(tmp_path_factory.mktemp("playground")) as backend:
        yield backend


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def script(backend: Backend) -> Script:
    backend.script.let_go.set()
    backend.script = Script()
    return backend.script


@pytest.fixture
def page(browser, backend: Backend, script: Script) -> Iterator[Page]:
    page = Page(browser, backend.url)
    page.complaints()  # of what came after the end of the test before
    page.open()
    yield page
    script.let_go.set()
    page.script("sessionStorage.clear()")  # the next test has this tab too
    assert page.complaints() == []
