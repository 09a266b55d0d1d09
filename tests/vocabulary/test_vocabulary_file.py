"""The cache file: the same vocabulary comes back, without the tokenizer libraries, and damage costs only time."""

import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guided.vocabulary import Trie, Vocabulary, vocabulary_file
from tests.vocabulary.conftest import folder_of
from tests.vocabulary.test_sources import SPECIALS, tokenizer_json, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, tokenizer=tokenizer_json(SPECIALS), config={"eos_token_id": 6})


def same(one: Vocabulary, other: Vocabulary) -> bool:
    arrays = [
        (v.token_bytes.data, v.token_bytes.offsets, *(getattr(v.trie, n) for n in Trie.__slots__)) for v in (one, other)
    ]
    meta = [(v.eos_ids, v.special_token_ids, v.strips_leading_space, v.digest, v.size) for v in (one, other)]
    equal = all(a.dtype == b.dtype and a.tolist() == b.tolist() for a, b in zip(*arrays, strict=True))
    return equal and meta[0] == meta[1]


def built_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how many tries are built, that is how often the cache was of no use."""
    count, build = [0], Trie.build.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Trie], *args: object) -> Trie:
        count[0] += 1
        return build(cls, *args)

    monkeypatch.setattr(Trie, "build", classmethod(counted))
    return count


def test_second_load_comes_from_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = built_count(monkeypatch)
    first, second = (Vocabulary.from_pretrained(folder, cache_dir=folder / "c") for _ in range(2))
    assert builds == [1]
    assert same(first, second)
    assert [path.suffix for path in (folder / "c").iterdir()] == [".vocabulary"]  # no scratch files stay


def test_arrays_can_be_written_without_touching_the_file(folder: Path) -> None:
    """Numba types of fresh and stored arrays must be equal; a write stays private."""
    fresh, stored = (Vocabulary.from_pretrained(folder, cache_dir=folder / "c") for _ in range(2))
    for array in (
        stored.token_bytes.data,
        stored.token_bytes.offsets,
        *(getattr(stored.trie, n) for n in Trie.__slots__),
    ):
        assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous
    stored.trie.byte[:] = 0
    assert same(fresh, Vocabulary.from_pretrained(folder, cache_dir=folder / "c"))


def test_key_is_the_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = built_count(monkeypatch)
    Vocabulary.from_pretrained(folder, cache_dir=folder / "c")
    Vocabulary.from_pretrained(folder, padded_size=32, cache_dir=folder / "c")
    write(folder, config={"eos_token_id": 7})
    changed = Vocabulary.from_pretrained(folder, cache_dir=folder / "c")
    assert changed.eos_ids == (7,)
    monkeypatch.setattr(vocabulary_file, "FORMAT_VERSION", vocabulary_file.FORMAT_VERSION + 1)
    Vocabulary.from_pretrained(folder, cache_dir=folder / "c")
    assert builds == [4]
    assert len(list((folder / "c").iterdir())) == 4


def stored_file(folder: Path) -> tuple[Vocabulary, Path]:
    vocabulary = Vocabulary.from_pretrained(folder, cache_dir=folder / "c")
    (path,) = (folder / "c").iterdir()
    return vocabulary, path


def test_any_damage_is_noticed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Any byte of the file flipped, and nothing of it is believed."""
    vocabulary, path = stored_file(folder)
    content = path.read_bytes()
    assert vocabulary_file.load(path) is not None
    with caplog.at_level("CRITICAL"):
        for at in range(len(content)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :])
            assert vocabulary_file.load(path) is None, at
    assert same(Vocabulary.from_pretrained(folder, cache_dir=folder / "c"), vocabulary)


@pytest.mark.parametrize("keep", [0, 5, 17, 31, 60, 500, -1])
def test_a_file_cut_short_is_noticed(keep: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary, path = stored_file(folder)
    builds = built_count(monkeypatch)
    path.write_bytes(path.read_bytes()[:keep])
    assert same(Vocabulary.from_pretrained(folder, cache_dir=folder / "c"), vocabulary)
    assert builds == [1]
    assert same(Vocabulary.from_pretrained(folder, cache_dir=folder / "c"), vocabulary)
    assert builds == [1]  # the damaged file was replaced


def test_another_version_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, path = stored_file(folder)
    monkeypatch.setattr(vocabulary_file, "FORMAT_VERSION", vocabulary_file.FORMAT_VERSION + 1)
    assert vocabulary_file.load(path) is None


@pytest.mark.parametrize("obstacle", ["a file", "a folder where the file goes"])
def test_works_without_a_cache(obstacle: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    vocabulary, path = stored_file(folder)
    if obstacle == "a file":
        cache_dir = folder / "no-folder"
        cache_dir.write_text("x", encoding="utf-8")
    else:
        cache_dir = path.parent
        path.unlink()
        path.mkdir()
    assert same(Vocabulary.from_pretrained(folder, cache_dir=cache_dir), vocabulary)
    assert "can't be written" in caplog.text
    assert not [name for name in cache_dir.parent.iterdir() if name.name.startswith(".")]


def test_default_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    assert vocabulary_file.cache_folder(None) == tmp_path / "vocabularies"
    monkeypatch.delenv("GUIDED_CACHE_DIR")
    assert vocabulary_file.cache_folder(None) == Path.home() / ".cache" / "guided" / "vocabularies"


LOAD = """
import json, sys, time
from guided.vocabulary import Vocabulary
start, cpu_start = time.perf_counter(), time.process_time()
vocabulary = Vocabulary.from_pretrained(sys.argv[1], cache_dir=sys.argv[2])
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
heavy = [name for name in ("transformers", "tokenizers", "torch", "sentencepiece") if name in sys.modules]
print(json.dumps({"seconds": seconds, "cpu": cpu, "heavy": heavy, "digest": vocabulary.digest}))
"""


def load_in_new_process(origin: Path, cache_dir: Path) -> dict[str, object]:
    command = [sys.executable, "-c", LOAD, str(origin), str(cache_dir)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def test_imports_and_times_of_llama3(tmp_path: Path) -> None:
    """No tokenizer library at all for a folder with tokenizer.json, cached or not."""
    folder = folder_of("llama3")
    load_in_new_process(folder, tmp_path / "warm")  # compiles the kernels where nobody has yet
    first = [load_in_new_process(folder, tmp_path / str(number)) for number in range(3)]
    cached = [load_in_new_process(folder, tmp_path / "0") for _ in range(3)]
    assert [result["heavy"] for result in first + cached] == [[]] * 6
    assert len({result["digest"] for result in first + cached}) == 1
    for name, results, goal in (("first load", first, 1.5), ("from the cache", cached, 0.1)):
        seconds, cpu = (statistics.median(float(str(result[key])) for result in results) for key in ("seconds", "cpu"))
        print(f"{name}: {seconds:.3f} s, of which {cpu:.3f} s on the CPU")
        assert cpu < 2 * goal  # CPU time, and twice the goal, since the machine may be busy


def test_pickles(folder: Path) -> None:
    vocabulary = Vocabulary.from_pretrained(folder, cache_dir=folder / "c")
    assert same(pickle.loads(pickle.dumps(vocabulary)), vocabulary)


def test_trie_is_built_fast() -> None:
    vocabulary = Vocabulary.from_pretrained(folder_of("llama3"))
    Trie.build(vocabulary.token_bytes, [0])
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        Trie.build(vocabulary.token_bytes)
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < 0.3
