"""Random regexes through the whole library: `re.fullmatch` is the judge of the index, token by token."""

import random
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import guided
from guided.errors import ConstraintError, Unsatisfiable
from tests.regex.patterns import ALPHABET, PATTERNS, TEXTS, patient
from tests.regex.test_regex import NARROWED

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

# Every character, some pairs, and single bytes of the characters that have several: tokens may end inside a character.
TOKENS = sorted(
    {c.encode() for c in ALPHABET}
    | {bytes([b]) for c in ALPHABET for b in c.encode()}
    | {b"ab", b"a a", b"1\n", b"_1", "éa".encode()}
)
VOCABULARY = guided.Vocabulary.from_tokens([*TOKENS, b""], eos_ids=[len(TOKENS)])


def index_of(pattern):
    try:
        re.compile(pattern)
    except re.error:
        assume(False)
    try:
        return guided.compile(guided.Constraint.regex(pattern), VOCABULARY)
    except Unsatisfiable:
        return None


@settings(max_examples=60, deadline=None)
@given(PATTERNS, st.lists(TEXTS, min_size=3, max_size=10))
def test_index_accepts_what_re_matches(pattern, texts):
    index = index_of(pattern)
    for text in [*texts, ""]:
        accepted = index is not None and index.accepts(text)
        if accepted or text.isascii() or not NARROWED.search(pattern):
            assert accepted == (patient(re.fullmatch)(pattern, text) is not None), (pattern, text)


@settings(max_examples=50, deadline=None)
@given(PATTERNS, st.integers(0, 1 << 30))
def test_every_walk_along_the_mask_ends_in_a_match(pattern, seed):
    index, choose = index_of(pattern), random.Random(seed)
    assume(index is not None)
    state, output = index.start, b""
    for step in range(40):
        if index.is_accepting(state) and (step >= 8 or choose.random() < 0.3):
            break
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")).tolist()
        if step >= 8:  # long enough: only tokens that come closer to the end
            allowed = [t for t in allowed if index.min_tokens(index.advance(state, t)) < index.min_tokens(state)]
        assert allowed or index.is_accepting(state), (pattern, output)
        if not allowed:
            break
        token = choose.choice(allowed)
        state, output = index.advance(state, token), output + VOCABULARY.bytes_of(token)
    assert index.is_accepting(state)
    assert patient(re.fullmatch)(pattern, output.decode()), (pattern, output)


@settings(max_examples=40, deadline=None)
@given(PATTERNS)
def test_mask_is_what_walking_every_token_gives(pattern):
    index = index_of(pattern)
    assume(index is not None)
    states = [index.start]
    for state in states[:6]:
        bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
        for token in range(len(TOKENS)):
            following = index.advance(state, token)
            assert bool(bits[token]) == (following is not None) == walks(index, state, TOKENS[token])
            if following is not None and following not in states:
                states.append(following)


def walks(index, state, data):
    """The slow way: byte by byte."""
    return index._dfa.advance(state, data) >= 0


def test_errors_come_through():
    with pytest.raises(ConstraintError):
        guided.compile(guided.Constraint.regex("(a"), VOCABULARY)
