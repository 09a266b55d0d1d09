"""The remote tier against a real Redis: what comes back is what was written, and any trouble is a miss within its timeout."""

from __future__ import annotations

import logging
import multiprocessing
import shutil
import subprocess
import time
from dataclasses import replace

import pytest
import redis

from guided.cache import DISK, REMOTE, Remote, RemoteOptions, Store
from guided.limits import Limits
from guided.workers.jobs import Jobs
from tests.cache.test_disk import A, closed, files_at
from tests.index.test_token_index import VOCABULARY
from tests.redis_server import redis_server
from tests.workers.live_pool import job

DIGEST = "ab" * 32
DATA = bytes(range(256)) * 500


@pytest.fixture
def server(tmp_path):
    with redis_server(tmp_path) as running:
        yield running


@pytest.fixture
def options(server) -> RemoteOptions:
    return RemoteOptions(server.url, timeout_seconds=0.5)


def test_what_was_put_comes_back_compressed_and_with_an_end(server, options):
    remote = Remote(options, "g1")
    assert remote.get(DIGEST) is None
    assert (remote.counts["misses"], remote.counts["failures"]) == (1, 0)
    assert remote.put(DIGEST, DATA)
    assert Remote(options, "g1").get(DIGEST) == DATA
    assert Remote(options, "g2").get(DIGEST) is None, "another generation"
    raw = redis.Redis.from_url(server.url)
    name = f"guided:g1:{DIGEST}"
    assert raw.strlen(name) < len(DATA) / 4
    assert 0 < raw.ttl(name) <= options.ttl_seconds


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "bomb"])
def test_what_is_not_ours_is_a_miss(server, options, damage, caplog):
    remote = Remote(options, "g")
    remote.put(DIGEST, DATA)
    raw, name = redis.Redis.from_url(server.url), f"guided:g:{DIGEST}"
    value = bytearray(raw.get(name))
    if damage == "flipped":
        value[-1] ^= 1
    if damage == "bomb":  # a length that would fill the memory, rightly signed
        value = bytearray(value[:32] + (1 << 60).to_bytes(8, "little") + value[40:])
        value[:32] = remote._signature(bytes(value[32:]))
    raw.set(name, {"cut": bytes(value[:60]), "empty": b"", "text": b"pickle?"}.get(damage, bytes(value)))
    assert remote.get(DIGEST) is None
    assert (remote.counts["misses"], remote.counts["failures"]) == ((1, 0) if damage == "empty" else (0, 1))
    assert remote.put(DIGEST, DATA) and Remote(options, "g").get(DIGEST) == DATA, "it is written anew"


def test_values_are_keyed(options):
    ours, theirs = Remote(replace(options, key="ours"), "g"), Remote(replace(options, key="theirs"), "g")
    theirs.put(DIGEST, DATA)
    assert ours.get(DIGEST) is None
    ours.put(DIGEST, DATA)
    assert (ours.get(DIGEST), theirs.get(DIGEST)) == (DATA, None)


def test_large_files_stay_at_home_and_are_counted(options):
    remote = Remote(replace(options, most_bytes=100), "g")
    assert not remote.put(DIGEST, DATA)
    assert remote.counts == {"too_large": 1}


def test_what_is_there_is_not_sent_again_and_lives_on(server, options):
    first, second = Remote(options, "g"), Remote(replace(options, ttl_seconds=2 * options.ttl_seconds), "g")
    assert first.put(DIGEST, DATA)
    raw = redis.Redis.from_url(server.url)
    received = raw.info("stats")["total_net_input_bytes"]
    assert second.put(DIGEST, DATA)
    assert second.counts == {"there": 1}
    assert raw.info("stats")["total_net_input_bytes"] - received < raw.strlen(f"guided:g:{DIGEST}") / 2
    assert raw.ttl(f"guided:g:{DIGEST}") > options.ttl_seconds
    other = DATA[::-1]
    assert second.put(DIGEST, other) and second.counts["written"] == 1, "an index that has grown is another file"
    assert first.get(DIGEST) == other


def test_flush_takes_its_generation_only(options):
    one, two = Remote(options, "one"), Remote(options, "two")
    for remote in (one, two):
        remote.put(DIGEST, DATA)
    assert (one.flush(), one.get(DIGEST), two.get(DIGEST)) == (1, None, DATA)


def test_a_server_that_says_nothing_costs_its_timeout_once(server, options, caplog):
    remote = Remote(replace(options, timeout_seconds=0.05), "g")
    remote.put(DIGEST, DATA)
    server.pause()
    with caplog.at_level(logging.WARNING):
        begin = time.monotonic()
        assert [remote.get(DIGEST) for _ in range(50)] == [None] * 50
        elapsed = time.monotonic() - begin
    assert elapsed < 50 * 0.05, "it was asked again and again"
    assert caplog.text.count("does not answer") == 1
    assert remote.counts["failures"] >= 1 and remote.counts["misses"] == 0, "an outage is no miss"


def test_a_server_that_is_killed_and_comes_back(server, options, monkeypatch):
    remote = Remote(options, "g")
    assert remote.put(DIGEST, DATA)
    server.kill()
    assert not remote.put(DIGEST, DATA)
    assert remote.get(DIGEST) is None
    with remote.alone(DIGEST, 5.0) as waited:
        assert not waited


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense", "redis://no.such.host.invalid:6379/0"])
def test_an_address_where_nobody_is(url):
    assert Remote(RemoteOptions(url), "g").get(DIGEST) is None


def test_password(tmp_path):
    with redis_server(tmp_path, "--requirepass", "open sesame") as server:
        options = RemoteOptions(server.url, timeout_seconds=0.5)
        assert not Remote(options, "g").put(DIGEST, DATA)
        known = replace(options, password="open sesame")
        assert Remote(known, "g").put(DIGEST, DATA) and Remote(known, "g").get(DIGEST) == DATA


def test_tls(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    with redis_server(tmp_path, tls=(certificate, key)) as server:
        options = RemoteOptions(server.url, timeout_seconds=1.0)
        assert not Remote(options, "g").put(DIGEST, DATA), "its certificate is not known"
        known = replace(options, ca_file=str(certificate))
        assert Remote(known, "g").put(DIGEST, DATA) and Remote(known, "g").get(DIGEST) == DATA


# --- with the disk --------------------------------------------------------------------------------------------------------


def test_a_second_replica_compiles_nothing(options, tmp_path):
    first = Store(files_at(tmp_path / "one"), Remote(options, "g"))
    first.share(A.digest, first.keep(closed(A), A))
    second = Store(files_at(tmp_path / "two"), Remote(options, "g"))
    found = second.find(A.digest)
    assert found is not None and found.tier == REMOTE and found.stored.constraint == A
    assert second.find(A.digest).tier == DISK
    assert second.flush() == {DISK: 1, REMOTE: 1}
    assert first.find(A.digest).tier == DISK
    assert second.find(A.digest) is None
    assert second.remote_use() == {"misses": 1}
    assert second.remote_use() == {}, "since the last call"


@pytest.mark.parametrize("first", [True, False])
def test_what_ranks_of_other_hosts_look_for_is_shared_before_anybody_hears_of_it(options, tmp_path, first):
    jobs = Jobs(VOCABULARY, Store(files_at(tmp_path), Remote(options, "g")), Limits(), shares_first=first)
    elsewhere = Store(files_at(tmp_path / "elsewhere"), Remote(options, "g"))
    running = jobs.run(job(A))
    assert next(running)["tier"] == "compiled"
    assert (elsewhere.find(A.digest) is not None) is first
    assert list(running) == [] and elsewhere.find(A.digest) is not None


def test_a_value_that_is_no_index_is_a_miss(options, tmp_path):
    Remote(options, "g").put(A.digest, DATA)
    store = Store(files_at(tmp_path), Remote(options, "g"))
    assert store.find(A.digest) is None
    assert not list(tmp_path.rglob("*.index"))


def _compile_once(folder, options, compilations, start):
    store = Store(files_at(folder), Remote(options, "g"))
    start.wait(30)
    with store.alone(A.digest, 20.0):
        if store.find(A.digest) is None:
            with compilations.get_lock():
                compilations.value += 1
            time.sleep(0.2)
            store.share(A.digest, store.keep(closed(A), A))


def test_replicas_that_start_together_compile_once(options, tmp_path):
    context = multiprocessing.get_context("fork")
    compilations, start = context.Value("i", 0), context.Event()
    replicas = [
        context.Process(target=_compile_once, args=(tmp_path / f"{n}", options, compilations, start)) for n in range(4)
    ]
    for replica in replicas:
        replica.start()
    start.set()
    for replica in replicas:
        replica.join(60)
        assert replica.exitcode == 0
    assert compilations.value == 1


def test_a_replica_that_dies_while_compiling_is_not_waited_for(options, tmp_path):
    dead, alive = Remote(options, "g"), Remote(options, "g")
    holding = dead.alone(DIGEST, 0.3)
    holding.__enter__()  # and never leaves
    with alive.alone(DIGEST, 10.0) as waited:
        assert waited
