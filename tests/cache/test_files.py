"""The files of a host: what the disk does not take is in memory, for the processes of one server and as long as that lives."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

import guided
from guided.cache import DISK, SPARE, Spare, spare_folder
from guided.constraint import Constraint
from guided.index import file
from tests.cache.test_disk import A, closed, files_at
from tests.index.test_token_index import VOCABULARY


@pytest.fixture
def spare(tmp_path):
    base = tmp_path / "shm"
    base.mkdir()
    with spare_folder(1 << 20, [base]) as made:
        yield made


@pytest.fixture
def blocked(tmp_path) -> Path:
    """A folder that cannot be made."""
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "indexes"


def test_what_the_disk_does_not_take_is_found_by_the_other_processes(blocked, spare):
    files_at(blocked, spare=spare).save(closed(A), A)
    other = files_at(blocked, spare=Spare.left())
    stored = other.load(A.digest)
    assert stored is not None and stored.constraint == A
    assert other.touch(A.digest) and other.stamp(A.digest) is not None
    assert list(spare.folder.rglob("*.index"))


def test_the_disk_is_used_where_it_works(tmp_path, spare):
    files_at(tmp_path / "indexes", spare=spare).save(closed(A), A)
    assert files_at(tmp_path / "indexes").load(A.digest) is not None, "for the next start"
    assert not list(spare.folder.rglob("*.index"))


def test_a_disk_that_is_to_be_empty_stays_so(tmp_path, spare):
    files = files_at(tmp_path / "indexes", capacity_bytes=0, spare=spare)
    with files.alone(A.digest, 5.0):
        files.save(closed(A), A)
    assert files.load(A.digest) is not None
    assert not (tmp_path / "indexes").exists()


def test_the_newer_file_is_the_one_in_memory_until_the_disk_takes_it(tmp_path, spare, monkeypatch):
    """An index grows while the disk is full, and again when it no longer is."""
    files = files_at(tmp_path / "indexes", spare=spare)
    index = guided.compile(A, VOCABULARY)
    files.save(index, A)
    old = files.stamp(A.digest)
    index.close()
    with monkeypatch.context() as patched:
        patched.setattr(files.disk, "write", lambda digest, data: False)
        files.save(index, A)
    grown = files.stamp(A.digest)
    assert grown not in (None, old) and files.load(A.digest).index.is_closed
    files.save(index, A)
    assert files.stamp(A.digest) == grown == files.disk.stamp(A.digest)
    assert not list(spare.folder.rglob("*.index"))


def test_files_in_memory_are_bounded(blocked, tmp_path):
    with spare_folder(40 * 4096, [tmp_path]) as spare:
        files = files_at(blocked, spare=spare)
        constraints = [Constraint.choice([f"{n}"]) for n in range(60)]
        for age, constraint in enumerate(constraints):
            files.save(closed(constraint), constraint)
            os.utime(files.spare.path(constraint.digest), (1_000_000 + age, 1_000_000 + age))
        assert sum(512 * path.stat().st_blocks for path in spare.folder.rglob("*.index")) <= 40 * 4096
        assert files.touch(constraints[-1].digest) and not files.touch(constraints[0].digest)
        assert files.use()[SPARE]["evictions"] >= 20 and files.use()[SPARE]["evictions"] == 0


def test_a_file_that_is_larger_than_all_of_it_is_not_taken(blocked, tmp_path):
    with spare_folder(4096, [tmp_path]) as spare:
        files = files_at(blocked, spare=spare, capacity_bytes=4096)
        assert not files.write(A.digest, bytes(files.largest_bytes + 1))
        assert files.write(A.digest, file.to_bytes(closed(A), A)[: files.largest_bytes])


def test_flush_empties_both(tmp_path, spare, monkeypatch):
    files = files_at(tmp_path / "indexes", spare=spare)
    files.save(closed(A), A)
    monkeypatch.setattr(files.disk, "write", lambda digest, data: False)
    files.save(closed(A), A)
    assert files.flush() == {DISK: 1, SPARE: 1}
    assert files.load(A.digest) is None


def _compile_once(folder, spare, compilations, start):
    files = files_at(folder, spare=spare)
    start.wait(30)
    with files.alone(A.digest, 20.0):
        if files.load(A.digest) is None:
            with compilations.get_lock():
                compilations.value += 1
            time.sleep(0.1)
            files.save(closed(A), A)


def test_without_a_disk_the_processes_of_a_server_compile_once(blocked, spare):
    context = multiprocessing.get_context("fork")
    compilations, start = context.Value("i", 0), context.Event()
    workers = [context.Process(target=_compile_once, args=(blocked, spare, compilations, start)) for _ in range(4)]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert compilations.value == 1


# --- the folder in memory -------------------------------------------------------------------------------------------------


def test_it_is_ours_alone_and_gone_in_the_end(tmp_path):
    with spare_folder(1 << 20, [tmp_path]) as spare:
        assert stat.S_IMODE(spare.folder.stat().st_mode) == 0o700
        assert Spare.left() == spare
    assert Spare.left() is None and not list(tmp_path.iterdir())


def test_none_is_wanted(tmp_path):
    with spare_folder(0, [tmp_path]) as spare:
        assert spare is None and Spare.left() is None


def test_where_nothing_can_be_written_there_is_none(tmp_path, caplog):
    with spare_folder(1 << 20, [tmp_path / "nowhere"]) as spare:
        assert spare is None and Spare.left() is None
    assert caplog.text.count("no room") == 1


def test_it_lies_where_there_is_room(tmp_path, monkeypatch):
    small, large = tmp_path / "small", tmp_path / "large"
    room = {small: 1000, large: 3000}
    for base in room:
        base.mkdir()
    monkeypatch.setattr("guided.cache.spare._room", room.__getitem__)
    for wanted, base, given in ((500, small, 500), (2000, large, 2000), (9000, large, 3000)):
        with spare_folder(wanted, [small, large]) as spare:
            assert (spare.folder.parent, spare.capacity_bytes) == (base, given)


def _die_with_a_folder(base, made):
    with spare_folder(1 << 20, [base]) as spare:
        made.put(str(spare.folder))
        time.sleep(60)


def test_what_dead_servers_left_is_removed_and_what_living_ones_have_is_not(tmp_path):
    context = multiprocessing.get_context("fork")
    made = context.SimpleQueue()
    process = context.Process(target=_die_with_a_folder, args=(tmp_path, made))
    process.start()
    folder = Path(made.get())
    (folder / "some").mkdir()
    with spare_folder(1 << 20, [tmp_path]):
        assert folder.exists()
    process.kill()
    process.join()
    assert folder.exists()
    with spare_folder(1 << 20, [tmp_path]) as spare:
        assert [path.name for path in tmp_path.iterdir()] == [spare.folder.name]


def test_a_link_that_somebody_else_made_is_not_followed(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "owner.lock").write_text("")
    (tmp_path / f"guided-indexes-{os.getuid()}-link").symlink_to(theirs)
    with spare_folder(1 << 20, [tmp_path]):
        assert (theirs / "owner.lock").exists()
    shutil.rmtree(theirs)
