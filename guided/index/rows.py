"""Rows of allowed tokens, interned: a packed row goes in, its number comes out; knows no automaton.

Equal rows have one number. Short ones are kept as lists of tokens, the others as bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from guided.automaton.packed import packed

UNKNOWN = -1
ROW_COUNT, DENSE_COUNT, LISTED, FILLED, WANTED, VISITS = range(
    6
)  # slots of Rows.counts; FILLED: states done by fill_all
NOTHING, ROWS, DENSE_ROWS, LISTS = range(4)  # Rows.counts[WANTED]: what a kernel that stopped needs more of
LONGEST_LIST = 128  # tokens; a row with more is kept as bits
STATE, PART, NODE, OPEN, TEXT = range(5)  # slots of Rows.progress; TEXT: the state reads any text
SCRATCH = ("visited", "path", "live", "progress")  # parts of Rows that say nothing between two calls


@packed
class Rows(NamedTuple):
    """Rows of allowed tokens, interned: short ones as token lists, the others as packed bits."""

    counts: np.ndarray  # int64[6]: ROW_COUNT, DENSE_COUNT, LISTED (used part of lists), FILLED, WANTED, VISITS
    row_of: np.ndarray  # int32[states]: row of a state, UNKNOWN = not computed yet
    place: np.ndarray  # int64[rows]: number of the dense row, or -1 - (where its list begins)
    dense: np.ndarray  # uint32[dense rows, words]: bit t % 32 of word t // 32 set = token t is allowed
    lists: np.ndarray  # int32[tokens]: each list is its length, then the tokens in ascending order
    row_hash: np.ndarray  # uint64[rows]
    table: np.ndarray  # int32[2^k]: hash table of row ids
    notes: (
        np.ndarray
    )  # int32[states, NUM_SLICED + 1]: the state after any character of each profile, or why none; RANGES
    visited: np.ndarray  # int64[states]: scratch of a search: the number of the visit that met the state last
    path: np.ndarray  # int32[longest token + 1]: scratch of a walk: the states along the current branch
    live: np.ndarray  # int32[2 * 256]: scratch of a walk: ranges of nodes below the first bytes that a state reads
    progress: (
        np.ndarray
    )  # int64[5]: the row that is being filled, to go on where a kernel stopped: STATE, PART, NODE, OPEN, TEXT


@njit(cache=True)
def _row_hash(row):
    """FNV-1a over words in four lanes, which the processor runs side by side."""
    prime = np.uint64(0x100000001B3)
    a = b = c = d = np.uint64(0xCBF29CE484222325)
    whole = row.size - row.size % 4
    for i in range(0, whole, 4):
        a = (a ^ np.uint64(row[i])) * prime
        b = (b ^ np.uint64(row[i + 1])) * prime
        c = (c ^ np.uint64(row[i + 2])) * prime
        d = (d ^ np.uint64(row[i + 3])) * prime
    for i in range(whole, row.size):
        a = (a ^ np.uint64(row[i])) * prime
    digest = (((a * prime ^ b) * prime ^ c) * prime ^ d) * prime
    return digest ^ (digest >> np.uint64(29))


@njit(cache=True)
def _list_tokens(row, tokens):
    """Writes the tokens of a row into `tokens`, as far as they fit; how many the row has, or one more than fit."""
    count = 0
    for word in range(row.size):
        bits = row[word]
        while bits != 0:
            if count == tokens.size:
                return count + 1
            lowest = bits & (~bits + np.uint32(1))
            tokens[count] = word * 32 + _bit_number(lowest)
            count += 1
            bits ^= lowest
    return count


@njit(cache=True)
def _bit_number(single):
    number = 0
    while single > 1:
        single >>= np.uint32(1)
        number += 1
    return number


@njit(cache=True)
def _same_row(rows, known, row, tokens, count):
    place = rows.place[known]
    if place >= 0:
        other = rows.dense[place]
        for i in range(row.size):
            if other[i] != row[i]:
                return False
        return True
    begin = -1 - place
    if rows.lists[begin] != count:
        return False
    for i in range(count):
        if rows.lists[begin + 1 + i] != tokens[i]:
            return False
    return True


@njit(cache=True)
def add_row(rows, known, row):
    """Adds the tokens of an interned row to another one."""
    place = rows.place[known]
    if place >= 0:
        row |= rows.dense[place]
        return
    begin = -1 - place
    for i in range(begin + 1, begin + 1 + rows.lists[begin]):
        token = rows.lists[i]
        row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)


@njit(cache=True)
def intern_row(rows, row):
    """The id of a row that was written behind the last dense one, kept there only if it is new and long; -1: no room."""
    tokens = np.empty(LONGEST_LIST, np.int32)
    count = _list_tokens(row, tokens)
    digest = _row_hash(row)
    mask = rows.table.size - 1
    slot = np.int64(digest & np.uint64(mask))
    while rows.table[slot] >= 0:
        known = rows.table[slot]
        if rows.row_hash[known] == digest and _same_row(rows, known, row, tokens, count):
            return known
        slot = (slot + 1) & mask
    new = rows.counts[ROW_COUNT]
    if new >= rows.place.size:
        rows.counts[WANTED] = ROWS
        return -1
    if count > LONGEST_LIST:
        rows.place[new] = rows.counts[DENSE_COUNT]
        rows.counts[DENSE_COUNT] += 1
    else:
        begin = rows.counts[LISTED]
        if begin + 1 + count > rows.lists.size:
            rows.counts[WANTED] = LISTS
            return -1
        rows.place[new] = -1 - begin
        rows.lists[begin] = count
        rows.lists[begin + 1 : begin + 1 + count] = tokens[:count]
        rows.counts[LISTED] = begin + 1 + count
    rows.table[slot] = new
    rows.row_hash[new] = digest
    rows.counts[ROW_COUNT] = new + 1
    return new
