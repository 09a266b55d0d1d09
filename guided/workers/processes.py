"""The server's ends of the sockets to the nursery and to its workers. Knows no job."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from guided.vocabulary import Vocabulary
from guided.workers.messages import Message, pack, receive_async

_END_SECONDS = 1.0  # for the nursery to tell how a worker ended
_SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(eq=False, slots=True)
class WorkerProcess:
    """One worker, idle or busy.

    Attributes:
        niceness: that it was forked with.
        ended: exit status, negative: the signal that killed it.
        grown_bytes: memory that it holds beyond what it had at first, when it last said so.
    """

    pid: int
    niceness: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ended: asyncio.Future[int]
    grown_bytes: int = 0

    @property
    def is_gone(self) -> bool:
        """It died with nothing to do."""
        return self.ended.done() or self.reader.at_eof()

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has had; 0.0 where it is gone."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def send(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError):  # that it is gone is seen by who waits for its answer
            self.writer.write(pack(message))
            await self.writer.drain()

    async def receive(self) -> Message | None:
        """None where the worker is gone."""
        return await receive_async(self.reader)

    async def status(self) -> int | None:
        """How it ended, None where nobody knows."""
        try:
            return await asyncio.wait_for(asyncio.shield(self.ended), _END_SECONDS)
        except TimeoutError:
            return None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.writer.close()


class NurseryProcess:
    """Starts the nursery, again where it died, and has it fork workers."""

    def __init__(self, vocabulary: Vocabulary | None, settings: Message, module: str) -> None:
        self._vocabulary = None if vocabulary is None else _in_memory(vocabulary)
        self._settings = {**settings, "vocabulary": self._vocabulary}
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None  # for the descriptors, which streams cannot send
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue()
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Returns when workers can be forked. Raises OSError where the process ends instead."""
        async with self._one_at_a_time:
            await self._start()

    async def fork(self, niceness: int) -> WorkerProcess:
        """A new worker, as nice as that or `messages.IDLE`. Raises OSError where there can be none."""
        ours, theirs = socket.socketpair()
        async with self._one_at_a_time:
            pid = await self._forked(theirs, niceness)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        ended = self._ends.setdefault(pid, asyncio.get_running_loop().create_future())
        return WorkerProcess(pid, niceness, reader, writer, ended)

    async def _forked(self, theirs: socket.socket, niceness: int) -> int:
        """The process id of the worker that has `theirs`."""
        with theirs:
            for _ in range(2):  # a nursery that was killed is started anew
                if self._control is None:
                    await self._start()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [bytes([niceness])], [theirs.fileno()])
                except OSError:
                    self._forget()
                    continue
                answer = await self._answers.get()
                if answer is not None:
                    return answer["forked"]
                self._forget()
        raise OSError("the process that compile workers are forked from died twice")

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = [theirs.fileno(), *([] if self._vocabulary is None else [self._vocabulary])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno())],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_SINGLE_THREADED},
                process_group=0,  # not a session: Linux shares CPUs between sessions as equals, however nice one of them is
            )
        self._control = ours.dup()
        self._control.setblocking(False)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._answers = asyncio.Queue()
        self._listening = asyncio.create_task(self._listen(reader))
        self._writer.write(pack(self._settings))
        if await self._answers.get() is None:
            self._forget()
            raise OSError("the process that compile workers are forked from does not start")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while (message := await receive_async(reader)) is not None:
            if "exited" not in message:
                self._answers.put_nowait(message)
                continue
            ended = self._ends.setdefault(message["exited"], asyncio.get_running_loop().create_future())
            if not ended.done():
                ended.set_result(message["status"])
            del self._ends[message["exited"]]
        self._answers.put_nowait(None)

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Ends the nursery, and with it the workers."""
        if self._listening is not None:
            self._listening.cancel()
        if self._control is not None:
            self._control.shutdown(socket.SHUT_RDWR)  # the nursery sees the end and kills its workers first
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(_END_SECONDS)
        self._forget()
        if self._vocabulary is not None:
            os.close(self._vocabulary)


def _in_memory(vocabulary: Vocabulary) -> int:
    """A descriptor of memory that holds the vocabulary, for processes to map."""
    descriptor = os.memfd_create("vocabulary", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(vocabulary.to_bytes())
    return descriptor
