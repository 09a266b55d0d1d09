"""The engine's indexes: mapped from the files that workers wrote, exchanged when these are, and never built where it would take long."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import guided
from guided.cache import Disk, Remote, RemoteOptions, Store, generation
from guided.compiler import writable_network
from guided.constraint import Constraint
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


def params(constraint: Constraint, *, may_break_off: bool = True):
    return from_extra_args(to_extra_args(None, constraint, "req", may_break_off=may_break_off))


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


def test_without_a_file_it_is_compiled_with_one_warning(store, caplog):
    with caplog.at_level(logging.WARNING):
        assert store.get(params(SMALL)).is_closed
        store.get(params(Constraint.regex("ba")))
    assert caplog.text.count("has no index file") == 1


def test_on_another_host_it_comes_from_what_hosts_share(tmp_path, monkeypatch, caplog):
    """The rank of another node: nothing on its disk, and the batch waits while it compiles."""
    with redis_server(tmp_path) as server:
        options = RemoteOptions(server.url, timeout_seconds=0.5)
        index = guided.compile(SMALL, VOCABULARY)
        index.close()
        gateway = Store(Disk(tmp_path / "leader", VOCABULARY), Remote(options, generation(VOCABULARY)))
        gateway.share(SMALL.digest, gateway.keep(index, SMALL))
        monkeypatch.setenv("_GUIDED_REMOTE_CACHE", "")  # and so again afterwards
        assert RemoteOptions.left() is None
        options.leave()
        rank = IndexStore(VOCABULARY, folder=tmp_path / "rank", remote=RemoteOptions.left())
        with monkeypatch.context() as patched:
            patched.setattr("guided.vllm_adapters.index_store.compile", None)  # nothing is compiled here
            found = rank.get(params(SMALL))
        assert found.is_closed and rank.get(params(SMALL)) is found
        assert Disk(tmp_path / "rank", VOCABULARY).load(SMALL.digest) is not None, "for other ranks of its node"
        server.kill()
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
