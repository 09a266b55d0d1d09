"""Named tuples of arrays that kernels take as one pointer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from guided.automaton.packed import nbytes, packed


@packed
class Pair(NamedTuple):
    numbers: np.ndarray  # int32[n]
    table: np.ndarray  # float64[2, 3, n]


@njit
def put_sum(pair, row):
    """Writes the sum of the numbers into a cell of the table; the sizes that compiled code sees."""
    pair.table[1, row, -1] = pair.numbers.sum()
    return pair.numbers.size, pair.table.shape


def pair_of(*numbers: int) -> Pair:
    return Pair(np.array(numbers, np.int32), np.zeros((2, 3, len(numbers))))


def test_kernels_read_and_write_the_arrays():
    pair = pair_of(1, 2, 3, 4)
    assert put_sum(pair, 2) == (4, (2, 3, 4))
    assert pair.table[1, 2, 3] == 10 and pair.table.sum() == 10
    assert nbytes(pair) == 4 * 4 + 8 * 24


def test_a_replaced_array_is_seen_and_the_others_stay():
    pair = pair_of(1, 2)
    put_sum(pair, 0)
    longer = pair._replace(numbers=np.arange(1000, dtype=np.int32))
    assert put_sum(longer, 1) == (1000, (2, 3, 2)) and put_sum(pair, 2) == (2, (2, 3, 2))
    assert pair.table[1, :, 1].tolist() == [3, 499500, 3]
    assert pair._replace(numbers=pair.numbers, table=pair.table) is pair


def test_an_array_with_gaps_is_refused():
    pair = Pair(np.arange(10, dtype=np.int32)[::2], np.zeros((2, 3, 5)))
    with pytest.raises(TypeError, match="contiguous"):
        put_sum(pair, 0)


def test_an_array_that_must_not_be_written_to_is_refused():
    pair = pair_of(1)
    pair.numbers.flags.writeable = False
    with pytest.raises(TypeError, match="writ"):
        put_sum(pair, 0)
