"""What was used most in the last run: counted, written whole, and no trouble where it cannot be."""

from __future__ import annotations

from server.usage import Usage


def test_those_used_most_come_first(tmp_path):
    path = tmp_path / "folder" / "usage.json"
    usage = Usage(path)
    for digest, times in (("a", 1), ("b", 3), ("c", 2)):
        for _ in range(times):
            usage.count(digest)
    usage.save()
    assert Usage(path).of_last_run(2) == ["b", "c"]
    assert [p.name for p in path.parent.iterdir()] == ["usage.json"]


def test_no_file_or_a_damaged_one_is_a_cold_start(tmp_path):
    path = tmp_path / "usage.json"
    assert Usage(path).of_last_run(5) == []
    for text in ("", "{", "[1]", '{"a": "b", "c": 1}', "7"):
        path.write_text(text)
        assert Usage(path).of_last_run(5) == [] or text == "[1]"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    usage = Usage(tmp_path / "file" / "usage.json")
    usage.count("a")
    usage.save()


def test_counts_are_bounded(tmp_path):
    usage = Usage(tmp_path / "usage.json")
    for number in range(20_000):
        usage.count("often")
        usage.count(f"{number}")
    assert len(usage._counts) <= 16 * 1024 + 1
    usage.save()
    assert Usage(tmp_path / "usage.json").of_last_run(1) == ["often"]
