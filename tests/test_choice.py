"""Choices: membership, on the byte level, for every kind of string that people list."""

import string

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from guided.automaton.reference import ReferenceMachine
from guided.choice import build_network
from guided.errors import InvalidConstraint, LimitExceeded
from guided.limits import Budget, Limits

TEXTS = st.text(alphabet=st.sampled_from('ab"\n\\é中😀'), max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), st.lists(TEXTS, max_size=6))
def test_matches_exactly_the_choices(choices, others):
    reads = ReferenceMachine(build_network(choices, Budget())).matches
    for text in {*choices, *others, *(c[:-1] for c in choices), *(c + "a" for c in choices)}:
        assert reads(text.encode()) == (text in choices), text


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12))
def test_the_network_is_a_trie(choices):
    network = build_network(choices, Budget())
    prefixes = {c.encode()[:n] for c in choices for n in range(len(c.encode()) + 1)}
    assert len(network.final) == len(prefixes)  # one state per prefix: deterministic, nothing dead
    assert network.trim() and network.num_edges == len(prefixes) - 1


@pytest.mark.parametrize(
    "choices", [[""], ["", "a"], ["a", "ab", "abc"], ["x", "x"], ["<|im_end|>"], ["\x00", "\U0010ffff"]]
)
def test_small_lists(choices):
    machine = ReferenceMachine(build_network(choices, Budget()))
    assert all(machine.matches(c.encode()) for c in choices)
    assert not machine.matches(b"y")


def test_refusals():
    with pytest.raises(InvalidConstraint):
        build_network([], Budget())
    with pytest.raises(LimitExceeded, match="choices"):
        build_network([str(n) for n in range(50_001)], Budget())
    with pytest.raises(LimitExceeded, match="memory_bytes"):
        build_network(["a" * 101], Budget(Limits(memory_bytes=1000)))


def test_fifty_thousand_choices():
    choices = [f"{n * 7919 % 50_000:05d}-{string.ascii_letters[n % 52]}" for n in range(50_000)]
    machine = ReferenceMachine(build_network(choices, Budget()))
    assert all(machine.matches(c.encode()) for c in choices[::997])
    assert not machine.matches(b"00000-b") and not machine.matches(b"00000")
