"""Index files: what comes back is what went in, and no damage gets past."""

from __future__ import annotations

import re

import numpy as np
import pytest

import guided
from guided.index import file
from guided.index.file import IndexFileError
from guided.index.token_index import TokenIndex
from tests.index.test_token_index import VOCABULARY

CONSTRAINT = guided.Constraint.regex(r'[a-c]{2,4}|"[^"]*"|é+')


@pytest.fixture(scope="module")
def index() -> TokenIndex:
    index = guided.compile(CONSTRAINT, VOCABULARY)
    index.close()
    return index


@pytest.fixture
def path(index, tmp_path):
    path = tmp_path / "a.index"
    file.save(index, path, CONSTRAINT.digest)
    return path


def test_a_loaded_index_answers_as_the_one_that_was_saved(index, path):
    loaded = file.load(path, VOCABULARY, CONSTRAINT.digest)
    assert loaded.is_closed
    assert loaded.num_states == index.num_states
    for state in range(index.num_states):
        assert np.array_equal(loaded.mask(state), index.mask(state))
        assert loaded.is_accepting(state) == index.is_accepting(state)
        assert loaded.min_tokens(state) == index.min_tokens(state)
        assert [loaded.advance(state, t) for t in range(VOCABULARY.size)] == [
            index.advance(state, t) for t in range(VOCABULARY.size)
        ]
    for text in ("ab", "abcd", "a", '"x"', '"x', "éé"):
        assert loaded.accepts(text) == (re.fullmatch(CONSTRAINT.value, text) is not None)


def test_using_a_loaded_index_does_not_change_the_file(path):
    before = path.read_bytes()
    loaded = file.load(path, VOCABULARY)
    loaded.min_tokens(loaded.start)
    loaded._rows.row_of[:] = 0
    assert path.read_bytes() == before


def test_every_damaged_byte_is_noticed(path):
    data = path.read_bytes()
    for position in range(0, len(data), max(1, len(data) // 400)):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        with pytest.raises(IndexFileError):
            file.from_buffer(damaged, VOCABULARY, CONSTRAINT.digest)


@pytest.mark.parametrize("length", [0, 5, 15, 40, 300, -1])
def test_a_cut_file_is_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(IndexFileError):
        file.load(path, VOCABULARY)


def test_an_index_of_another_vocabulary_or_constraint_is_refused(path):
    other = guided.Vocabulary.from_tokens([b"a", b"b"])
    with pytest.raises(IndexFileError, match="vocabulary"):
        file.load(path, other)
    with pytest.raises(IndexFileError, match="constraint"):
        file.load(path, VOCABULARY, "0" * 64)


def test_nothing_is_left_behind_where_the_file_cannot_be_written(index, tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(OSError):
        file.save(index, target, CONSTRAINT.digest)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
