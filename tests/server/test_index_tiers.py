"""Where the service finds an index again: in memory, on disk, after a restart; and what it does where there is no disk."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from guided.cache import spare_folder
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.vllm_adapters.index_store import IndexStore
from guided.vllm_adapters.params import from_extra_args, to_extra_args
from guided.workers import Overloaded
from server.callers import overloaded
from server.compile_service import CompileService, NoRoom
from tests.index.test_token_index import VOCABULARY
from tests.server.live_service import Live, choice, live
from tests.workers.live_pool import kill_workers, loop
from tests.workers.test_pool import RECURSIVE, tokens

__all__ = ["live", "loop"]


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
    with caplog.at_level(logging.WARNING, "server.compile_service"):
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


def test_found_by_digest(live):
    constraint = choice("by digest")
    assert live.wait(live.service.find(constraint.digest)) is None
    live.compile(constraint)
    assert live.wait(live.service.find(constraint.digest)) == constraint
    live.service.memory.flush()
    assert live.wait(live.service.find(constraint.digest)) == constraint
    for name in ("", "../../etc/passwd", "AB" * 32, "a" * 63):
        assert live.wait(live.service.find(name)) is None


def test_flush(live):
    live.compile(choice("flushed"))
    removed = live.wait(live.service.flush())
    assert removed["memory"] >= 1 and removed["disk"] >= 1
    compiled = live.service.tally.found["compiled"]
    live.compile(choice("flushed"))
    assert live.service.tally.found["compiled"] == compiled + 1


def test_what_was_compiled_after_a_flush_says_so(live):
    before = live.compile(choice("flushes")).flushes
    live.wait(live.service.flush())
    assert live.compile(choice("flushes")).flushes == before + 1


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


def test_who_waits_for_a_slow_disk_holds_up_nobody_else(live, monkeypatch):
    compiled, answers = live.compile(choice("slow disk")), threading.Event()
    touch = live.service.files.touch
    monkeypatch.setattr(live.service.files, "touch", lambda digest: answers.wait(60) and touch(digest))

    async def beside(asked: Coroutine[Any, Any, Any]) -> Any:
        answers.clear()
        waiting = asyncio.create_task(asked)
        await asyncio.sleep(0.01)
        answers.set()  # if the event loop gets here while the disk does not answer; else the file counts as gone
        return await waiting

    assert live.wait(beside(live.service.compile(compiled.constraint))) is compiled
    assert live.wait(beside(compiled.explore([], ""))) is False


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
