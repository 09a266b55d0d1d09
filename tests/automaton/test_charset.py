"""Sets of characters against Python sets."""

import hypothesis.strategies as st
from hypothesis import given

from guided.automaton.charset import ANY, CharSet, partition

# Small code points plus the places where something changes: both sides of the surrogates and the ends of the universe.
POINTS = st.one_of(
    st.integers(0, 40), st.sampled_from([0xD7FE, 0xD7FF, 0xE000, 0xE001, 0xFFFF, 0x10000, 0x10FFFE, 0x10FFFF])
)
SETS = st.lists(st.tuples(POINTS, st.integers(0, 5)), max_size=5).map(
    lambda pairs: CharSet.from_ranges((lo, min(lo + width, 0x10FFFF)) for lo, width in pairs)
)


@given(SETS, SETS, POINTS)
def test_algebra_is_that_of_sets(a, b, point):
    inside, other = point in a, point in b
    assert (point in (a | b)) == (inside or other)
    assert (point in (a & b)) == (inside and other)
    assert (point in (a - b)) == (inside and not other)
    assert (point in ~a) == (not inside)
    assert ~~a == a
    assert (a <= b) == (set(a) <= set(b))
    assert len(a) == len(set(a)) and bool(a) == (len(a) > 0)


@given(SETS, SETS)
def test_equal_sets_are_equal_values(a, b):
    assert (a == b) == (set(a) == set(b))
    if a == b:
        assert hash(a) == hash(b)


def test_surrogates_are_no_characters():
    assert CharSet.range(0xD000, 0xE000).ranges == ((0xD000, 0xD7FF), (0xE000, 0xE000))
    assert len(ANY) == 0x110000 - 0x800
    assert 0xD800 not in ~CharSet.of("a")


@given(st.lists(SETS, max_size=4))
def test_partition_is_the_coarsest_that_separates(sets):
    blocks, members = partition(sets)
    assert members.shape == (len(sets), len(blocks))
    assert sum(map(len, blocks)) == len(ANY)
    signatures = set()
    for index, block in enumerate(blocks):
        assert block
        for row, chars in enumerate(sets):
            assert (block <= chars) == bool(members[row, index])
            assert members[row, index] or not block & chars
        signatures.add(members[:, index].tobytes())
    assert len(signatures) == len(blocks)
