"""Index files that somebody made up, with the right checksum: refused, or harmless."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random

import numpy as np
import pytest

import guided
from guided.compiler import writable_network
from guided.errors import ConstraintError
from guided.index import file
from guided.index.file import IndexFileError
from guided.limits import Budget, Limits
from tests.index.test_token_index import VOCABULARY

CLOSED = guided.Constraint.regex(r'[a-c]{2,4}|"[^"]*"|é+')
GROWING = guided.Constraint.grammar('start: "(" start ")" | "a" start "b" | ("x" | "y")*')
EXTREMES = (-(2**31), -3, -2, -1, 0, 1, 2, 7, 255, 2**16, 2**31 - 1)


def saved(constraint: guided.Constraint) -> bytearray:
    index = guided.compile(constraint, VOCABULARY)
    if constraint is CLOSED:
        index.close()
    else:
        for text in ("((xy))", "aaxbb", "(a", "xxx"):
            index.accepts(text)
        for state in range(min(index.num_states, 8)):
            index.mask(state)
    return file.to_bytes(index, constraint)


@pytest.fixture(scope="module")
def files() -> dict[str, bytearray]:
    return {"closed": saved(CLOSED), "growing": saved(GROWING)}


def signed(data: bytearray) -> bytearray:
    data[8:40] = hashlib.blake2b(memoryview(data)[40:], digest_size=32).digest()
    return data


def with_header(data: bytearray, change) -> bytearray:
    """The file with another header of the same length, if that is possible."""
    length = int.from_bytes(data[40:48], "little")
    header = json.loads(bytes(data[48 : 48 + length]))
    text = change(header)
    text = (json.dumps(header, separators=(",", ":")) if text is None else text).encode()
    assert len(text) <= length
    made = bytearray(data)
    made[48 : 48 + length] = text.ljust(length)
    return signed(made)


def entries(data: bytearray) -> tuple[list[dict], int]:
    length = int.from_bytes(data[40:48], "little")
    return json.loads(bytes(data[48 : 48 + length]))["arrays"], -(-(48 + length) // 64) * 64


def load(data: bytearray):
    return file.from_buffer(
        data,
        VOCABULARY,
        rebuild=lambda constraint: writable_network(constraint, VOCABULARY),
        budget=Budget(Limits(states=3_000, seconds=2.0, memory_bytes=64 << 20)),
    )


def use(index: guided.TokenIndex) -> None:
    """All that a request may do with an index."""
    for text in ("((xy))", "aaxbb", '"x"', "abab", "é"):
        index.accepts(text)
    state = index.start
    for _ in range(12):
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little"))
        index.is_accepting(state)
        if not allowed.size:
            break
        state = index.advance(state, int(allowed[-1]))
    if index.is_closed:
        index.min_tokens(index.start)
        index.max_tokens()


@pytest.mark.parametrize("kind", ["closed", "growing"])
def test_what_was_saved_passes(files, kind):
    use(load(bytearray(files[kind])).index)


@pytest.mark.parametrize("kind", ["closed", "growing"])
@pytest.mark.parametrize("seed", range(40))
def test_any_values_in_the_arrays(files, kind, seed):
    source, data = random.Random(seed), bytearray(files[kind])
    table, begin = entries(data)
    for _ in range(source.choice((1, 1, 3, 20))):
        entry = source.choice([e for e in table if e["name"] != "constraint" and np.prod(e["shape"]) > 0])
        array = np.frombuffer(data, np.dtype(entry["dtype"]), int(np.prod(entry["shape"])), begin + entry["offset"])
        used = min(len(array), source.choice((4, 64, len(array))))  # most arrays are used at their beginning
        value = source.choice((*EXTREMES, source.randrange(300)))
        array[source.randrange(used)] = np.array(value).astype(array.dtype)
    # In bounds, but nonsense: what it leads to is an exception, and ends no process.
    with contextlib.suppress(IndexFileError, ConstraintError, AssertionError, ValueError, KeyError, IndexError):
        use(load(signed(data)).index)


def first(array: str, **changes):
    def change(header) -> None:
        next(e for e in header["arrays"] if e["name"] == array).update(changes)

    return change


@pytest.mark.parametrize(
    "change",
    [
        first("delta", shape=[-1, 2]),
        first("delta", shape=[9**9, 9]),
        first("delta", shape=3),
        first("delta", offset=-64),
        first("delta", offset=2**40),
        first("delta", dtype="O"),
        first("delta", dtype="<f8"),
        first("delta", dtype="?!"),
        first("delta", name="d"),
        first("constraint", name="c"),
        lambda header: header.update(constraint="0" * 64),
        lambda header: header.update(closed="ye"),
        lambda header: header.update(arrays=[]),
        lambda header: header.update(arrays={"a": 1}),
        lambda header: header.pop("arrays") and None,
        lambda header: "[1]",
        lambda header: "{",
        lambda header: "[" * 400,
    ],
)
def test_any_header(files, change):
    with pytest.raises(IndexFileError):
        load(with_header(files["closed"], change))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("closed", "delta", 10**6),
        ("closed", "class_of", 255),
        ("closed", "row_of", 10**6),
        ("closed", "row_of", -1),
        ("closed", "place", 10**9),
        ("closed", "place", -(10**9)),
        ("closed", "lists", 10**6),
        ("growing", "edges", 0),  # an edge that comes after itself
        ("growing", "items", 10**6),
        ("growing", "delta", 10**6),
        ("growing", "config_begin", 5),
        ("growing", "rows.row_of", 10**6),
    ],
)
def test_what_would_lead_out_of_an_array_is_refused(files, kind, name, value):
    data = bytearray(files[kind])
    table, begin = entries(data)
    entry = next(e for e in table if e["name"] == name)
    array = np.frombuffer(data, np.dtype(entry["dtype"]), int(np.prod(entry["shape"])), begin + entry["offset"])
    array[0] = value
    with pytest.raises(IndexFileError, match="is not what it has to be"):
        load(signed(data))


def test_a_pipe_is_no_index_and_is_not_waited_for(tmp_path):
    path = tmp_path / "a.index"
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        file.load(path, VOCABULARY)
    with pytest.raises(OSError):
        file.map_file(tmp_path)
