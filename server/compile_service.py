"""In: a constraint; out: its index, compiled once for all who ask and waited for by nobody else. Knows no HTTP.

Nothing is compiled in this process. An index that is closed is mapped from the file that a worker wrote; one that still grows stays with
the workers, who also check the answers that were made with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import Histogram

from guided.cache import DISK, Files, Memory, is_digest
from guided.constraint import Constraint
from guided.errors import ConstraintError, LimitExceeded
from guided.index.file import Stored
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary
from guided.workers import Overloaded, Pool, Priority
from guided.workers.jobs import COMPILED
from server.flights import Flights
from server.observation import Obtained, current, note_kind
from server.refusals import Refusals
from server.usage import Usage

logger = logging.getLogger(__name__)

MEMORY = "memory"
NOBODY = ""  # the caller of work that no request asked for

_QUICK_SECONDS = 0.25  # CPU time of a constraint's first attempt, which may not hold up others for longer
_QUICK_WALL_SECONDS = 5.0
_CLOSE_IN_A_QUEUE = 0.01  # CPU time that a request waits for its index to close where others wait behind it
_CLOSE_SECONDS = 4.0  # CPU time to close an index with nobody waiting; nearly all that ever close do so in less
_CLOSING_AT_ONCE = 64  # indexes that wait for it
_WARMED = 256  # constraints that are in memory again after a restart
_USAGE_SECONDS = 30.0
_STAGES = 1024
_EXPLORING_SECONDS = 1.0  # CPU time, beyond what the first state takes, to find out how an answer may go on
_TRIED = 10_000  # indexes that are known not to close; then they are tried again
_UNKNOWN_SECONDS = 60.0  # until the shortest answer is looked for again, where it was not found within the limits
_DRAWN_STATES = 40
_BYTES_OF_CHARACTER = 8  # what this process keeps of an index that still grows: its text, and what was read out of it


_NO_ROOM_RETRY_SECONDS = 30


class NoRoom(Overloaded):
    """The constraint compiles, and there is no place for the file that the engine would read its index from."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint that may be used.

    Attributes:
        found: the tier that had its index when it was asked for first, or "compiled".
        flushes: of the caches since the start: what the engine has kept from before the last one is not used for it.
        index: closed, to be read only, by any thread; None while it still grows.
        satisfied_by: do these tokens, without the stop token, spell a complete answer? Raises LimitExceeded, Overloaded.
        fewest_tokens: of the shortest answer, without the stop token; None where it is not known. A worker's answer is remembered.
            Raises Overloaded.
        explore: finds out how an answer that begins with these tokens may go on; False: none does. Where the index is closed: is its file,
            which was not there, there again? Raises LimitExceeded, Overloaded.

    Their last argument is the caller, whose turn it is where many wait for the workers.
    """

    constraint: Constraint
    index: TokenIndex | None
    satisfied_by: Callable[[list[int], str], Awaitable[bool]]
    fewest_tokens: Callable[[str], Awaitable[int | None]]
    explore: Callable[[list[int], str], Awaitable[bool]]
    found: str = COMPILED
    flushes: int = 0


@dataclass(frozen=True, slots=True)
class _Fewest:
    """`tokens`: of the shortest answer; None: not known. `until`: time.monotonic() when to ask (again)."""

    tokens: int | None = None
    until: float = 0.0


def _compilation_seconds() -> Histogram:
    buckets = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
    return Histogram("guided_compilation_seconds", "Wall time of a compilation", buckets=buckets, registry=None)


def _index_states() -> Histogram:
    buckets = [10.0**power for power in range(1, 7)]
    return Histogram("guided_index_states", "States of an index that was compiled", buckets=buckets, registry=None)


def _index_bytes() -> Histogram:
    buckets = [4.0**power for power in range(6, 15)]  # 4 KiB to 256 MiB
    return Histogram("guided_index_bytes", "Memory of an index that was compiled", buckets=buckets, registry=None)


@dataclass(slots=True)
class Tally:
    """What happened since the start, for the metrics.

    Attributes:
        found: constraints that were not in memory, by where their index came from: a tier, or "compiled".
        seconds, states, bytes: of compilations and of the indexes that came of them.
        refusals: by code.
    """

    found: Counter[str] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=_compilation_seconds)
    states: Histogram = field(default_factory=_index_states)
    bytes: Histogram = field(default_factory=_index_bytes)
    refusals: Counter[str] = field(default_factory=Counter)


class CompileService:
    """Compiles constraints for one vocabulary."""

    def __init__(
        self, vocabulary: Vocabulary, pool: Pool, files: Files, *, memory_bytes: int, close_seconds: float = 0.1
    ) -> None:
        """
        Args:
            close_seconds: CPU time that a request waits for its index to close; what takes longer is closed with nobody waiting.
        """
        self.vocabulary = vocabulary
        self.pool = pool
        self.files = files
        self.memory: Memory[Compiled] = Memory(memory_bytes)
        self.tally = Tally()
        self._close_seconds = close_seconds
        self._flights: Flights[Compiled] = Flights()
        self._fewest_flights: Flights[_Fewest] = Flights()
        self.refusals = Refusals()
        self._stages: Memory[dict[str, float]] = Memory(_STAGES)  # of the last compilations, wall seconds
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._tried: set[str] = set()  # digests of indexes that were to be closed with nobody waiting
        self._usage = Usage(files.disk.home / "usage.json")
        self._flushes = 0
        self._tasks: list[asyncio.Task[None]] = []  # as long as the service

    async def start(self) -> None:
        """Returns when constraints can be compiled; those used most in the last run are in memory then. Raises OSError."""
        await self.pool.start()
        await self._measure_files()
        digests = await asyncio.to_thread(self._usage.of_last_run, _WARMED)
        for digest in digests:
            self._tried.add(digest)  # what did not close in the last run need not be tried at every start
            try:
                await self.find(digest)
            except (ConstraintError, Overloaded) as error:
                logger.warning("constraint %s of the last run is not warm: %s", digest, error)
        self._tasks = [asyncio.create_task(self._save_usage()), asyncio.create_task(self._find_all_fewest(digests))]

    async def close(self) -> None:
        tasks = [*self._closing.values(), *self._flights.tasks, *self._fewest_flights.tasks, *self._tasks]
        if self._tasks:
            await asyncio.to_thread(self._usage.save)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pool.close()

    def is_text(self, token_id: int) -> bool:
        """May a constrained answer contain this token? False for stop and special tokens and for what is no token at all."""
        return 0 <= token_id < self.vocabulary.size and self.vocabulary.is_text(token_id)

    # --- compile ------------------------------------------------------------------------------------------------------

    async def compile(self, constraint: Constraint, caller: str = NOBODY) -> Compiled:
        """The constraint, ready for the engine. Who is cancelled while waiting takes the compilation along, if nobody else waits.

        Args:
            caller: whose turn it is when many wait: an API key, or what stands for one.

        Raises:
            ConstraintError: the constraint says something that cannot be enforced, or costs more than the limits.
            Overloaded: too many wait already.
            NoRoom: neither the disk nor the spare folder takes the index.
        """
        begin, seen = time.time(), current.get()
        held, tier = self.memory.peek(constraint.digest), None
        note_kind(constraint.kind)
        try:
            compiled = await self._shared(constraint, caller)
            tier = MEMORY if compiled is held else compiled.found
            return compiled
        finally:
            if seen is not None:
                seen.obtained = Obtained(begin, time.time(), tier, constraint.digest)

    async def _shared(self, constraint: Constraint, caller: str) -> Compiled:
        """`compile`; who asks for the same constraint at the same time waits for the same compilation."""
        digest = constraint.digest
        self._usage.count(digest)
        known = self.memory.get(digest)
        if known is not None and await self._is_there(digest):  # the engine may not have read it yet
            return known
        Budget(self.pool.options.limits).check_size(
            len(constraint.canonical_text.encode())
        )  # before it waits in memory
        self.refusals.raise_known(digest)
        return await self._flights.share(digest, lambda: self._obtain(constraint, caller))

    async def _is_there(self, digest: str) -> bool:
        """Is the file of this index there? It counts as used now. A disk behind a network may take its time: nobody else waits for it."""
        return await asyncio.to_thread(self.files.touch, digest)

    async def _obtain(self, constraint: Constraint, caller: str) -> Compiled:
        """From disk, from another replica, or compiled."""
        stored = await asyncio.to_thread(self.files.load, constraint.digest)
        if stored is not None:
            return self._from_file(stored)
        outcome = await self._compile_somewhere(constraint, caller)
        self.tally.found[outcome["tier"]] += 1
        if outcome["tier"] == COMPILED:
            self.tally.seconds.observe(sum(outcome["stages"].values()))
            self.tally.states.observe(outcome["states"])
            self.tally.bytes.observe(outcome["bytes"])
        self._stages.put(constraint.digest, outcome["stages"], 1)
        if not outcome["stored"]:
            message = "there is no room for the index of this constraint, neither on disk nor in memory"
            raise NoRoom(message, _NO_ROOM_RETRY_SECONDS)
        stored = await asyncio.to_thread(self.files.load, constraint.digest) if outcome["closed"] else None
        if not outcome["closed"]:
            self._close_later(constraint)
        return self._remember(constraint, None if stored is None else stored.index, outcome["tier"])

    def _from_file(self, stored: Stored) -> Compiled:
        self.tally.found[DISK] += 1
        if not stored.index.is_closed:
            self._close_later(stored.constraint)
        return self._remember(stored.constraint, stored.index, DISK)

    async def _compile_somewhere(self, constraint: Constraint, caller: str) -> dict[str, Any]:
        """A worker's outcome."""
        closing = self._close_seconds if len(self.pool) == 0 else min(_CLOSE_IN_A_QUEUE, self._close_seconds)
        try:
            return await self._attempted("compile", constraint, caller, closing_seconds=closing)
        except ConstraintError as error:
            self.tally.refusals[error.code] += 1
            self.refusals.remember(constraint.digest, error)
            raise

    async def _attempted(self, kind: str, constraint: Constraint, caller: str, **options: Any) -> dict[str, Any]:
        """A worker's outcome. The first attempt is short: what is simple does not wait behind what is not.

        Args:
            options: of the first attempt.
        """
        limits = {"seconds": _QUICK_SECONDS, "wall_seconds": _QUICK_WALL_SECONDS}
        try:
            return await self.pool.run(self._job(kind, constraint, **limits, **options), Priority.QUICK, caller)
        except LimitExceeded as error:
            if error.limit not in ("seconds", "wall_seconds"):
                raise
        return await self.pool.run(self._job(kind, constraint), Priority.LONG, caller)

    def _job(self, kind: str, constraint: Constraint | None = None, **options: Any) -> dict[str, Any]:
        limits = self.pool.options
        job = {
            "kind": kind,
            "seconds": limits.limits.seconds,
            "wall_seconds": limits.wall_seconds,
            "closing_seconds": self._close_seconds,
            **options,
        }
        job["cpu_seconds"] = job["seconds"] + job["closing_seconds"]
        if constraint is not None:
            job["constraint"] = constraint.canonical_text
        return job

    def _remember(self, constraint: Constraint, index: TokenIndex | None, found: str = COMPILED) -> Compiled:
        if index is not None and not index.is_closed:
            index = None

        async def check(tokens: list[int], caller: str) -> bool:
            if index is not None:
                return await asyncio.to_thread(spells_an_answer, index, tokens)
            outcome = await self.pool.run(self._job("check", constraint, tokens=tokens), Priority.CHECK, caller)
            return outcome["complete"]

        async def explore(tokens: list[int], caller: str) -> bool:
            if index is not None:
                return await self._is_there_again(constraint, index, caller)
            job = self._job("explore", constraint, tokens=tokens, exploring_seconds=_EXPLORING_SECONDS)
            return (await self.pool.run(job, Priority.CHECK, caller))["alive"]

        known = _Fewest()

        async def fewest_tokens(caller: str) -> int | None:
            nonlocal known
            if time.monotonic() >= known.until:
                finding = partial(self._find_fewest, constraint, index, caller)
                known = await self._fewest_flights.share(constraint.digest, finding)
            return known.tokens

        compiled = Compiled(constraint, index, check, fewest_tokens, explore, found, self._flushes)
        self.memory.put(constraint.digest, compiled, _bytes_kept(constraint, index))
        return compiled

    async def _is_there_again(self, constraint: Constraint, index: TokenIndex, caller: str) -> bool:
        """Was the file of a closed index gone? It is there now, then. Raises what `compile` does."""
        if await self._is_there(constraint.digest):
            known = self.memory.peek(constraint.digest)
            return known is None or known.index is not index  # somebody else has noticed it
        await self.compile(constraint, caller)
        return True

    async def _find_fewest(self, constraint: Constraint, index: TokenIndex | None, caller: str) -> _Fewest:
        """Raises Overloaded: a budget that may be too small is not passed on unseen."""
        if index is not None:
            return _Fewest(await asyncio.to_thread(index.min_tokens, index.start), math.inf)
        try:
            outcome = await self._attempted("fewest", constraint, caller)
        except ConstraintError:
            return _Fewest(None, time.monotonic() + _UNKNOWN_SECONDS)
        return _Fewest(outcome["fewest_tokens"], math.inf)

    async def _find_all_fewest(self, digests: list[str]) -> None:
        """The shortest answers of constraints of the last run, so that the first request of this one does not wait for a worker."""
        for digest in digests:
            compiled = self.memory.peek(digest)
            if compiled is not None and compiled.index is None:
                with contextlib.suppress(Overloaded):
                    await compiled.fewest_tokens(NOBODY)

    # --- indexes that still grow --------------------------------------------------------------------------------------

    def _close_later(self, constraint: Constraint) -> None:
        """Closes an index with nobody waiting, once; what does not close goes on growing where traffic needs it."""
        digest = constraint.digest
        if digest in self._tried or len(self._closing) >= _CLOSING_AT_ONCE:
            return
        if len(self._tried) >= _TRIED:
            self._tried.clear()
        self._tried.add(digest)
        self._closing[digest] = asyncio.create_task(self._close(constraint))
        self._closing[digest].add_done_callback(lambda _: self._closing.pop(digest, None))

    async def _close(self, constraint: Constraint) -> None:
        try:
            await self._close_now(constraint, Priority.BACKGROUND)
        except (ConstraintError, Overloaded):  # nothing is lost, and a machine that is less busy may manage
            self._tried.discard(constraint.digest)

    async def _close_now(self, constraint: Constraint, priority: Priority, caller: str = NOBODY) -> dict[str, Any]:
        """Closes an index if a few seconds suffice; the worker's outcome. Raises what `compile` does."""
        job = self._job("close", constraint, closing_seconds=_CLOSE_SECONDS)
        outcome = await self.pool.run(job, priority, caller)
        stored = await asyncio.to_thread(self.files.load, constraint.digest) if outcome["closed"] else None
        if stored is not None:
            self._remember(constraint, stored.index)
        return outcome

    # --- for the routes -----------------------------------------------------------------------------------------------

    async def find(self, digest: str, caller: str = NOBODY) -> Constraint | None:
        """The constraint that has this digest, if any tier knows it. Raises what `compile` does."""
        if not is_digest(digest):
            return None
        known = self.memory.get(digest)
        if known is not None:
            return known.constraint
        stored = await asyncio.to_thread(self.files.load, digest)
        if stored is None:
            found = await self.pool.run(self._job("fetch", digest=digest), Priority.QUICK, caller)
            return None if found["constraint"] is None else Constraint.from_canonical(found["constraint"])
        return self._from_file(stored).constraint

    async def warm(self, constraint: Constraint) -> bool:
        """Compiles a constraint and closes its index, if that can be done; is it closed? Raises what `compile` does."""
        if (await self.compile(constraint)).index is None:
            self._close_later(constraint)
            closing = self._closing.get(constraint.digest)
            if closing is not None:
                await asyncio.wait({closing})
        compiled = await self.compile(constraint)
        await compiled.fewest_tokens(NOBODY)
        return compiled.index is not None

    async def describe(self, constraint: Constraint, caller: str = NOBODY) -> dict[str, Any]:
        """Compiles a constraint and says what there is to know of it. Raises what `compile` does."""
        async with self.pool.in_time():
            await self.compile(constraint, caller)
            outcome = await self._close_now(constraint, Priority.LONG, caller)
            facts = await self.pool.run(self._job("describe", constraint), Priority.LONG, caller)
        sizes = {name: outcome[name] for name in ("closed", "states", "rows", "bytes")}
        seconds = {**(self._stages.get(constraint.digest) or {}), **outcome["stages"]}
        return {"digest": constraint.digest, **sizes, **facts, "seconds": seconds}

    async def plot(self, constraint: Constraint, caller: str = NOBODY) -> str:
        """The automaton of a constraint as SVG text, as many states as a reader can take in. Raises what `compile` does."""
        job = self._job("plot", constraint, max_states=_DRAWN_STATES)
        return (await self.pool.run(job, Priority.LONG, caller))["svg"]

    async def flush(self) -> dict[str, int]:
        """Forgets every index, in all tiers; how many each had. The engine forgets its own when the next constrained request comes."""
        self._flushes += 1
        self.refusals.flush()
        self._tried.clear()
        removed = await self.pool.run(self._job("flush"), Priority.QUICK)
        await self._measure_files()
        return {MEMORY: self.memory.flush(), **removed["removed"]}

    async def _measure_files(self) -> None:
        """Looks through the folders, of which workers only tell when they have written to them."""
        await asyncio.to_thread(self.files.measure)
        self.pool.note_files(self.files.use())

    # --- use ----------------------------------------------------------------------------------------------------------

    async def _save_usage(self) -> None:
        while True:
            await asyncio.sleep(_USAGE_SECONDS)
            await asyncio.to_thread(self._usage.save)


def _bytes_kept(constraint: Constraint, index: TokenIndex | None) -> int:
    return _BYTES_OF_CHARACTER * len(constraint.canonical_text) + (0 if index is None else index.memory_bytes)


def spells_an_answer(index: TokenIndex, tokens: list[int]) -> bool:
    """Do these tokens lead from the start to where the output may end?"""
    state = index.start
    for token in tokens:
        following = index.advance(state, token)
        if following is None:
            return False
        state = following
    return index.is_accepting(state)
