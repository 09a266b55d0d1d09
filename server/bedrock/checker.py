"""In: schemas and answers; out: what `schema_check` says of them, or a refusal when it takes too long. Knows no keyword of JSON Schema.

A schema of 2 KB can ask for 2^30 evaluations, and no thread can be stopped: so each question goes to a process that is killed when its
time is over. There are few of them, they stay, and they start before the first request.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any
from weakref import WeakValueDictionary

from server.errors import RequestRefused

READY = b"ready"  # what a process says once, before its first question
START_SECONDS = 30.0  # of a new process, on a small machine; not part of a question's time


class Checker:
    """Processes that check, and a thread for each that waits for it."""

    def __init__(self, processes: int, seconds: float) -> None:
        """
        Args:
            processes: most of them; each starts when it is needed, the first one by `start`.
            seconds: of one question.
        """
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(processes, "check")  # bounds the processes; questions wait in its queue
        self._idle: list[_Process] = []
        self._most_of_one = max(1, processes - 1)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # caller -> its free turns

    def start(self) -> None:
        """Starts a process before there is a question for it."""
        self._idle.append(_Process())

    def of(self, caller: str) -> CallersChecker:
        """The same for one caller, who leaves a process to the others, if there is more than one."""
        turns = self._turns.get(caller)
        if turns is None:
            turns = self._turns[caller] = asyncio.Semaphore(self._most_of_one)
        return CallersChecker(self, turns)

    async def prepared(self, schema: Any, field: str, *, closed: bool) -> Any:
        """The schema that is really checked, see `schema_check.checked`.

        Raises:
            RequestRefused: as there; or it took too long.
        """
        return (await self._ask({"schema": schema, "field": field, "closed": closed}, field))["schema"]

    async def problem(self, schema: Any, answer: Any, field: str) -> str | None:
        """Why the answer does not satisfy a prepared schema; None where it does.

        Raises:
            RequestRefused: it took too long.
        """
        return (await self._ask({"schema": schema, "answer": answer}, field))["problem"]

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.end()

    async def _ask(self, question: dict[str, Any], field: str) -> dict[str, Any]:
        told = await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, json.dumps(question))
        if told is None:
            raise RequestRefused(
                f"{field}: checking it took longer than {self._seconds:g} s", "constraint_too_complex", field
            )
        if "refused" in told:
            message, code, param = told["refused"]
            raise RequestRefused(message, code, param or field)
        return told

    def _asked(self, question: str) -> dict[str, Any] | None:
        """In a thread. None: the process took too long, or died of the question."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = _Process()
        told = process.ask(question.encode(), self._seconds)
        if told is None:
            process.end()
            process = _Process()
        self._idle.append(process)
        return None if told is None else json.loads(told)


@dataclass(frozen=True, slots=True)
class CallersChecker:
    """What one caller has of a checker; arguments and errors are those of `Checker`."""

    checker: Checker
    turns: asyncio.Semaphore

    async def prepared(self, schema: Any, field: str, *, closed: bool) -> Any:
        async with self.turns:
            return await self.checker.prepared(schema, field, closed=closed)

    async def problem(self, schema: Any, answer: Any, field: str) -> str | None:
        async with self.turns:
            return await self.checker.problem(schema, answer, field)


class _Process:
    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        self._process = _start(theirs)
        self._is_ready = False

    def ask(self, question: bytes, seconds: float) -> bytes | None:
        """None: no answer in time."""
        try:
            if not self._is_ready:
                self._is_ready = self._pipe.poll(START_SECONDS) and self._pipe.recv_bytes() == READY
            self._pipe.send_bytes(question)
            return self._pipe.recv_bytes() if self._pipe.poll(seconds) else None
        except (EOFError, OSError):  # it died
            return None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()


def _start(theirs: Connection) -> subprocess.Popen[bytes]:
    """Not by `multiprocessing`: its processes load the program's main module again, and its queues need what AWS Lambda lacks."""
    command = [sys.executable, "-m", "server.bedrock.check_worker", str(theirs.fileno())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with theirs:
        return subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
