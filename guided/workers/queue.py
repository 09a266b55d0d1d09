"""Jobs that wait for a worker: by priority, and fair between callers. Knows no process and not what a job is about."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from guided.workers.messages import Message

_SHARE = 2  # a caller may have 1/2 of all places
_MOST_RETRY_SECONDS = 60


class Priority(IntEnum):
    """What kind of waiting a job does."""

    CHECK = 0  # an answer is complete but for this, or cannot go on without it
    QUICK = 1  # a constraint's first attempt, a fraction of a second
    LONG = 2  # a constraint that took longer than that
    BACKGROUND = 3  # nobody waits


_PATIENT = (Priority.QUICK, Priority.LONG)  # wait for so long and no longer


class Overloaded(Exception):
    """There is no room for another job, or it waited too long. `retry_seconds`: when to try again."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


@dataclass(eq=False, slots=True)
class Ticket:
    """A job and who waits for its outcome. Cancelling `outcome` ends the job."""

    job: Message
    priority: Priority
    caller: str
    outcome: asyncio.Future[Message]
    patience: asyncio.TimerHandle | None = None  # ends the wait, whether or not there is a worker that looks
    deaths: int = 0  # workers that died over it
    starved: bool = False  # a worker had hardly any CPU for it


@dataclass(slots=True)
class _Line:
    """The tickets of one priority: callers take turns."""

    callers: OrderedDict[str, deque[Ticket]] = field(default_factory=OrderedDict)
    length: int = 0

    def append(self, ticket: Ticket) -> None:
        self.callers.setdefault(ticket.caller, deque()).append(ticket)
        self.length += 1

    def pop(self) -> Ticket | None:
        if not self.callers:
            return None
        caller, tickets = next(iter(self.callers.items()))
        ticket = tickets.popleft()
        self.length -= 1
        if tickets:
            self.callers.move_to_end(caller)
        else:
            del self.callers[caller]
        return ticket


class Queue:
    """At most `capacity` jobs of the priorities that requests wait for, half of them from one caller."""

    def __init__(self, capacity: int, workers: int, patience_seconds: float) -> None:
        self._capacity = capacity
        self._workers = workers
        self._patience_seconds = patience_seconds
        self._lines = {priority: _Line() for priority in Priority}
        self._changed = asyncio.Event()
        self._job_seconds = 0.1  # of a job, a moving mean

    def put(self, ticket: Ticket) -> None:
        """Raises Overloaded."""
        line = self._lines[ticket.priority]
        if ticket.priority is not Priority.CHECK:  # there is one at most for a request in the engine
            places = self._capacity
            own = len(line.callers.get(ticket.caller, ()))
            if line.length >= places or own >= max(1, places // _SHARE):
                raise Overloaded("too many constraints are waiting to be compiled", self.retry_seconds)
        self.put_back(ticket)

    def put_back(self, ticket: Ticket) -> None:
        """A ticket that had its place already."""
        if ticket.priority in _PATIENT:
            loop = asyncio.get_running_loop()
            ticket.patience = loop.call_later(self._patience_seconds, self._give_up, ticket)
        self._lines[ticket.priority].append(ticket)
        self._changed.set()

    async def get(self, priorities: Sequence[Priority]) -> Ticket:
        """The next ticket of the first of the priorities that has one."""
        while True:
            for priority in priorities:
                while (ticket := self._lines[priority].pop()) is not None:
                    if ticket.patience is not None:
                        ticket.patience.cancel()
                    if not ticket.outcome.done():  # or its caller left
                        return ticket
            self._changed.clear()
            await self._changed.wait()

    def _give_up(self, ticket: Ticket) -> None:
        if not ticket.outcome.done():
            ticket.outcome.set_exception(Overloaded("the compilation waited too long", self.retry_seconds))

    def took(self, seconds: float) -> None:
        """A job is done that took so long."""
        self._job_seconds += 0.1 * (seconds - self._job_seconds)

    def __len__(self) -> int:
        return sum(line.length for line in self._lines.values())

    @property
    def retry_seconds(self) -> int:
        """When those that wait now will be done, about."""
        return max(1, min(_MOST_RETRY_SECONDS, math.ceil(len(self) * self._job_seconds / self._workers)))
