"""The process that workers are forked from: it has read the vocabulary and loaded every kernel, so a new worker costs milliseconds.

`python -m guided.workers.nursery FD`: FD is a socket. The server writes the settings, then a byte (its niceness) and a socket for
each worker that it wants; the nursery answers "ready", "forked" with the worker's process id, and "exited" with its status. It ends
with the server, its workers too.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guided.cache import Files, Remote, RemoteOptions, Spare, Store, generation
from guided.compiler import warm_up, writable_network
from guided.explain import characters
from guided.limits import Limits
from guided.vocabulary import Vocabulary
from guided.workers.jobs import Jobs
from guided.workers.messages import IDLE, Message, receive, send
from guided.workers.worker import Runner, Worker

_NICEST = 19
_YOUNG = 20_000  # objects before the young are looked through; nearly all that a compilation makes lives as long as it


def main() -> None:
    serve(_compiling)


def serve(prepare: Callable[[Message], Runner]) -> None:
    """All of a nursery's process, whose arguments are those above.

    Args:
        prepare: makes of the settings what the workers run; it is there before the first of them is forked.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = receive(control)
    if settings is None:
        return
    for interrupt in (signal.SIGINT, signal.SIGHUP):
        signal.signal(interrupt, signal.SIG_IGN)  # the terminal's keys are for the server, which ends us
    jobs = prepare(settings)
    collect_rarely()
    send(control, {"ready": os.getpid()})
    Nursery(control, jobs, settings).run()


def collect_rarely() -> None:
    """The garbage collector as compilations want it: it takes a fifth of the time of a grammar otherwise."""
    gc.freeze()  # no worker's collections look through, and so copy, what all of them share
    gc.set_threshold(_YOUNG)


def _compiling(settings: Message) -> Jobs:
    vocabulary = _vocabulary(settings["vocabulary"])
    warm_up(vocabulary)
    characters.warm()
    limits = Limits(**settings["limits"])
    return Jobs(vocabulary, _store(settings, vocabulary), limits, shares_first=settings["shares_first"])


def _vocabulary(descriptor: int) -> Vocabulary:
    mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    os.close(descriptor)
    return Vocabulary.from_buffer(mapped)


def _store(settings: Message, vocabulary: Vocabulary) -> Store:
    spare, remote = settings["spare"], settings["remote"]
    files = Files.at(
        Path(settings["folder"]),
        vocabulary,
        capacity_bytes=settings["disk_bytes"],
        spare=None if spare is None else Spare(Path(spare[0]), spare[1]),
        rebuild=lambda constraint: writable_network(constraint, vocabulary),
        quiet=True,  # the pool tells, once for all of them
    )
    return Store(files, None if remote is None else Remote(RemoteOptions(**remote), generation(vocabulary)))


class Nursery:
    """Forks a worker for each socket that comes, and tells how it ended."""

    def __init__(self, control: socket.socket, jobs: Runner, settings: Message) -> None:
        self._control = control
        self._jobs = jobs
        self._settings = settings
        self._workers: set[int] = set()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

    def run(self) -> None:
        """Until the server is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler has to be there for the wake-up
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        watched: list[Any] = [self._control, self._woken]
        with contextlib.suppress(ConnectionError):  # the server is gone
            while True:
                readable, _, _ = select.select(watched, [], [])
                if self._woken in readable:
                    os.read(self._woken, 4096)
                    self._tell_ends()
                if self._control in readable and not self._fork():
                    break
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def _fork(self) -> bool:
        """One worker for one socket; False where the server is gone."""
        descriptors: list[int] = []
        niceness = b""
        with contextlib.suppress(ConnectionError):
            niceness, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not descriptors:
            return False
        worker = os.fork()
        if worker == 0:
            self._become_worker(descriptors[0], niceness[0])
        os.close(descriptors[0])
        self._workers.add(worker)
        send(self._control, {"forked": worker})
        return True

    def _become_worker(self, descriptor: int, niceness: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        os.close(self._woken)
        os.close(self._waker)
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            give_way(niceness)
            Worker(socket.socket(fileno=descriptor), self._jobs, self._settings["memory_bytes"]).run()
            status = 0
        finally:
            os._exit(status)  # what the nursery registered to run at its end is not ours

    def _tell_ends(self) -> None:
        while self._workers:
            worker, status = os.waitpid(-1, os.WNOHANG)
            if worker == 0:
                return
            self._workers.discard(worker)
            send(self._control, {"exited": worker, "status": os.waitstatus_to_exitcode(status)})


def give_way(niceness: int) -> None:
    """What the scheduler is to do with this process; with IDLE it is interrupted as soon as another one wakes."""
    os.nice(min(niceness, _NICEST))
    if niceness >= IDLE:
        with contextlib.suppress(OSError):  # of a sandbox that knows niceness only
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
