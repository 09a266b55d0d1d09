"""Constraints through the service and real workers: compiled once, found again after a restart, refused, given up, flushed."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import server.compile_service as module
from guided.cache import Files, spare_folder
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.errors import InvalidConstraint, LimitExceeded
from guided.limits import Limits
from guided.vllm_adapters.index_store import IndexStore
from guided.vllm_adapters.params import from_extra_args, to_extra_args
from guided.workers import Overloaded, Pool, PoolOptions, Priority
from server.callers import overloaded
from server.compile_service import CompileService, NoRoom, spells_an_answer
from server.refusals import Refusals
from tests.index.test_token_index import VOCABULARY
from tests.server.fakes import TextIndex, tokens_of
from tests.workers.live_pool import kill_workers, loop
from tests.workers.test_pool import EXPLOSION, RECURSIVE, tokens

__all__ = ["loop"]


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


def test_those_who_ask_together_share_one_compilation(live):
    async def ask() -> list:
        return await asyncio.gather(*(live.service.compile(choice("together")) for _ in range(20)))

    before = live.service.tally.found["compiled"]
    answers = live.wait(ask())
    assert live.service.tally.found["compiled"] == before + 1
    assert all(answer is answers[0] for answer in answers)
    assert answers[0].index.is_closed and live.wait(answers[0].fewest_tokens("")) == answers[0].index.min_tokens(0)


def test_the_event_loop_goes_on(live):
    async def ask() -> int:
        waiting = asyncio.create_task(live.service.compile(choice(*(f"{n:05}" for n in range(3000)))))
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await waiting
        return ticks

    assert live.wait(ask()) > 10


def test_a_restart_is_warm(live):
    constraint = choice("warm", "warmer")
    for _ in range(3):
        live.compile(constraint)
    service = live.restart()
    assert service.memory.get(constraint.digest) is not None, "used in the last run: in memory before anybody asks"
    assert service.tally.found["compiled"] == 0
    hits = service.memory.hits
    assert live.compile(constraint).constraint == constraint
    assert service.memory.hits == hits + 1


def test_after_a_restart_the_shortest_answer_is_known_before_anybody_asks(live, monkeypatch):
    live.compile(RECURSIVE)
    service = live.restart()
    compiled = service.memory.peek(RECURSIVE.digest)
    assert compiled is not None and compiled.index is None
    live.wait(asyncio.wait(service._tasks[1:]))
    monkeypatch.setattr(service.pool, "run", None)  # nobody is asked any more
    assert live.wait(compiled.fewest_tokens("")) == 1


@pytest.mark.parametrize("error", [LimitExceeded("it died twice", limit="worker"), Overloaded("too many", 1)], ids=str)
def test_what_cannot_be_warmed_keeps_no_server_from_starting(live, monkeypatch, caplog, error):
    lost, kept = choice("lost"), choice("kept")
    for constraint in (lost, lost, kept):
        live.compile(constraint)
    find = CompileService.find

    async def unlucky(service: CompileService, digest: str, caller: str = "") -> Constraint | None:
        if digest == lost.digest:
            raise error
        return await find(service, digest, caller)

    monkeypatch.setattr(CompileService, "find", unlucky)
    service = live.restart()
    assert kept.digest in service.memory and lost.digest not in service.memory
    assert lost.digest in caplog.text and str(error) in caplog.text


def test_memory_is_bounded_and_the_disk_is_behind_it(live):
    service = live.service
    capacity, service.memory.capacity_bytes = service.memory.capacity_bytes, 1 << 20
    try:
        constraints = [choice(f"bounded {n}") for n in range(8)]
        for constraint in constraints:
            live.compile(constraint)
        assert service.memory.used_bytes <= 1 << 20 and service.memory.evictions > 0
        compiled = service.tally.found["compiled"]
        live.compile(constraints[0])
        assert service.tally.found["compiled"] == compiled
    finally:
        service.memory.capacity_bytes = capacity


def test_what_memory_drops_is_gone_at_once(live):
    """Not when the garbage collector comes by, which is seldom: indexes are large."""
    dropped = weakref.ref(live.compile(choice("dropped")).index)
    gc.collect()
    gc.disable()
    try:
        live.service.memory.drop(choice("dropped").digest)
        assert dropped() is None
    finally:
        gc.enable()


def test_refusals_are_remembered_for_what_they_say(live):
    bad = Constraint.regex("(")
    for _ in range(3):
        with pytest.raises(InvalidConstraint, match="column 1"):
            live.compile(bad)
    assert live.service.tally.refusals["invalid_constraint"] == 1, "the second and third did not reach a worker"


def test_what_is_not_quick_gets_a_second_longer_attempt(live, monkeypatch):
    monkeypatch.setattr(module, "_QUICK_SECONDS", -1.0)  # over before it begins
    constraint = Constraint.json_schema({"properties": {f"p{n}": {"type": "integer"} for n in range(50)}})
    with pytest.raises(LimitExceeded) as caught:
        quick = live.service._job("compile", constraint, seconds=-1.0)
        live.wait(live.service.pool.run(quick, Priority.QUICK))
    assert caught.value.limit == "seconds"
    assert live.compile(constraint).constraint == constraint


@pytest.mark.parametrize(
    ("error", "remembered"),
    [
        (InvalidConstraint("no", column=3, source="abcdef"), True),
        (LimitExceeded("too many", limit="states"), True),
        (LimitExceeded("too slow", limit="seconds"), False),
        (LimitExceeded("too slow", limit="wall_seconds"), False),
        (LimitExceeded("too large", limit="memory_bytes"), False),
        (LimitExceeded("died", limit="worker"), False),
    ],
)
def test_which_refusals_are_remembered(error, remembered, monkeypatch):
    refusals = Refusals()
    refusals.remember("digest", error)
    if remembered:
        with pytest.raises(type(error)) as caught:
            refusals.raise_known("digest")
        assert caught.value.describe() == error.describe()
        later = SimpleNamespace(monotonic=lambda: float("inf"))  # the minute is over; for other threads it is not
        monkeypatch.setattr("server.refusals.time", later)
    refusals.raise_known("digest")


def test_who_leaves_takes_the_compilation_along_but_not_the_others(live):
    async def leave() -> Any:
        leaving = asyncio.create_task(live.service.compile(choice("left")))
        staying = asyncio.create_task(live.service.compile(choice("left")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert live.wait(leave()).constraint == choice("left")

    async def all_leave() -> None:
        leaving = asyncio.create_task(live.service.compile(choice("all left")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert choice("all left").digest not in live.service._flights

    live.wait(all_leave())
    assert live.compile(choice("all left")).index is not None


def test_an_index_that_grows_is_used_and_checked_by_workers(live):
    compiled = live.compile(RECURSIVE)
    assert compiled.index is None and live.wait(compiled.fewest_tokens("")) is not None
    for text, complete in [("(x)", True), ("(x", False), ("y", False)]:
        assert live.wait(compiled.satisfied_by(tokens(text), "")) is complete


@pytest.fixture
def asked(live, monkeypatch) -> list[tuple[str, Priority, str]]:
    """The jobs that the pool is given: kind, priority and caller."""
    jobs: list[tuple[str, Priority, str]] = []
    run = live.service.pool.run

    async def noted(job: dict[str, Any], priority: Priority, caller: str = "") -> dict[str, Any]:
        jobs.append((job["kind"], priority, caller))
        return await run(job, priority, caller)

    monkeypatch.setattr(live.service.pool, "run", noted)
    return jobs


def test_the_shortest_answer_is_looked_for_once_and_in_its_callers_turn(live, asked):
    compiled = live.compile(Constraint.grammar('start: "(" start ")" | "abb"'))
    asked.clear()

    async def together() -> list[int | None]:
        return await asyncio.gather(*(compiled.fewest_tokens(f"caller {n}") for n in range(20)))

    assert len(set(live.wait(together()))) == 1
    assert live.wait(compiled.fewest_tokens("later")) is not None
    assert asked == [("fewest", Priority.QUICK, "caller 0")]
    assert live.wait(compiled.satisfied_by(tokens("(abb"), "somebody")) is False
    assert asked[1:] == [("check", Priority.CHECK, "somebody")]


def test_that_the_shortest_answer_is_not_found_is_remembered_for_a_while(live, asked, monkeypatch):
    compiled = live.compile(Constraint.grammar('start: "(" start ")" | "aab"'))
    asked.clear()
    run = live.service.pool.run

    async def too_slow(job: dict[str, Any], priority: Priority, caller: str = "") -> dict[str, Any]:
        found = await run(job, priority, caller)
        if job["kind"] == "fewest":
            raise LimitExceeded("too slow", limit="seconds")
        return found

    monkeypatch.setattr(live.service.pool, "run", too_slow)
    for _ in range(3):
        assert live.wait(compiled.fewest_tokens("a")) is None
    assert asked == [("fewest", Priority.QUICK, "a"), ("fewest", Priority.LONG, "a")]
    monkeypatch.setattr(module, "_UNKNOWN_SECONDS", 0.0)
    live.service.memory.flush()
    compiled = live.compile(compiled.constraint)
    asked.clear()
    for _ in range(2):
        assert live.wait(compiled.fewest_tokens("a")) is None
    assert [kind for kind, _, _ in asked] == ["fewest"] * 4, "the while is over"


def test_what_needs_longer_is_closed_with_nobody_waiting(live):
    wide = Constraint.regex("[ab]{2,400}c")
    live.service._close_seconds, before = 0.0, live.service._close_seconds
    try:
        assert live.compile(wide).index is None
        assert live.wait(live.service.warm(wide))
        assert live.compile(wide).index is not None
        assert not live.wait(live.service.warm(EXPLOSION)), "5,000 states are not enough: it goes on growing"
    finally:
        live.service._close_seconds = before


def test_found_by_digest(live):
    constraint = choice("by digest")
    assert live.wait(live.service.find(constraint.digest)) is None
    live.compile(constraint)
    assert live.wait(live.service.find(constraint.digest)) == constraint
    live.service.memory.flush()
    assert live.wait(live.service.find(constraint.digest)) == constraint
    for name in ("", "../../etc/passwd", "AB" * 32, "a" * 63):
        assert live.wait(live.service.find(name)) is None


def test_describe(live):
    facts = live.wait(live.service.describe(Constraint.regex("[ab]{1,3}")))
    assert facts["closed"] and facts["digest"] == Constraint.regex("[ab]{1,3}").digest
    assert (facts["fewest_tokens"], facts["most_tokens"]) == (1, 3)


def test_flush(live):
    live.compile(choice("flushed"))
    removed = live.wait(live.service.flush())
    assert removed["memory"] >= 1 and removed["disk"] >= 1
    compiled = live.service.tally.found["compiled"]
    live.compile(choice("flushed"))
    assert live.service.tally.found["compiled"] == compiled + 1


def test_a_full_queue_is_overload(loop, tmp_path):
    small = Live(loop, tmp_path, queued=2)
    small.start()
    try:

        async def storm() -> list:
            asked = (small.service.compile(choice(f"{n}"), f"caller {n}") for n in range(12))
            return await asyncio.gather(*asked, return_exceptions=True)

        answers = small.wait(storm())
        refused = [a for a in answers if isinstance(a, Overloaded)]
        assert refused and all(a.retry_seconds >= 1 for a in refused)
        assert len(refused) < 12
    finally:
        small.wait(small.service.close())


def test_a_file_that_is_gone_is_there_again_before_the_engine_is_asked(live):
    """Evicted, or removed by hand: the engine may not have read it yet."""
    for constraint in (choice("evicted"), RECURSIVE):
        compiled = live.compile(constraint)
        assert live.compile(constraint) is compiled
        live.service.files.disk.remove(constraint.digest)
        anew = live.compile(constraint)
        assert anew is not compiled and live.service.files.touch(constraint.digest)


def test_an_answer_whose_file_went_away_before_the_engine_read_it_goes_on(live):
    compiled = live.compile(choice("went away"))
    assert not live.wait(compiled.explore([], "")), "its file is there: that is not why it ended"
    live.service.files.disk.remove(compiled.constraint.digest)

    async def two_answers() -> list[bool]:
        return [await compiled.explore([], ""), await compiled.explore([], "")]

    assert live.wait(two_answers()) == [True, True]
    assert live.service.files.touch(compiled.constraint.digest)


def test_what_was_compiled_after_a_flush_says_so(live):
    before = live.compile(choice("flushes")).flushes
    live.wait(live.service.flush())
    assert live.compile(choice("flushes")).flushes == before + 1


@pytest.fixture(params=["blocked", "disabled", "small"])
def without_a_disk(request, loop, tmp_path) -> Iterator[Live]:
    """A service whose disk takes nothing; what is compiled goes to memory."""
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / ("file" if request.param == "blocked" else "folder") / "indexes"
    disk_bytes = {"blocked": 1 << 30, "disabled": 0, "small": 100}[request.param]
    with spare_folder(64 << 20, [tmp_path]) as spare:
        made = Live(loop, folder, disk_bytes=disk_bytes, spare=spare)
        made.start()
        yield made
        made.wait(made.service.close())


def test_trouble_with_the_disk_is_one_warning_whichever_workers_have_it(loop, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with spare_folder(64 << 20, [tmp_path]) as spare, caplog.at_level(logging.WARNING, "guided.workers.pool"):
        bare = Live(loop, tmp_path / "file" / "indexes", spare=spare)
        bare.start()
        pool = bare.service.pool
        try:
            for number in range(4):
                bare.compile(choice(f"{number}"))
                while pool.busy:  # the worker says after its outcome what it noticed
                    time.sleep(0.01)
                kill_workers(pool)
        finally:
            bare.wait(bare.service.close())
    told = [record for record in caplog.records if record.name == "guided.workers.pool"]
    assert len(told) == 1 and "work goes on without it" in told[0].message


def test_without_a_disk_it_is_compiled_once_and_the_engine_has_a_file(without_a_disk):
    bare = without_a_disk
    for constraint in (choice("ok"), RECURSIVE):
        bare.compile(constraint)
        bare.service.memory.flush()
        compiled = bare.compile(constraint)
        assert compiled.found == "disk", "one tier with the folder in memory"
        engine = IndexStore(VOCABULARY, folder=bare.service.files.disk.folder, spare=bare.service.pool.options.spare)
        params = from_extra_args(to_extra_args(None, constraint, "req", may_break_off=True))
        assert engine.get(params).is_closed == (compiled.index is not None)
    assert bare.service.tally.found["compiled"] == 2
    assert bare.wait(compiled.satisfied_by(tokens("(x)"), ""))
    assert not bare.wait(compiled.satisfied_by(tokens("(x"), ""))
    assert bare.wait(bare.service.flush())["spare"] == 2


def test_where_nothing_takes_the_file_the_request_is_refused_for_now(loop, tmp_path):
    (tmp_path / "file").write_text("in the way")
    bare = Live(loop, tmp_path / "file" / "indexes")
    bare.start()
    try:
        with pytest.raises(NoRoom) as caught:
            bare.compile(choice("ok"))
        refused = overloaded(caught.value)
        assert (refused.status, refused.code) == (503, "no_room_for_index")
    finally:
        bare.wait(bare.service.close())


def test_a_file_that_no_folder_would_ever_take_is_too_complex(loop, tmp_path):
    with spare_folder(2048, [tmp_path]) as spare:
        bare = Live(loop, tmp_path / "indexes", disk_bytes=0, spare=spare)
        bare.start()
        try:
            with pytest.raises(LimitExceeded, match="bytes") as caught:
                bare.compile(choice(*(f"{n:05}" for n in range(3000))))
            assert caught.value.limit == "file_bytes"
        finally:
            bare.wait(bare.service.close())


@pytest.mark.parametrize(("text", "complete"), [("ok", True), ("o", False), ("", False), ("okk", False), ("no", False)])
def test_spells_an_answer(text, complete):
    assert spells_an_answer(TextIndex("ok"), tokens_of(text)) is complete  # type: ignore[arg-type]
