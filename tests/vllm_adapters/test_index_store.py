"""The engine's indexes: mapped from the files that workers wrote, exchanged when these are, and never built where it would take long."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import guided
from guided.cache import Disk, Files, Remote, RemoteOptions, Spare, Store, generation, spare_folder
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.limits import Budget, Limits
from guided.vllm_adapters.index_store import BrokenOff, IndexStore
from guided.vllm_adapters.params import from_extra_args, to_extra_args
from guided.workers.jobs import explore
from tests.index.test_token_index import VOCABULARY
from tests.redis_server import redis_server

SMALL = Constraint.regex("[ab]{1,4}")
LARGE = Constraint.json_schema(  # more than 16,000 characters, rules that are built late
    {
        "properties": {f"ab{n:04}": {"type": "integer", "description": "x" * 40} for n in range(300)},
        "type": "object",
        "minProperties": 3,
    }
)


def params(constraint: Constraint, *, may_break_off: bool = True, flushes: int = 0):
    return from_extra_args(to_extra_args(None, constraint, "req", may_break_off=may_break_off, flushes=flushes))


@pytest.fixture
def disk(tmp_path) -> Disk:
    return Disk(tmp_path, VOCABULARY, rebuild=lambda c: writable_network(c, VOCABULARY))


@pytest.fixture
def store(tmp_path) -> IndexStore:
    return IndexStore(VOCABULARY, folder=tmp_path)


def test_an_index_comes_from_its_file(disk, store, monkeypatch):
    index = guided.compile(SMALL, VOCABULARY)
    index.close()
    disk.save(index, SMALL)
    monkeypatch.setattr("guided.vllm_adapters.index_store.compile", None)  # nothing is compiled here
    found = store.get(params(SMALL))
    assert found.is_closed and found.num_states == index.num_states
    assert store.get(params(SMALL)) is found


def test_without_a_file_the_request_goes_on_elsewhere_and_the_batch_does_not_wait(store, disk, monkeypatch):
    monkeypatch.setattr("guided.vllm_adapters.index_store.compile", None)  # nothing is compiled here
    for constraint in (SMALL, LARGE):
        with pytest.raises(BrokenOff):
            store.get(params(constraint))
    index = guided.compile(SMALL, VOCABULARY)
    index.close()
    disk.save(index, SMALL)  # by a worker, on the gateway's request
    assert store.get(params(SMALL)).is_closed


def test_what_cannot_go_on_elsewhere_is_compiled_if_that_is_a_matter_of_a_moment(store, monkeypatch):
    assert store.get(params(SMALL, may_break_off=False)).is_closed
    with pytest.raises(LimitExceeded, match="gone"):
        store.get(params(LARGE, may_break_off=False))
    monkeypatch.setattr("guided.vllm_adapters.index_store._COMPILING", Limits(seconds=-1.0))  # a moment is over
    with pytest.raises(LimitExceeded, match="seconds"):
        store.get(params(Constraint.regex("ba"), may_break_off=False))


def test_what_the_disk_does_not_take_comes_from_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("guided.vllm_adapters.index_store.compile", None)  # nothing is compiled here
    (tmp_path / "file").write_text("in the way")
    with spare_folder(1 << 20, [tmp_path]) as spare:
        index = guided.compile(SMALL, VOCABULARY)
        index.close()
        worker = Files.at(tmp_path / "file" / "indexes", VOCABULARY, spare=spare)
        worker.save(index, SMALL)
        engine = IndexStore(VOCABULARY, folder=tmp_path / "file" / "indexes", spare=Spare.left())
        assert engine.get(params(SMALL)).num_states == index.num_states


def test_a_flush_reaches_what_is_kept(disk, store):
    index = guided.compile(SMALL, VOCABULARY)
    index.close()
    disk.save(index, SMALL)
    found = store.get(params(SMALL))
    disk.flush()
    assert store.get(params(SMALL)) is found
    with pytest.raises(BrokenOff):
        store.get(params(SMALL, flushes=1))
    disk.save(index, SMALL)
    anew = store.get(params(SMALL, flushes=1))
    assert anew is not found and store.get(params(SMALL, flushes=1)) is anew
    assert store.get(params(SMALL)) is anew, "a request from before the flush forgets nothing"


def test_on_another_host_it_comes_from_what_hosts_share(tmp_path, monkeypatch, caplog):
    """The rank of another node: nothing on its disk, and the batch waits while it compiles."""
    with redis_server(tmp_path) as server:
        options = RemoteOptions(server.url, timeout_seconds=0.5)
        index = guided.compile(SMALL, VOCABULARY)
        index.close()
        gateway = Store(Files.at(tmp_path / "leader", VOCABULARY), Remote(options, generation(VOCABULARY)))
        gateway.share(SMALL.digest, gateway.keep(index, SMALL))
        monkeypatch.setenv("_GUIDED_REMOTE_CACHE", "")  # and so again afterwards
        assert RemoteOptions.left() is None
        options.leave()
        rank = IndexStore(VOCABULARY, folder=tmp_path / "rank", remote=RemoteOptions.left(), compiles_at_need=True)
        with monkeypatch.context() as patched:
            patched.setattr("guided.vllm_adapters.index_store.compile", None)  # nothing is compiled here
            found = rank.get(params(SMALL))
        assert found.is_closed and rank.get(params(SMALL)) is found
        assert Disk(tmp_path / "rank", VOCABULARY).load(SMALL.digest) is not None, "for other ranks of its node"
        server.kill()
        with caplog.at_level(logging.WARNING):
            assert rank.get(params(Constraint.regex("ba"))).is_closed
        assert "has no index file" in caplog.text


def test_a_file_that_was_written_anew_is_read_anew(disk, store):
    index = guided.compile(SMALL, VOCABULARY)
    disk.save(index, SMALL)
    growing = store.get(params(SMALL))
    assert not growing.is_closed and store.get(params(SMALL)) is growing
    index.close()
    disk.save(index, SMALL)
    assert store.get(params(SMALL)).is_closed
    assert not growing.is_closed, "who uses the old one keeps it"


def walk(index, steps: int) -> list[int]:
    """One random answer, always the same, that comes to rules which nobody built."""
    state, tokens, source = index.start, [], np.random.default_rng(1)
    for _ in range(steps):
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little"))
        if not allowed.size:
            break
        tokens.append(int(source.choice(allowed)))
        state = index.advance(state, tokens[-1])
    return tokens


def test_a_large_index_that_ends_breaks_off_and_goes_on_when_it_was_explored(disk, store):
    index = guided.compile(LARGE, VOCABULARY)
    disk.save(index, LARGE)
    expected = walk(guided.compile(LARGE, VOCABULARY), 40)
    assert len(expected) > 10
    written: list[int] = []
    for _ in range(60):  # as gateway, worker and engine take turns
        here = store.get(params(LARGE))
        try:
            state = here.start
            for token in written:
                state = here.advance(state, token)
            while len(written) < len(expected):
                assert here.mask(state).any()
                written.append(expected[len(written)])  # sampled, before anybody knows where it leads
                state = here.advance(state, written[-1])
            break
        except BrokenOff:
            stored = disk.load(LARGE.digest, Budget(Limits(seconds=60)))
            assert stored is not None
            state = stored.index.start
            for token in written:
                state = stored.index.advance(state, token)
            explore(stored.index, state, 0.0)
            disk.save(stored.index, LARGE)
    else:
        pytest.fail("no end")
    assert written == expected


def test_a_request_that_may_not_be_broken_off_waits(disk, store):
    disk.save(guided.compile(LARGE, VOCABULARY), LARGE)
    with pytest.raises(BrokenOff):
        walk(store.get(params(LARGE)), 40)
    assert walk(store.get(params(LARGE, may_break_off=False)), 40) == walk(guided.compile(LARGE, VOCABULARY), 40)
