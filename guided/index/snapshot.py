"""A token index goes in, plain arrays come out, and back: closed ones as bare tables, growing ones with all they need to go on.

Knows no file. Arrays are used as they are given; what grows moves into arrays of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from guided.automaton import snapshot as automaton_snapshot
from guided.automaton.network import Network
from guided.automaton.snapshot import Arrays
from guided.errors import LimitExceeded
from guided.index.rows import DENSE_COUNT, LISTED, ROW_COUNT, SCRATCH, Rows
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary

_PREFIX = "rows."  # of the arrays of Rows, in a growing index
_KEPT = tuple(name for name in Rows._fields if name not in SCRATCH)
_USED = {"place": ROW_COUNT, "row_hash": ROW_COUNT, "dense": DENSE_COUNT, "lists": LISTED}


def to_arrays(index: TokenIndex) -> Arrays:
    """What `closed` or `growing` takes, whichever the index is. A closed one comes with the fewest tokens from each state."""
    if not index.is_closed:
        return _growing_arrays(index)
    arrays = index.to_arrays()
    with contextlib.suppress(LimitExceeded):  # the graph of a very large index: whoever wants it finds it anew
        index.min_tokens(index.start)
        assert index._min_tokens is not None
        arrays["min_tokens"] = index._min_tokens
    return arrays


def closed(arrays: Arrays, vocabulary: Vocabulary) -> TokenIndex:
    index = TokenIndex.from_arrays(arrays, vocabulary)
    index._min_tokens = arrays.get("min_tokens")
    return index


def growing(arrays: Arrays, vocabulary: Vocabulary, rebuild: Callable[[], Network], budget: Budget) -> TokenIndex:
    """See `guided.automaton.snapshot.from_arrays` for `rebuild`."""
    index = TokenIndex(automaton_snapshot.from_arrays(arrays, rebuild, budget), vocabulary)
    index._table.rows = index._table.rows._replace(**{name: arrays[_PREFIX + name] for name in _KEPT})
    return index


def _growing_arrays(index: TokenIndex) -> Arrays:
    rows = index._table.rows
    arrays = automaton_snapshot.to_arrays(index._dfa)
    for name in _KEPT:
        array = getattr(rows, name)
        used = int(rows.counts[_USED[name]]) if name in _USED else len(array)
        arrays[_PREFIX + name] = automaton_snapshot.zeroed(array, used)
    return arrays
