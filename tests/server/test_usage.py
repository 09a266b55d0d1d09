"""What was used most in the last run: counted, written whole, and no trouble where it cannot be."""

from __future__ import annotations

import json
import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

from server.usage import Usage


def test_those_used_most_come_first(tmp_path):
    path = tmp_path / "folder" / "usage.json"
    usage = Usage(path)
    for digest, times in (("a", 1), ("b", 3), ("c", 2)):
        for _ in range(times):
            usage.count(digest)
    usage.save()
    assert Usage(path).of_last_run(2) == ["b", "c"]
    assert sorted(p.name for p in path.parent.iterdir()) == ["usage.json", "usage.lock"]


def test_no_file_or_a_damaged_one_is_a_cold_start(tmp_path):
    path = tmp_path / "usage.json"
    assert Usage(path).of_last_run(5) == []
    for text in ("", "{", "[1]", '{"a": "b", "c": 1}', "7"):
        path.write_text(text)
        assert Usage(path).of_last_run(5) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    usage = Usage(tmp_path / "file" / "usage.json")
    usage.count("a")
    usage.save()
    (tmp_path / "file").unlink()
    usage.save()
    assert Usage(tmp_path / "file" / "usage.json").of_last_run(1) == ["a"], "nothing was lost meanwhile"


def counted(usage: Usage, **times: int) -> None:
    for digest, count in times.items():
        for _ in range(count):
            usage.count(digest)
    usage.save()


def test_two_servers_add_to_one_file(tmp_path):
    path = tmp_path / "usage.json"
    one, two = Usage(path), Usage(path)
    counted(one, a=3)
    counted(two, b=4, c=1)
    counted(one, a=2, c=1)
    counted(one)
    assert json.loads(path.read_text()) == {"a": 3 // 2 + 2, "b": 4, "c": 2}
    assert Usage(path).of_last_run(3) == ["b", "a", "c"]


def _count_and_save(path: Path, together: Barrier) -> None:
    usage = Usage(path)
    counted(usage, begun=1)
    together.wait(30)
    for _ in range(40):
        counted(usage, shared=1)


def test_servers_that_write_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "usage.json"
    context = multiprocessing.get_context("fork")
    together = context.Barrier(3)
    servers = [context.Process(target=_count_and_save, args=(path, together)) for _ in range(3)]
    for server in servers:
        server.start()
    for server in servers:
        server.join(60)
        assert server.exitcode == 0
    assert json.loads(path.read_text())["shared"] == 3 * 40


def test_what_is_not_used_any_more_is_forgotten(tmp_path):
    path = tmp_path / "usage.json"
    counted(Usage(path), old=5, new=1)
    for _ in range(3):
        counted(Usage(path), new=5)
    assert Usage(path).of_last_run(5) == ["new"]


def test_who_does_not_get_the_lock_waits_for_the_next_time(tmp_path, monkeypatch):
    path = tmp_path / "usage.json"
    monkeypatch.setattr("server.usage._PATIENCE_SECONDS", 0.0)
    one, two = Usage(path), Usage(path)
    with one._alone():
        counted(two, a=1)
    assert Usage(path).of_last_run(1) == []
    counted(two, b=2)
    assert Usage(path).of_last_run(2) == ["b", "a"]


def test_counts_are_bounded(tmp_path):
    usage = Usage(tmp_path / "usage.json")
    for number in range(20_000):
        usage.count("often")
        usage.count(f"{number}")
    assert len(usage._counts) <= 16 * 1024 + 1
    usage.save()
    assert Usage(tmp_path / "usage.json").of_last_run(1) == ["often"]
