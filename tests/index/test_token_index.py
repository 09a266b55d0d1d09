"""Rows, moves and distances of the index against definitions that try every token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automaton.charset import CharSet
from guided.automaton.encoding import JsonStringEncoder, Utf8Encoder
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.automaton.network import Network, special_token_bytes
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary

TOKENS = [
    *(b"", b"<eos>", b"<tool>"),  # 0..2: padding, stop, special
    *(bytes([byte]) for byte in range(256)),
    *(b"a", b"ab", b"abc", b"aaaa", b"a" * 30, b" the", b"the", b"12", b"123", b"-1"),
    *(b'"', b'",', b'": "', b'x"', b"\\n", b"\\u", b"},", b"\n\n", b"\xff"),
    *("é".encode(), "éa".encode(), "日本".encode(), "日本".encode()[:4], "😀".encode(), "😀".encode()[:3]),
]
NEVER = {0, 1, *(token for token, data in enumerate(TOKENS) if b"\xff" in data)}
VOCABULARY = Vocabulary.from_tokens(TOKENS, eos_ids=[1], special_token_ids={"<eos>": 1, "<tool>": 2})


def automaton_bytes(token_id: int) -> bytes:
    """What a token means to the automaton; empty: never allowed."""
    if token_id == 2:
        return special_token_bytes("<tool>")
    data = VOCABULARY.bytes_of(token_id)
    return b"" if b"\xff" in data else data


def allowed_by_trying(dfa: LazyDfa, state: int) -> list[int]:
    tokens = range(VOCABULARY.size)
    return [t for t in tokens if automaton_bytes(t) and dfa.advance(state, automaton_bytes(t)) != DEAD]


def allowed(index: TokenIndex, state: int) -> list[int]:
    bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
    return list(np.flatnonzero(bits))


def chain(
    characters: CharSet, at_least: int, at_most: int, encoder_class, quoted: bool = False, loop: bool = False
) -> Network:
    """characters{at_least,at_most}, or {at_least,} with a loop at the end, perhaps between quotes."""
    network = Network()
    network.root = network.rule()
    encoder = encoder_class(network)
    start = state = network.state()
    if quoted:
        state = network.state()
        network.literal(start, b'"', state)
    end = network.state(final=True)
    for count in range(at_most + 1):
        if count >= at_least:
            network.literal(state, b'"' if quoted else b"", end)
        if count < at_most:
            following = network.state()
            encoder.char(state, characters, following)
            state = following
    if loop:
        encoder.char(state, characters, state)
    network.define(network.root, start)
    return network


EVERYTHING = CharSet.any()
NETWORKS = {
    "free string": chain(EVERYTHING, 0, 0, JsonStringEncoder, quoted=True, loop=True),
    "counted string": chain(EVERYTHING, 2, 40, JsonStringEncoder, quoted=True),
    "no newline": chain(~CharSet.of("\n"), 1, 30, Utf8Encoder),
    "any text": chain(EVERYTHING, 0, 0, Utf8Encoder, loop=True),
    "letters": chain(CharSet.range("a", "z"), 3, 7, Utf8Encoder),
    "all but one script": chain(~CharSet.range("一", "鿿"), 0, 5, Utf8Encoder),
}


@pytest.fixture(params=NETWORKS)
def index(request) -> TokenIndex:
    return TokenIndex(LazyDfa(NETWORKS[request.param], Budget()), VOCABULARY)


def test_rows_are_what_trying_every_token_gives(index):
    index.close()
    for state in range(index.num_states):
        assert allowed(index, state) == allowed_by_trying(index._dfa, state)


def test_rows_do_not_depend_on_what_was_asked_before(index):
    index.close()
    other = TokenIndex(LazyDfa(index._dfa.source, Budget()), VOCABULARY)
    state, same = other.start, index.start
    for asked in range(50):
        tokens = allowed(other, state)
        assert tokens == allowed_by_trying(index._dfa, same)
        if not tokens:
            break
        token = tokens[asked * 7 % len(tokens)]
        state, same = other.advance(state, token), index.advance(same, token)


def test_advance_is_the_walk_over_the_bytes(index):
    for state in range(min(index.num_states, 12)):
        tokens = set(allowed(index, state))
        for token in range(VOCABULARY.size):
            following = index.advance(state, token)
            assert (following is not None) == (token in tokens)
            if following is not None:
                assert following == index._dfa.advance(state, automaton_bytes(token))


def test_ids_outside_of_the_vocabulary_are_not_allowed_and_leave_no_trace(index):
    state = index.advance(index.start, allowed(index, index.start)[0])
    first = allowed(index, state)[0]
    for outside in (-1, VOCABULARY.size, VOCABULARY.size + first, 1 << 40):
        assert index.advance(state, outside) is None
        assert index.advance(index.start, outside) is None
    for known in range(min(index.num_states, 3)):
        for token in allowed(index, known):
            assert index.advance(known, token) is not None


def test_min_tokens_is_breadth_first_search_over_tokens(index):
    for state in range(0, index.num_states, 5):
        assert index.min_tokens(state) == _min_tokens_by_search(index, state)


def _min_tokens_by_search(index: TokenIndex, state: int) -> int:
    level, seen, distance = {state}, {state}, 0
    while not any(index.is_accepting(s) for s in level):
        following = {index.advance(s, token) for s in level for token in allowed(index, s)}
        level = following - seen
        seen |= level
        distance += 1
        assert level
    return distance


def test_padding_stop_and_invalid_bytes_are_in_no_row(index):
    index.close()
    for state in range(index.num_states):
        assert not NEVER & set(allowed(index, state))


def test_special_tokens_are_allowed_by_name_only():
    network = Network()
    network.root = network.rule()
    start, end = network.state(), network.state(final=True)
    network.literal(start, special_token_bytes("<tool>"), end)
    network.literal(start, b"<tool>", end)
    network.define(network.root, start)
    index = TokenIndex(LazyDfa(network, Budget()), VOCABULARY)
    assert 2 in allowed(index, index.start)
    assert index.is_accepting(index.advance(index.start, 2))
    assert 3 + 0xFF not in allowed(index, index.start)


def test_equal_rows_are_stored_once():
    index = TokenIndex(LazyDfa(NETWORKS["counted string"], Budget()), VOCABULARY)
    index.close()
    assert index.num_rows < index.num_states


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12))
def test_accepts_is_membership(text):
    index = TokenIndex(LazyDfa(NETWORKS["no newline"], Budget()), VOCABULARY)
    assert index.accepts(text) == (1 <= len(text) <= 30 and "\n" not in text)
