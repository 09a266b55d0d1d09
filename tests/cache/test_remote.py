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

from guided.cache import Remote, RemoteOptions, Store
from guided.cache.store import DISK, REMOTE
from tests.cache.test_disk import A, closed, disk_at
from tests.redis_server import redis_server

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
    assert (remote.misses, remote.failures) == (1, 0)
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
    assert (remote.misses, remote.failures) == ((1, 0) if damage == "empty" else (0, 1))


def test_values_are_keyed(options):
    ours, theirs = Remote(replace(options, key="ours"), "g"), Remote(replace(options, key="theirs"), "g")
    theirs.put(DIGEST, DATA)
    assert ours.get(DIGEST) is None
    ours.put(DIGEST, DATA)
    assert (ours.get(DIGEST), theirs.get(DIGEST)) == (DATA, None)


def test_large_files_stay_at_home(options):
    assert not Remote(replace(options, most_bytes=100), "g").put(DIGEST, DATA)


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
    assert remote.failures >= 1 and remote.misses == 0, "an outage is no miss"


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
    first = Store(disk_at(tmp_path / "one"), Remote(options, "g"))
    first.share(A.digest, first.keep(closed(A), A))
    second = Store(disk_at(tmp_path / "two"), Remote(options, "g"))
    found = second.find(A.digest)
    assert found is not None and found.tier == REMOTE and found.stored.constraint == A
    assert second.find(A.digest).tier == DISK
    assert second.flush() == {DISK: 1, REMOTE: 1}
    assert first.find(A.digest).tier == DISK
    assert second.find(A.digest) is None
    assert second.remote_trouble() == {"misses": 1, "failures": 0}
    assert second.remote_trouble() == {"misses": 0, "failures": 0}, "since the last call"


def test_a_value_that_is_no_index_is_a_miss(options, tmp_path):
    Remote(options, "g").put(A.digest, DATA)
    store = Store(disk_at(tmp_path), Remote(options, "g"))
    assert store.find(A.digest) is None
    assert not list(tmp_path.rglob("*.index"))


def _compile_once(folder, options, compilations, start):
    store = Store(disk_at(folder), Remote(options, "g"))
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
