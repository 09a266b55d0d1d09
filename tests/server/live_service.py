"""A compile service with real workers, in a thread's event loop, on a folder of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from guided.cache import Files
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.limits import Limits
from guided.workers import Pool, PoolOptions
from server.compile_service import CompileService
from tests.index.test_token_index import VOCABULARY


class Live:
    """A service that can be stopped and started again on the same folder."""

    def __init__(self, loop, folder, **options) -> None:
        self._loop = loop
        self._folder = folder
        self._options = {"limits": Limits(seconds=2.0, states=5_000), "nice": 0, **options}

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def start(self, memory_bytes: int = 64 << 20) -> CompileService:
        async def made() -> CompileService:
            pool = Pool(VOCABULARY, PoolOptions(self._folder, **self._options))
            options = pool.options
            files = Files.at(
                self._folder,
                VOCABULARY,
                capacity_bytes=options.disk_bytes,
                spare=options.spare,
                rebuild=lambda c: writable_network(c, VOCABULARY),
            )
            service = CompileService(VOCABULARY, pool, files, memory_bytes=memory_bytes)
            await service.start()
            return service

        self.service = self.wait(made())
        return self.service

    def restart(self) -> CompileService:
        self.wait(self.service.close())
        return self.start()

    def compile(self, constraint: Constraint, caller: str = ""):
        return self.wait(self.service.compile(constraint, caller))


@pytest.fixture(scope="module")
def live(loop, tmp_path_factory):
    made = Live(loop, tmp_path_factory.mktemp("indexes"))
    made.start()
    yield made
    made.wait(made.service.close())


def choice(*texts: str) -> Constraint:
    return Constraint.choice(texts)
