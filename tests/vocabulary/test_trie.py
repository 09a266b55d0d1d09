"""The trie against a slow, obvious one: nested dictionaries walked recursively."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.vocabulary import TokenBytes, Trie, Vocabulary, VocabularyError
from tests.vocabulary.conftest import real

# Few letters, so that prefixes, duplicates and shared tails are common; 0 and 255 for signedness and terminators.
tokens = st.lists(
    st.one_of(st.binary(max_size=6), st.lists(st.sampled_from([0, 97, 98, 255]), max_size=8).map(bytes)), max_size=80
)


def reference(pieces: list[bytes], ids: list[int]) -> list[tuple[int, int, int, list[int]]]:
    """(byte, depth, nodes in the subtree, ids that end here) of every node in depth-first order."""
    root: dict[str, Any] = {"children": {}, "ids": []}
    for token_id in sorted(ids):
        node = root
        for byte in pieces[token_id]:
            node = node["children"].setdefault(byte, {"children": {}, "ids": []})
        if pieces[token_id]:
            node["ids"].append(token_id)
    nodes: list[tuple[int, int, int, list[int]]] = []

    def visit(node: dict[str, Any], depth: int) -> None:
        for byte, child in sorted(node["children"].items()):
            place = len(nodes)
            nodes.append((byte, depth, 0, child["ids"]))
            visit(child, depth + 1)
            nodes[place] = (byte, depth, len(nodes) - place, child["ids"])

    visit(root, 0)
    return nodes


def flat(trie: Trie) -> list[tuple[int, int, int, list[int]]]:
    """The same picture of a built trie."""
    return [
        (
            int(trie.byte[i]),
            int(trie.depth[i]),
            int(trie.subtree_end[i]) - i,
            trie.token_ids[trie.token_start[i] : trie.token_start[i + 1]].tolist(),
        )
        for i in range(len(trie))
    ]


@settings(max_examples=150, deadline=None)
@given(tokens)
def test_equals_reference(pieces: list[bytes]) -> None:
    trie = Trie.build(TokenBytes.from_pieces(pieces))
    assert flat(trie) == reference(pieces, list(range(len(pieces))))
    assert len(trie.token_start) == len(trie) + 1
    assert trie.max_depth == max(map(len, pieces), default=0)


@settings(max_examples=100, deadline=None)
@given(tokens, st.data())
def test_subset_equals_reference(pieces: list[bytes], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.sampled_from(range(len(pieces))), unique=True)) if pieces else []
    assert flat(Trie.build(TokenBytes.from_pieces(pieces), ids)) == reference(pieces, ids)


def test_many_tokens_take_the_counting_path() -> None:
    """More tokens than insertion sort handles, with duplicates, tails of zeros, and one long shared prefix."""
    rng = np.random.default_rng(7)
    pieces = [bytes(rng.integers(0, 3, size=rng.integers(0, 12)).tolist()) for _ in range(3000)]
    pieces += [b"\xff" * 300 + bytes(rng.integers(0, 256, size=3).tolist()) for _ in range(60)]
    assert flat(Trie.build(TokenBytes.from_pieces(pieces))) == reference(pieces, list(range(len(pieces))))


@settings(max_examples=50, deadline=None)
@given(tokens)
def test_tokens_of_a_subtree_are_contiguous(pieces: list[bytes]) -> None:
    trie = Trie.build(TokenBytes.from_pieces(pieces))
    path: list[int] = []
    for i in range(len(trie)):
        del path[int(trie.depth[i]) :]
        path.append(int(trie.byte[i]))
        below = trie.token_ids[trie.token_start[i] : trie.token_start[trie.subtree_end[i]]].tolist()
        assert sorted(below) == [t for t, piece in enumerate(pieces) if piece.startswith(bytes(path))]


def test_dtypes_are_what_kernels_are_compiled_for() -> None:
    trie = Vocabulary.from_tokens([b"a", b"ab"]).trie
    types = {name: getattr(trie, name).dtype for name in Trie.__slots__}
    expected = {"byte": "u1", "depth": "u2", "subtree_end": "i4", "token_start": "i4", "token_ids": "i4"}
    assert types == {name: np.dtype(code) for name, code in expected.items()}
    assert all(getattr(trie, name).flags.writeable for name in types)


def test_overlong_token_is_refused() -> None:
    assert Trie.build(TokenBytes.from_pieces([b"a" * 65_535])).max_depth == 65_535
    with pytest.raises(VocabularyError, match="65536 bytes"):
        Trie.build(TokenBytes.from_pieces([b"a" * 65_536]))


def test_no_tokens() -> None:
    trie = Trie.build(TokenBytes.from_pieces([b"", b""]))
    assert len(trie) == 0 and trie.max_depth == 0
    assert trie.token_start.tolist() == [0]


def test_llama3_has_the_known_size_and_order() -> None:
    vocabulary = real("llama3").vocabulary
    trie = vocabulary.trie
    assert len(trie) == 274_520
    pieces = list(vocabulary.token_bytes)
    assert trie.token_ids.tolist() == sorted((t for t, p in enumerate(pieces) if p), key=lambda t: (pieces[t], t))
