"""Character edges agree with the bytes that they stand for."""

from __future__ import annotations

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.automaton.network import Network, special_token_bytes
from guided.explain.characters import CharacterView
from guided.limits import Budget, Limits
from tests.explain.automata import automaton

PATTERNS = [
    "a",
    "[^a]*",
    ".{2}",
    "[à-ÿ]+x",
    "(é|ê|€|😀)b?",
    "[\ud7ff\ue000\uffff\U00010000\U0010ffff]",
    "[^\x00-\uffff]z|日本|日本語",
    r"\w+",
]
# Both sides of every border between encoded lengths, and of the gap that the surrogates leave.
POINTS = [
    0,
    0x0A,
    0x61,
    0x62,
    0x78,
    0x7A,
    0x7F,
    0x80,
    0xE0,
    0xE9,
    0xEA,
    0xFF,
    0x7FF,
    0x800,
    0x20AC,
    0x65E5,
    0x672C,
    0x8A9E,
]
POINTS += [0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_edge_leads_where_the_bytes_of_its_characters_lead(pattern):
    view = CharacterView(automaton(pattern))
    known, queue = {view.start}, [view.start]
    for state in queue:
        by_point = {
            point: target
            for characters, target in view.moves(state).characters
            for point in POINTS
            if point in characters
        }
        for point in POINTS:
            assert by_point.get(point, DEAD) == view.dfa.advance(state, chr(point).encode()), (state, hex(point))
        fresh = set(view.moves(state).targets) - known
        known |= fresh
        queue += sorted(fresh)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_sets_are_disjoint_and_targets_distinct(pattern):
    view = CharacterView(automaton(pattern))
    moves = view.moves(view.start).characters
    assert len({target for _, target in moves}) == len(moves)
    assert sum(len(characters) for characters, _ in moves) == len(view.moves(view.start).allowed)


def test_special_tokens_are_edges_with_their_name():
    network = Network()
    network.root = network.rule()
    start, middle, end = network.state(), network.state(), network.state(final=True)
    network.literal(start, special_token_bytes("<|tool|>"), middle)
    network.literal(start, special_token_bytes("<|text|>"), end)
    network.literal(middle, b"x", end)
    network.define(network.root, start)
    view = CharacterView(LazyDfa(network, Budget(Limits())))
    moves = view.moves(view.start)
    assert not moves.characters
    assert sorted(name for name, _ in moves.special) == ["<|text|>", "<|tool|>"]
    after_tool = dict(moves.special)["<|tool|>"]
    assert [chr(point) for point in view.moves(after_tool).allowed] == ["x"]
