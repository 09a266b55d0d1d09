"""Flat token bytes in, the arrays of a byte trie out; knows nothing of tokenizers. Compiled with Numba, cached on disk.

Imported only where a trie is built: a vocabulary that comes from its cache needs no compiler.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SMALL = 24  # below this many tokens, insertion beats counting


@njit(cache=True, nogil=True)
def _tail_less(data, offsets, a, b, depth):
    """Whether token a sorts before token b, where both agree on the first `depth` bytes."""
    i, end_a = offsets[a] + depth, offsets[a + 1]
    j, end_b = offsets[b] + depth, offsets[b + 1]
    while i < end_a and j < end_b:
        if data[i] != data[j]:
            return data[i] < data[j]
        i += 1
        j += 1
    return j < end_b


@njit(cache=True, nogil=True)
def _insertion_sort(data, offsets, ids, low, high, depth):
    for k in range(low + 1, high):
        token = ids[k]
        m = k
        while m > low and _tail_less(data, offsets, token, ids[m - 1], depth):
            ids[m] = ids[m - 1]
            m -= 1
        ids[m] = token


@njit(cache=True, nogil=True)
def sort_by_bytes(data, offsets, ids):
    """Sort `ids` (int32, in place) by the bytes of their tokens; equal tokens keep their order.

    Most significant digit radix sort with a counting pass per byte (McIlroy, Bostic, McIlroy, "Engineering Radix Sort", 1993).
    """
    buffer = np.empty_like(ids)
    counts = np.empty(258, np.int64)
    pending = [(0, len(ids), 0)]  # segments that agree on their first `depth` bytes
    while len(pending) > 0:
        low, high, depth = pending.pop()
        if high - low <= _SMALL:
            _insertion_sort(data, offsets, ids, low, high, depth)
            continue
        # Bucket 0 holds the tokens that end here, bucket 1 + b those that go on with byte b.
        counts[:] = 0
        for k in range(low, high):
            at = offsets[ids[k]] + depth
            counts[(np.int64(data[at]) + 2) if at < offsets[ids[k] + 1] else 1] += 1
        for bucket in range(1, 258):
            counts[bucket] += counts[bucket - 1]
        for k in range(low, high):
            at = offsets[ids[k]] + depth
            place = (np.int64(data[at]) + 1) if at < offsets[ids[k] + 1] else 0
            buffer[counts[place]] = ids[k]
            counts[place] += 1
        ids[low:high] = buffer[: high - low]
        for bucket in range(1, 257):  # counts[bucket] is now the bucket's end
            if counts[bucket] - counts[bucket - 1] > 1:
                pending.append((low + counts[bucket - 1], low + counts[bucket], depth + 1))


@njit(cache=True, nogil=True)
def shared_prefixes(data, offsets, ids):
    """int32[len(ids)]: how many bytes each token of the sorted `ids` has in common with the one before it."""
    shared = np.zeros(len(ids), np.int32)
    for k in range(1, len(ids)):
        i, end_i = offsets[ids[k - 1]], offsets[ids[k - 1] + 1]
        j, end_j = offsets[ids[k]], offsets[ids[k] + 1]
        common = 0
        while i < end_i and j < end_j and data[i] == data[j]:
            i += 1
            j += 1
            common += 1
        shared[k] = common
    return shared


@njit(cache=True, nogil=True)
def fill_nodes(data, offsets, ids, shared, byte, depth, subtree_end, token_start):
    """Write the nodes of the sorted `ids` in depth-first order; the arrays are described in `guided.vocabulary.trie.Trie`."""
    longest = 0
    for k in range(len(ids)):
        longest = max(longest, offsets[ids[k] + 1] - offsets[ids[k]])
    open_nodes = np.empty(longest, np.int32)  # the path to the last node
    path_length = 0
    node = 0
    for k in range(len(ids)):
        start, end = offsets[ids[k]], offsets[ids[k] + 1]
        while path_length > shared[k]:
            path_length -= 1
            subtree_end[open_nodes[path_length]] = node
        for at in range(start + shared[k], end):
            byte[node] = data[at]
            depth[node] = path_length
            token_start[node] = k
            open_nodes[path_length] = node
            path_length += 1
            node += 1
    while path_length > 0:
        path_length -= 1
        subtree_end[open_nodes[path_length]] = node
    token_start[node] = len(ids)
