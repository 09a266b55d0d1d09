"""Index files: what comes back is what went in, and no damage gets past."""

from __future__ import annotations

import re

import numpy as np
import pytest

import guided
from guided.automaton.snapshot import StaleSnapshot
from guided.compiler import writable_network
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
    file.save(index, path, CONSTRAINT)
    return path


def test_a_loaded_index_answers_as_the_one_that_was_saved(index, path):
    stored = file.load(path, VOCABULARY, CONSTRAINT.digest)
    assert stored.constraint == CONSTRAINT and stored.nbytes == path.stat().st_size
    loaded = stored.index
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
    loaded = file.load(path, VOCABULARY).index
    loaded.min_tokens(loaded.start)
    loaded._table.rows.row_of[:] = 0
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
        file.save(index, target, CONSTRAINT)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


# --- indexes that still grow ---------------------------------------------------------------------------------------------

GROWING = [
    guided.Constraint.grammar('start: "(" start ")" | "a" start "b" | ("x" | "y")*'),
    guided.Constraint.json_schema(
        {"properties": {f"p{n}": {"type": "string", "maxLength": n} for n in range(6)}, "required": ["p3"]},
        property_order="any",
    ),
    guided.Constraint.json_schema({"$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}),
    guided.Constraint.regex("(a|b)*a(a|b){6}"),
]


def rebuild(constraint):
    return writable_network(constraint, VOCABULARY)


def walks(index: TokenIndex, seed: int, steps: int = 40):
    """What an index says along random answers."""
    source = np.random.default_rng(seed)
    for _ in range(8):
        state = index.start
        for _ in range(steps):
            mask = index.mask(state)
            yield mask.tolist(), index.is_accepting(state)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            if not allowed.size:
                break
            state = index.advance(state, int(source.choice(allowed)))


@pytest.mark.parametrize("explored", [0, 3, 30])
@pytest.mark.parametrize("constraint", GROWING, ids=lambda c: c.canonical_text[:40])
def test_a_growing_index_goes_on_where_it_was(constraint, explored, tmp_path):
    """Whatever was known when it was stored, it says what a fresh index says."""
    index = guided.compile(constraint, VOCABULARY)
    list(walks(index, seed=1, steps=explored))
    assert not index.is_closed
    file.save(index, tmp_path / "a.index", constraint)
    stored = file.load(tmp_path / "a.index", VOCABULARY, constraint.digest, rebuild=rebuild)
    assert stored.constraint == constraint and not stored.index.is_closed
    assert stored.index.num_states == index.num_states
    fresh = guided.compile(constraint, VOCABULARY)
    for told, expected in zip(walks(stored.index, seed=2), walks(fresh, seed=2), strict=True):
        assert told == expected


def test_what_was_known_needs_no_network(tmp_path):
    constraint = GROWING[0]
    index = guided.compile(constraint, VOCABULARY)
    before = list(walks(index, seed=5))
    file.save(index, tmp_path / "a.index", constraint)

    def never(_):
        raise AssertionError("the network was built again")

    stored = file.load(tmp_path / "a.index", VOCABULARY, rebuild=never)
    assert stored.index._dfa.source.size == index._dfa.source.size
    assert stored.index._dfa.source.byte_sets == index._dfa.source.byte_sets
    assert list(walks(stored.index, seed=5)) == before


def test_a_growing_index_can_be_closed_later(tmp_path):
    constraint = GROWING[3]
    index = guided.compile(constraint, VOCABULARY)
    file.save(index, tmp_path / "a.index", constraint)
    loaded = file.load(tmp_path / "a.index", VOCABULARY, rebuild=rebuild).index
    loaded.close()
    index.close()
    assert (loaded.num_states, loaded.num_rows) == (index.num_states, index.num_rows)
    assert loaded.min_tokens(loaded.start) == index.min_tokens(index.start)


def test_a_network_that_came_out_differently_is_noticed(tmp_path):
    constraint = GROWING[1]
    index = guided.compile(constraint, VOCABULARY)
    file.save(index, tmp_path / "a.index", constraint)
    other = guided.Constraint.json_schema({"properties": {"q": {}}}, property_order="any")
    loaded = file.load(tmp_path / "a.index", VOCABULARY, rebuild=lambda _: rebuild(other)).index
    with pytest.raises(StaleSnapshot):
        loaded._dfa.source.build(loaded._dfa.source.late_rules[-1] + 1)  # as a kernel asks for a late rule


def test_a_growing_index_is_refused_where_nobody_can_go_on(tmp_path):
    file.save(guided.compile(GROWING[0], VOCABULARY), tmp_path / "a.index", GROWING[0])
    with pytest.raises(IndexFileError, match="grows"):
        file.load(tmp_path / "a.index", VOCABULARY)


def test_spare_room_holds_nothing_of_the_process(tmp_path):
    """Stored with its room, but not with what the memory held before."""
    one = guided.compile(GROWING[0], VOCABULARY)
    two = guided.compile(GROWING[0], VOCABULARY)
    assert file.to_bytes(one, GROWING[0]) == file.to_bytes(two, GROWING[0])
