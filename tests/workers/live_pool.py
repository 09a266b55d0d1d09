"""Real worker processes on the small vocabulary, and a loop in a thread to ask them from; fixtures for whoever imports them."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from guided.constraint import Constraint
from guided.limits import Limits
from guided.workers import Pool, PoolOptions, Priority
from tests.index.test_token_index import VOCABULARY

LIMITS = Limits(seconds=3.0, states=50_000_000, constraint_bytes=100_000)


def job(constraint: Constraint | None, kind: str = "compile", **options: Any) -> dict[str, Any]:
    made = {"kind": kind, "seconds": 3.0, "wall_seconds": 20.0, "closing_seconds": 0.5, **options}
    made["cpu_seconds"] = options.get("cpu_seconds", made["seconds"] + made["closing_seconds"])
    return made if constraint is None else {**made, "constraint": constraint.canonical_text}


def nursery_of(pool: Pool) -> psutil.Process:
    """This pool's: applications that other tests keep running have theirs in this process too."""
    assert pool._nursery is not None and pool._nursery._process is not None
    return psutil.Process(pool._nursery._process.pid)


def signal_workers(pool: Pool, number: signal.Signals) -> set[int]:
    """To every worker that is there; those that the pool itself has just ended may be gone by then. Returns their process ids."""
    workers = nursery_of(pool).children()
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.send_signal(number)
    return {worker.pid for worker in workers}


def kill_workers(pool: Pool) -> None:
    """Returns when the pool knows of it: a worker that gets a job before that counts as one that died over the job."""
    killed = signal_workers(pool, signal.SIGKILL)
    assert pool._nursery is not None
    known = pool._nursery._ends
    until(lambda: killed.isdisjoint(known))


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass
class LivePool:
    pool: Pool
    loop: asyncio.AbstractEventLoop
    folder: Path

    @property
    def nursery(self) -> psutil.Process:
        return nursery_of(self.pool)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def run(self, *arguments: Any, priority: Priority = Priority.QUICK, **options: Any) -> dict[str, Any]:
        return self.wait(self.pool.run(job(*arguments, **options), priority))


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextmanager
def running(loop: asyncio.AbstractEventLoop, folder: Path, memory_bytes: int) -> Iterator[LivePool]:
    """`memory_bytes`: address space of a job."""
    pool = Pool(VOCABULARY, PoolOptions(folder, limits=LIMITS, memory_bytes=memory_bytes, nice=0))
    made = LivePool(pool, loop, folder)
    made.wait(pool.start())
    try:
        yield made
    finally:
        made.wait(pool.close())


@pytest.fixture(scope="module")
def live(loop, tmp_path_factory) -> Iterator[LivePool]:
    with running(loop, tmp_path_factory.mktemp("indexes"), 2 << 30) as made:
        yield made
