"""Compiled: which bytes no byte set of a network tells apart, as classes that are split when sets come up; knows no automaton."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def split(byte_sets, class_of, split_from, classes):
    """Refines the classes by byte sets: how many classes there are then.

    Args:
        byte_sets: uint8[sets, 32]: bit b % 8 of byte b // 8 set = byte b is in the set.
        class_of: uint8[256]: byte -> class.
        split_from: uint8[256]: a new class -> the class that it was part of before.
    """
    size = np.zeros(256, np.int64)
    for byte in range(256):
        size[class_of[byte]] += 1
    inside = np.zeros(256, np.int64)  # bytes of a class that are in the set
    part = np.empty(256, np.int64)  # what these are a class of from now on
    members = np.empty(256, np.int64)
    for number in range(byte_sets.shape[0]):
        count = _members(byte_sets[number], members)
        for byte in members[:count]:
            inside[class_of[byte]] += 1
        for byte in members[:count]:
            origin = class_of[byte]
            if inside[origin] == 0:
                continue
            part[origin] = origin
            if inside[origin] < size[origin]:
                part[origin] = classes
                split_from[classes] = origin
                size[classes] = inside[origin]
                size[origin] -= inside[origin]
                classes += 1
            inside[origin] = 0
        for byte in members[:count]:
            class_of[byte] = part[class_of[byte]]
    return classes


@njit(cache=True)
def note_members(byte_sets, class_of, set_has_class):
    """Fills uint8[sets, classes]: the set contains the class."""
    members = np.empty(256, np.int64)
    for number in range(byte_sets.shape[0]):
        set_has_class[number] = 0
        for byte in members[: _members(byte_sets[number], members)]:
            set_has_class[number, class_of[byte]] = 1


def with_classes(table: np.ndarray, rows: int, split_from: np.ndarray, known: int, classes: int) -> np.ndarray:
    """The table, or a wider one, with columns of its first rows for new classes: like those of the classes they were part of."""
    room = table.shape[1]
    while room < classes:
        room *= 2
    if room > table.shape[1]:
        wide = np.empty((len(table), room), table.dtype)
        wide[:rows, :known] = table[:rows, :known]
        table = wide
    _copy_columns(table[:rows], split_from, known, classes)  # of no rows too: `warm_up` has a new network
    return table


@njit(cache=True)
def _copy_columns(table, split_from, known, classes):
    for new in range(known, classes):
        table[:, new] = table[:, split_from[new]]


@njit(cache=True)
def _members(byte_set, members):
    """Writes the bytes of a set: how many there are."""
    count = 0
    for place in range(byte_set.size):
        bits = byte_set[place]
        byte = 8 * place
        while bits:
            if bits & 1:
                members[count] = byte
                count += 1
            bits >>= 1
            byte += 1
    return count
