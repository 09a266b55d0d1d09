"""The disk tier: whole files or none, the oldest removed, and nothing that is wrong with it is anybody's error."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import time

import pytest

import guided
from guided.cache import Disk, Files, Store, generation
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.index import file
from tests.index.test_token_index import VOCABULARY


def closed(constraint: Constraint):
    index = guided.compile(constraint, VOCABULARY)
    index.close()
    return index


def disk_at(folder, **options) -> Disk:
    return Disk(folder, VOCABULARY, rebuild=lambda c: writable_network(c, VOCABULARY), **options)


def files_at(folder, **options) -> Files:
    return Files.at(folder, VOCABULARY, rebuild=lambda c: writable_network(c, VOCABULARY), **options)


@pytest.fixture
def disk(tmp_path) -> Disk:
    return disk_at(tmp_path / "indexes")


A = Constraint.regex("[ab]{1,3}")


def test_what_was_saved_is_found_by_digest(disk):
    assert disk.load(A.digest) is None
    disk.save(closed(A), A)
    stored = disk.load(A.digest)
    assert stored is not None and stored.constraint == A and stored.index.is_closed
    assert list(disk.digests()) == [A.digest]


def test_another_vocabulary_or_release_does_not_see_it(disk, monkeypatch):
    other = guided.Vocabulary.from_tokens([b"a", b"b", b""], eos_ids=[2])
    assert generation(other) != generation(VOCABULARY)
    assert generation(VOCABULARY) == generation(VOCABULARY)


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "other"])
def test_a_damaged_file_is_dropped_and_written_anew(disk, damage, caplog):
    disk.save(closed(A), A)
    path = disk.path(A.digest)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[-1] ^= 1
    elif damage == "other":
        b = Constraint.regex("b")
        data = file.to_bytes(closed(b), b)
    path.write_bytes(data[: 100 if damage == "cut" else 0 if damage == "empty" else None])
    with caplog.at_level(logging.WARNING):
        assert disk.load(A.digest) is None
    assert "dropped" in caplog.text and not path.exists()
    disk.save(closed(A), A)
    assert disk.load(A.digest) is not None


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    disk = disk_at(blocked / "indexes")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            disk.save(closed(A), A)
            assert disk.load(A.digest) is None
            with disk.alone(A.digest, 5.0):
                pass
    assert caplog.text.count("cannot be written") == 1


def _write_beyond_the_limit(folder, answer):
    """In a process of its own: no file may have more than 1 KiB, which is what a full disk does to a write."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    disk = disk_at(folder)
    written = disk.write(A.digest, bytes(100_000))
    answer.put((written, [path.name for path in folder.rglob("*") if path.is_file()]))


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    process = context.Process(target=_write_beyond_the_limit, args=(tmp_path, answer))
    process.start()
    process.join(30)
    assert answer.get() == (False, [])


def test_the_oldest_files_make_room(tmp_path):
    disk = disk_at(tmp_path, capacity_bytes=40 * 4096)
    constraints = [Constraint.choice([f"{n}"]) for n in range(60)]
    for age, constraint in enumerate(constraints):
        disk.save(closed(constraint), constraint)
        os.utime(disk.path(constraint.digest), (1_000_000 + age, 1_000_000 + age))
    on_disk = sum(512 * path.stat().st_blocks for path in tmp_path.rglob("*.index"))
    assert on_disk <= 40 * 4096
    assert disk.evictions >= 20 and disk.used_bytes is not None
    assert disk.load(constraints[-1].digest) is not None
    assert disk.load(constraints[0].digest) is None


def test_a_file_that_is_used_is_not_the_oldest(disk):
    disk.save(closed(A), A)
    os.utime(disk.path(A.digest), (1_000_000, 1_000_000))
    disk.load(A.digest)
    assert time.time() - disk.path(A.digest).stat().st_mtime < 60


def test_stamps_tell_files_apart_and_survive_use(disk):
    assert disk.stamp(A.digest) is None
    index = guided.compile(A, VOCABULARY)
    disk.save(index, A)
    first = disk.stamp(A.digest)
    os.utime(disk.path(A.digest), (1_000_000, 1_000_000))
    disk.load(A.digest)
    assert disk.stamp(A.digest) == first
    disk.path(A.digest).unlink()  # so that its inode may be used again
    index.close()
    disk.save(index, A)
    assert disk.stamp(A.digest) not in (None, first)


def test_flush(disk):
    disk.save(closed(A), A)
    assert (disk.flush(), disk.load(A.digest), disk.flush()) == (1, None, 0)


# --- one process at a time ------------------------------------------------------------------------------------------------


def _compile_once(folder, compilations, start):
    disk = disk_at(folder)
    store = Store(Files(disk))
    start.wait(30)
    with store.alone(A.digest, 20.0):
        if store.find(A.digest) is None:
            with compilations.get_lock():
                compilations.value += 1
            time.sleep(0.1)
            store.keep(closed(A), A)


def test_processes_that_start_together_compile_once(tmp_path):
    context = multiprocessing.get_context("fork")
    compilations, start = context.Value("i", 0), context.Event()
    processes = [
        context.Process(target=_compile_once, args=(tmp_path / "indexes", compilations, start)) for _ in range(6)
    ]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert compilations.value == 1
    assert not list(tmp_path.rglob("*.lock")), "locks are not left behind"


def _die_holding(folder, holding):
    with disk_at(folder).alone(A.digest, 5.0):
        holding.set()
        time.sleep(60)


def test_a_lock_dies_with_its_owner(tmp_path):
    context = multiprocessing.get_context("fork")
    holding = context.Event()
    process = context.Process(target=_die_holding, args=(tmp_path, holding))
    process.start()
    assert holding.wait(30)
    process.kill()
    process.join()
    begin = time.monotonic()
    with disk_at(tmp_path).alone(A.digest, 30.0):
        waited = time.monotonic() - begin
    assert waited < 29, "patience was not what ended the waiting"


def test_who_waited_long_enough_goes_on(tmp_path):
    with disk_at(tmp_path).alone(A.digest, 5.0), disk_at(tmp_path).alone(A.digest, 0.1):
        pass
