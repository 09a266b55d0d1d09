"""In: the arrays of an index file; out: nothing, or what of them no kernel may see. Knows no file.

Kernels check no index, so a file that was made up, with the right checksum, could make them read or write anywhere, or run for ever.
After this they stay inside of the arrays and come to an end; whether the index is right, nobody can tell from it.
"""

from __future__ import annotations

import numpy as np

from guided.automaton import snapshot
from guided.automaton.machine import (
    ANSWERED,
    CLASSES,
    CONFIGS,
    FINAL,
    FIRST_EDGE,
    ITEMS,
    REMEMBERED,
    STACK_SET,
    STACKS,
    STATE,
    new_machine,
)
from guided.automaton.network import ASK, BYTES, CALLS, KIND, LABEL, NEXT, TARGET
from guided.automaton.snapshot import Arrays
from guided.automaton.stack_sets import BELOW, FIRST_CELL, FIRST_LETTER, MARKED, REST, TOP
from guided.index.kernels import RANGES
from guided.index.reach import READS_ALL
from guided.index.rows import DENSE_COUNT, FILLED, LISTED, LONGEST_LIST, ROW_COUNT
from guided.index.slices import NUM_SLICED

_CLOSED = {
    "delta": (np.int32, 2),
    "class_of": (np.uint8, 1),
    "accepting": (np.uint8, 1),
    "row_of": (np.int32, 1),
    "place": (np.int64, 1),
    "dense": (np.uint32, 2),
    "lists": (np.int32, 1),
    "min_tokens": (np.int32, 1),  # not always there
}
_NETWORK = {
    "states": (np.int32, 2),
    "edges": (np.int32, 2),
    "rule_start": (np.int32, 1),
    "set_has_class": (np.uint8, 2),
}
_ROWS = {
    "rows.counts": (np.int64, 1),
    "rows.row_of": (np.int32, 1),
    "rows.place": (np.int64, 1),
    "rows.dense": (np.uint32, 2),
    "rows.lists": (np.int32, 1),
    "rows.row_hash": (np.uint64, 1),
    "rows.table": (np.int32, 1),
    "rows.notes": (np.int32, 2),
}
_OTHERS = {"mirrored": (np.int64, 1), "late_rules": (np.int64, 1)}
_LEAST_DELTA = -2  # DEAD, UNKNOWN


class OutOfBounds(ValueError):
    """Says which array is wrong."""


def check_closed(arrays: Arrays, vocabulary_size: int) -> None:
    """Of a closed index. Raises OutOfBounds."""
    _kinds(arrays, _CLOSED, optional={"min_tokens"})
    delta, rows = arrays["delta"], len(arrays["place"])
    states, classes = delta.shape
    _true(states > 0 and classes > 0, "delta")
    _true(len(arrays["class_of"]) == 256, "class_of")
    for name in ("accepting", "row_of", "min_tokens"):
        _true(name not in arrays or len(arrays[name]) == states, name)
    _within(delta, -1, states, "delta")
    _within(arrays["class_of"], 0, classes, "class_of")
    _within(arrays["row_of"], 0, rows, "row_of")
    _rows(arrays["place"], arrays["dense"], arrays["lists"], vocabulary_size)


def check_growing(arrays: Arrays, vocabulary_size: int) -> None:
    """Of an index that grows. Raises OutOfBounds."""
    machine = {name: (getattr(new_machine(1, configs=1), name).dtype.type, _rank(name)) for name in snapshot._KEPT}
    _kinds(arrays, {**machine, **_NETWORK, **_ROWS, **_OTHERS})
    _true(len(arrays["counts"]) == len(new_machine(1, configs=1).counts), "counts")
    _true(len(arrays["mirrored"]) == 4, "mirrored")
    _network(arrays)
    _machine(arrays)
    _growing_rows(arrays, vocabulary_size)


def _network(arrays: Arrays) -> None:
    states, edges, rules, byte_sets = arrays["mirrored"].tolist()
    for name, used, columns in (("states", states, 3), ("edges", edges, 4), ("rule_start", rules, None)):
        _true(
            0 <= used <= len(arrays[name]) and arrays[name].shape[1:] == (() if columns is None else (columns,)), name
        )
    _true(0 <= byte_sets <= len(arrays["set_has_class"]), "set_has_class")
    _within(arrays["states"][:states, FIRST_EDGE], -1, edges, "states")
    _within(arrays["states"][:states, FINAL], 0, None, "states")
    used_edges = arrays["edges"][:edges]
    kind, label = used_edges[:, KIND], used_edges[:, LABEL]
    _within(used_edges[:, NEXT], -1, edges, "edges")
    _within(kind, 0, ASK + 1, "edges")
    _within(used_edges[:, TARGET], 0, states, "edges")
    _within(label[kind == BYTES], 0, byte_sets, "edges")
    _within(label[np.isin(kind, CALLS)], 0, rules, "edges")
    _within(arrays["rule_start"][:rules], -1, states, "rule_start")
    _late_rules(arrays["late_rules"].tolist(), rules)
    _ends(used_edges[:, NEXT], "edges")


def _late_rules(numbers: list[int], rules: int) -> None:
    """Rules, and questions, which are negative, with the length of a text and its bytes."""
    at = 0
    while at < len(numbers):
        if numbers[at] >= 0:
            _true(numbers[at] < rules, "late_rules")
            at += 1
            continue
        length = numbers[at + 1] if at + 1 < len(numbers) else -1
        _true(0 <= length <= len(numbers) - at - 2, "late_rules")
        _true(all(0 <= byte < 256 for byte in numbers[at + 2 : at + 2 + length]), "late_rules")
        at += 2 + length


def _machine(arrays: Arrays) -> None:
    counts = arrays["counts"]
    stacks, items, configs, classes = (int(counts[slot]) for slot in (STACKS, ITEMS, CONFIGS, CLASSES))
    states = int(arrays["mirrored"][0])
    _true(FIRST_CELL <= stacks <= len(arrays["stacks"]) and arrays["stacks"].shape[1] == 4, "stacks")
    _true(0 <= items <= len(arrays["items"]) and arrays["items"].shape[1] == 2, "items")
    _true(arrays["flags"].shape[1] == 4, "flags")
    _true(arrays["texts"].shape == (len(arrays["flags"]), 2), "texts")
    room = min(len(arrays["config_begin"]) - 1, *(len(arrays[n]) for n in ("config_hash", "flags", "delta")))
    _true(0 < configs <= room, "counts")
    _true(len(arrays["flags"]) == len(arrays["delta"]) == len(arrays["config_hash"]), "flags")
    _true(0 < classes <= min(arrays["delta"].shape[1], arrays["set_has_class"].shape[1]), "counts")
    _true(len(arrays["class_of"]) == 256, "class_of")
    _within(arrays["class_of"], 0, classes, "class_of")
    _within(arrays["delta"][:configs, :classes], _LEAST_DELTA, configs, "delta")
    begin = arrays["config_begin"][: configs + 1]
    _true(begin[0] == 0 and begin[-1] == items and bool((np.diff(begin) >= 0).all()), "config_begin")
    _within(arrays["items"][:items, STATE], 0, states, "items")
    _within(arrays["items"][:items, STACK_SET], 0, stacks, "items")
    cells = arrays["stacks"][FIRST_CELL:stacks]
    _within(cells[:, TOP], FIRST_LETTER - classes + 1, states, "stacks")
    _within(cells[:, MARKED], 0, stacks, "stacks")
    _within(arrays["texts"][:configs, REMEMBERED], 0, stacks, "texts")
    _within(arrays["texts"][:configs, ANSWERED], _LEAST_DELTA, configs, "texts")
    for column in (BELOW, REST):  # a cell is made of older ones
        _true(bool(((cells[:, column] >= 0) & (cells[:, column] < np.arange(FIRST_CELL, stacks))).all()), "stacks")
    _table(arrays["stack_table"], stacks, "stack_table")
    _table(arrays["config_table"], configs, "config_table")


def _growing_rows(arrays: Arrays, vocabulary_size: int) -> None:
    counts, configs = arrays["rows.counts"], int(arrays["counts"][CONFIGS])
    _true(len(counts) == 6, "rows.counts")
    rows, dense, listed = (int(counts[slot]) for slot in (ROW_COUNT, DENSE_COUNT, LISTED))
    place, lists, notes = arrays["rows.place"], arrays["rows.lists"], arrays["rows.notes"]
    _true(0 <= rows <= min(len(place), len(arrays["rows.row_hash"])), "rows.place")
    _true(len(place) == len(arrays["rows.row_hash"]), "rows.row_hash")
    _true(0 <= dense <= len(arrays["rows.dense"]) and 0 <= listed <= len(lists), "rows.counts")
    _true(0 <= counts[FILLED] <= configs, "rows.counts")
    _true(len(notes) == len(arrays["rows.row_of"]) and notes.shape[1] == NUM_SLICED + 1, "rows.notes")
    _within(arrays["rows.row_of"], -1, rows, "rows.row_of")
    _within(notes[:, :NUM_SLICED], READS_ALL, configs, "rows.notes")
    _true(bool((notes[:, RANGES] == -1).all()), "rows.notes")  # only tops have ranges, and they are not stored
    _table(arrays["rows.table"], rows, "rows.table")
    _rows(place[:rows], arrays["rows.dense"][:dense], lists[:listed], vocabulary_size)


def _rows(place: np.ndarray, dense: np.ndarray, lists: np.ndarray, vocabulary_size: int) -> None:
    words = -(-vocabulary_size // 32)
    _true(dense.shape[1] == words, "dense")
    if vocabulary_size % 32:
        _true(not (dense[:, -1] >> np.uint32(vocabulary_size % 32)).any(), "dense")
    _within(place[place >= 0], 0, len(dense), "place")
    begin = -1 - place[place < 0]
    _within(begin, 0, len(lists), "place")
    length = lists[begin].astype(np.int64)
    _within(length, 0, LONGEST_LIST + 1, "lists")
    _true(bool((begin + 1 + length <= len(lists)).all()), "lists")
    first = np.cumsum(length) - length
    tokens = np.repeat(begin + 1 - first, length) + np.arange(int(length.sum()))
    _within(lists[tokens], 0, vocabulary_size, "lists")


def _rank(name: str) -> int:
    return getattr(new_machine(1, configs=1), name).ndim


def _kinds(arrays: Arrays, wanted: dict, optional: frozenset[str] | set[str] = frozenset()) -> None:
    """Are exactly these arrays there, each of its type and number of dimensions?"""
    if missing := wanted.keys() - arrays.keys() - optional:
        raise OutOfBounds(f"there is no array {min(missing)}")
    for name, array in arrays.items():
        _true(name in wanted, name)
        dtype, rank = wanted[name]
        _true(array.dtype == dtype and array.ndim == rank, name)


def _within(array: np.ndarray, low: int, high: int | None, name: str) -> None:
    """low <= all of it < high."""
    if array.size:
        _true(int(array.min()) >= low and (high is None or int(array.max()) < high), name)


def _table(table: np.ndarray, used: int, name: str) -> None:
    """A hash table with open addressing: a power of two, never full, or a search would not end."""
    _true(len(table) > used and len(table) & (len(table) - 1) == 0, name)
    _within(table, -1, used, name)
    _true(bool((table < 0).any()), name)


def _ends(following: np.ndarray, name: str) -> None:
    """Do linked lists come to their end, -1? By doubling the steps, so in as many rounds as the length has bits."""
    ahead = np.append(following, -1)  # the last entry stands for -1
    for _ in range(len(ahead).bit_length()):
        ahead = ahead[ahead]
    _true(bool((ahead == -1).all()), name)


def _true(fine: bool, name: str) -> None:
    if not fine:
        raise OutOfBounds(f"array {name} is not what it has to be")
