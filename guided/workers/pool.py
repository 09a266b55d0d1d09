"""Jobs go in, outcomes come out, and whatever a job does to its worker is an error of that job alone. Knows no HTTP and no cache tier.

A few workers take only short jobs, so that a constraint that is simple never waits for one that is not; the others take whatever there
is. A job that overruns its time, or whose caller is gone, ends with its worker, and a fresh worker takes the place.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from guided.cache import DISK, SPARE, RemoteOptions, Spare
from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.vocabulary import Vocabulary
from guided.workers.messages import IDLE, Message, to_error
from guided.workers.processes import NurseryProcess, WorkerProcess
from guided.workers.queue import Overloaded, Priority, Queue, Ticket

logger = logging.getLogger(__name__)

_SHORT = (Priority.CHECK, Priority.QUICK)
_AFTER_A_CHECK = (
    Priority.QUICK,
    Priority.CHECK,
)  # in turns: many that wait for the one do not keep those of the other waiting
_ANY = (Priority.LONG, Priority.CHECK, Priority.QUICK, Priority.BACKGROUND)
COMPILING = "guided.workers.nursery"
_DEATHS = 2  # a job whose worker died so often is given up
_HARDLY = 0.1  # part of its wall time that a job had a CPU, below which its time says nothing of it
_STARVED_SECONDS = 60.0  # so long workers for short jobs claim a part of the CPU, once one of these had hardly any
_REST_SECONDS = 30.0  # after so long without a job a worker makes way for a fresh one, if that is
_SPARE_BYTES = 32 << 20  # so much smaller: what it knew of growing indexes has most likely had its use


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How many workers there are and what a job may cost.

    Attributes:
        workers: processes, at least 2; half of them, rounded down, take short jobs only.
        queued: jobs that may wait.
        patience_seconds: how long they may.
        limits: of one constraint; `seconds` is CPU time.
        wall_seconds: after which a job is killed.
        memory_bytes: address space of a job.
        nice: workers run when nothing else wants the CPU. Where that leaves a short job without one, those with short jobs are as nice as
            this for a minute; 20: they stay as they are; 0: nobody gives way at all.
        folder, disk_bytes, spare, remote: the cache; see `guided.cache`.
        shares_first: an index is in the remote cache before anybody hears of it: ranks on other hosts will look for it there.
    """

    folder: Path
    workers: int = 2
    queued: int = 512
    patience_seconds: float = 30.0
    limits: Limits = field(default_factory=Limits)
    wall_seconds: float = 10.0
    memory_bytes: int = 1 << 30
    nice: int = 10
    disk_bytes: int = 4 << 30
    spare: Spare | None = None
    remote: RemoteOptions | None = None
    shares_first: bool = False

    def for_nursery(self) -> dict[str, Any]:
        return {
            "limits": asdict(self.limits),
            "memory_bytes": self.memory_bytes,
            "folder": str(self.folder),
            "disk_bytes": self.disk_bytes,
            "spare": None if self.spare is None else [str(self.spare.folder), self.spare.capacity_bytes],
            "remote": None if self.remote is None else asdict(self.remote),
            "shares_first": self.shares_first,
        }


class Pool:
    """Worker processes that are forked from one; `start` it within the event loop that it is used in.

    Attributes:
        deaths: workers that died or were killed.
        overloads: jobs that were refused since too many wait.
        busy: workers with a job.
        files: what a worker last said of each folder of index files: "used_bytes", "oldest_seconds" (None: not known), "trouble" (None:
            there was none), and "evictions" since the start.
        remote: what came of questions to the remote cache since the start, see `guided.cache.Remote`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | None,
        options: PoolOptions,
        *,
        module: str = COMPILING,
        more: Message | None = None,
    ) -> None:
        """
        Args:
            vocabulary: of the workers, as they are mapped into them; None: the jobs need none.
            module: what runs as the nursery, and makes the workers what they are.
            more: settings for it.
        """
        self.options = options
        self.deaths = 0
        self.overloads = 0
        self.files: dict[str, dict[str, Any]] = {
            folder: {"used_bytes": None, "oldest_seconds": None, "trouble": None, "evictions": 0}
            for folder in (DISK, SPARE)
        }
        self.remote: Counter[str] = Counter()
        self.busy = 0
        self._idle_for_any = 0  # workers that could take any job
        self._starved_until = 0.0  # time.monotonic()
        self._background: set[Ticket] = set()  # those being worked on
        self._vocabulary = vocabulary
        self._module = module
        self._more = more or {}
        self._queue = Queue(options.queued, options.workers, options.patience_seconds)
        self._nursery: NurseryProcess | None = None
        self._places: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when the first worker can take jobs. Raises OSError."""
        assert self.options.workers >= 2, "one for short jobs, one for long ones"
        settings = {**self.options.for_nursery(), **self._more}
        self._nursery = NurseryProcess(self._vocabulary, settings, self._module)
        await self._nursery.start()
        short = self.options.workers // 2
        for place in range(self.options.workers):
            self._places.append(asyncio.create_task(self._keep_busy(_SHORT if place < short else _ANY)))

    async def run(self, job: Message, priority: Priority, caller: str = "") -> Message:
        """The outcome of a job; see `guided.workers.jobs`.

        Raises:
            ConstraintError: the constraint is refused, or cost too much.
            Overloaded: too many jobs wait already, or it waited too long.
        """
        outcome: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put(Ticket(job, priority, caller, outcome))
        except Overloaded:
            self.overloads += 1
            raise
        if priority is Priority.LONG:
            self._make_way()
        found = await outcome  # who is cancelled here cancels the future, and so the job
        if "refused" in found:
            raise to_error(found["refused"])
        return found

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """What takes several jobs takes no longer than one that waits and works as long as any may. Raises Overloaded."""
        seconds = self.options.patience_seconds + self.options.wall_seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            self.overloads += 1
            late = f"the compilation was not done after {seconds:g} s"
            raise Overloaded(late, self._queue.retry_seconds) from error

    async def close(self) -> None:
        for place in self._places:
            place.cancel()
        await asyncio.gather(*self._places, return_exceptions=True)
        if self._nursery is not None:
            self._nursery.close()

    def __len__(self) -> int:
        """Jobs that wait."""
        return len(self._queue)

    # --- one place for a worker ---------------------------------------------------------------------------------------

    async def _keep_busy(self, priorities: Sequence[Priority]) -> None:
        worker: WorkerProcess | None = None
        takes_any, order = priorities is _ANY, priorities
        try:
            while True:
                worker = worker or await self._hire(self._nicest)
                self._idle_for_any += takes_any
                try:
                    ticket = await self._next(worker, order)
                finally:
                    self._idle_for_any -= takes_any
                if ticket is None:
                    worker.kill()
                    worker = None
                    continue
                if worker.is_gone or worker.niceness != self._niceness(ticket.priority):
                    worker.kill()
                    worker = await self._fork(self._niceness(ticket.priority))
                if worker is None:
                    self._queue.put_back(ticket)  # where it does not wait for ever
                    continue
                if not takes_any:
                    order = _AFTER_A_CHECK if ticket.priority is Priority.CHECK else priorities
                begin = time.monotonic()
                stays = await self._counted(worker, ticket)
                self._queue.took(time.monotonic() - begin)
                if not stays:
                    worker.kill()
                    worker = None
        finally:
            if worker is not None:
                worker.kill()

    async def _next(self, worker: WorkerProcess, priorities: Sequence[Priority]) -> Ticket | None:
        """The next job; None where there was none for a while, and the worker holds memory that others could use."""
        rest = _REST_SECONDS if worker.grown_bytes > _SPARE_BYTES else None
        try:
            async with asyncio.timeout(rest):
                return await self._queue.get(priorities)
        except TimeoutError:
            return None

    async def _hire(self, niceness: int) -> WorkerProcess:
        """A worker, however long it takes: a machine that cannot fork now may be able to in a moment."""
        while (worker := await self._fork(niceness)) is None:
            await asyncio.sleep(1.0)
        return worker

    async def _fork(self, niceness: int) -> WorkerProcess | None:
        assert self._nursery is not None
        try:
            return await self._nursery.fork(niceness)
        except OSError:
            return None

    def _niceness(self, priority: Priority) -> int:
        """Of the worker that takes a job: as little in the way of what decodes as leaves the short ones some CPU."""
        if priority in _SHORT and time.monotonic() < self._starved_until:
            return self.options.nice
        return self._nicest

    @property
    def _nicest(self) -> int:
        return IDLE if self.options.nice else 0

    async def _counted(self, worker: WorkerProcess, ticket: Ticket) -> bool:
        self.busy += 1
        if ticket.priority is Priority.BACKGROUND:
            self._background.add(ticket)
        try:
            return await self._work(worker, ticket)
        finally:
            self.busy -= 1
            self._background.discard(ticket)

    async def _work(self, worker: WorkerProcess, ticket: Ticket) -> bool:
        """Has a job done; may the worker stay?"""
        deadline = time.monotonic() + ticket.job["wall_seconds"]
        had = worker.cpu_seconds
        await worker.send(ticket.job)
        answer = asyncio.create_task(worker.receive())
        ends: set[asyncio.Future[Any]] = {answer, ticket.outcome}
        try:
            await asyncio.wait(ends, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._overrun(ticket, worker.cpu_seconds - had)
                return False
        finally:
            answer.cancel()
        outcome = answer.result()
        if outcome is None:
            await self._died(worker, ticket)
            return False
        if not ticket.outcome.done():
            ticket.outcome.set_result(outcome)
        return await self._until_idle(worker)

    async def _until_idle(self, worker: WorkerProcess) -> bool:
        """Waits for what the worker does after its outcome; may it stay?"""
        try:
            last = await asyncio.wait_for(worker.receive(), self.options.wall_seconds)
        except TimeoutError:
            last = None
        if last is None:
            self.deaths += 1
            return False
        worker.grown_bytes = last["grown_bytes"]
        if last["caches"]:
            self.note_files(last["caches"]["files"])
            self.remote.update(last["caches"]["remote"])
        return last["idle"]

    def note_files(self, use: Message) -> None:
        """What `guided.cache.Files.use` says, here or in a worker. The first trouble with a folder is logged."""
        for folder, said in use.items():
            known = self.files[folder]
            if said["trouble"] and not known["trouble"]:
                logger.warning("%s", said["trouble"])
            evictions = known["evictions"] + said["evictions"]
            known |= {name: value for name, value in said.items() if value is not None} | {"evictions": evictions}

    def _make_way(self) -> None:
        """Ends a job that nobody waits for, where otherwise one that somebody waits for would wait for it."""
        if self._background and not self._idle_for_any:
            retry = self._queue.retry_seconds
            outcome = self._background.pop().outcome
            if not outcome.done():
                outcome.set_exception(Overloaded("it made way for a job that somebody waits for", retry))

    def _overrun(self, ticket: Ticket, cpu_seconds: float) -> None:
        """The job had `cpu_seconds` until its wall time was over: with next to none, that is the machine's fault."""
        self.deaths += 1
        if ticket.outcome.done():  # its caller is gone
            return
        seconds = ticket.job["wall_seconds"]
        starved = cpu_seconds < _HARDLY * seconds
        if starved and ticket.priority in _SHORT and not ticket.starved:
            self._starved_until = time.monotonic() + _STARVED_SECONDS
            ticket.starved = True
            self._queue.put_back(ticket)
            return
        if starved and ticket.priority is Priority.LONG:
            busy = f"the machine had no time to compile it within wall_seconds = {seconds:g} s"
            ticket.outcome.set_exception(Overloaded(busy, self._queue.retry_seconds))
            return
        ticket.outcome.set_exception(
            _too_complex(f"compilation time, limit wall_seconds = {seconds:g} s", "wall_seconds")
        )

    async def _died(self, worker: WorkerProcess, ticket: Ticket) -> None:
        """The worker is gone: a second one tries, unless the reason is the job's own."""
        self.deaths += 1
        status = await worker.status()
        if ticket.outcome.done():
            return
        if status == -signal.SIGXCPU:
            seconds = ticket.job["cpu_seconds"]
            ticket.outcome.set_exception(_too_complex(f"compilation time, limit seconds = {seconds:g} s", "seconds"))
            return
        ticket.deaths += 1
        if ticket.deaths < _DEATHS:
            self._queue.put_back(ticket)
            return
        how = "for an unknown reason" if status is None else f"with status {status}"
        ticket.outcome.set_exception(_too_complex(f"the process that compiled it died {how}", "worker"))


def _too_complex(what: str, limit: str) -> LimitExceeded:
    return LimitExceeded(f"the constraint is too complex: {what}", limit=limit)
