"""One worker process: jobs come in through a socket, outcomes go out; time and memory of each are limited. Knows no constraint."""

from __future__ import annotations

import math
import resource
import socket
from collections.abc import Iterator
from typing import Protocol

from guided.workers.messages import Message, receive, send

_RECYCLE_BYTES = 256 << 20  # a worker that holds so much more than at first makes way for a fresh one
_SPARE_SECONDS = 1  # of CPU time beyond a job's, for the limits that are checked in between to say so themselves


class Runner(Protocol):
    """What does the jobs; see `guided.workers.jobs`."""

    def run(self, job: Message) -> Iterator[Message]:
        """One outcome, and then what nobody waits for."""

    def cache_use(self) -> Message:
        """What there is to know of the caches; empty where there is none."""


class Worker:
    """Runs jobs one after the other until its socket is closed."""

    def __init__(self, channel: socket.socket, jobs: Runner, memory_bytes: int) -> None:
        """`memory_bytes`: address space of a job, beyond what the worker has at first."""
        self._channel = channel
        self._jobs = jobs
        size, self._resident_at_first = _memory()
        resource.setrlimit(resource.RLIMIT_AS, (size + memory_bytes, resource.RLIM_INFINITY))

    def run(self) -> None:
        while (job := receive(self._channel)) is not None:
            self._limit_time(job)
            for outcome in self._jobs.run(job):
                send(self._channel, outcome)
            grown = _memory()[1] - self._resident_at_first
            stays = grown < _RECYCLE_BYTES
            send(self._channel, {"idle": stays, "grown_bytes": grown, "caches": self._jobs.cache_use()})
            if not stays:
                break

    def _limit_time(self, job: Message) -> None:
        """The kernel kills who goes beyond: code that never looks at its budget, such as one call of a library."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        most = usage.ru_utime + usage.ru_stime + job["cpu_seconds"] + _SPARE_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), resource.RLIM_INFINITY))


def _memory() -> tuple[int, int]:
    """Address space and resident memory of this process, bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read at every job
        size, resident = file.read().split()[:2]
    page = resource.getpagesize()
    return int(size) * page, int(resident) * page
