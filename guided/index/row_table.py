"""The rows of an automaton's states: the arrays that `guided.index.kernels` fills, and the loop that runs those kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from guided.automaton.direct import direct
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import Machine, NetworkArrays, enter_all, until_done, with_room
from guided.automaton.packed import nbytes
from guided.index import kernels
from guided.index.reach import UTF8_RANGES, CharSteps, char_steps
from guided.index.rows import (
    DENSE_COUNT,
    DENSE_ROWS,
    LISTED,
    LISTS,
    NODE,
    NOTHING,
    ROW_COUNT,
    ROWS,
    STATE,
    UNKNOWN,
    WANTED,
    Rows,
    add_row,
)
from guided.index.slices import DEPTH, NUM_SLICED, Slices

_RANGES = np.array(UTF8_RANGES, np.int64)
_MEMO_MASKS = 256  # token lists remembered as masks


class RowTable:
    """Which tokens each state allows, as far as it was asked.

    Attributes:
        rows: replaced when it grows, so fetch it anew for each kernel call.
    """

    def __init__(self, dfa: LazyDfa, slices: Slices) -> None:
        self.dfa, self.slices = dfa, slices
        self.rows = _new_rows(slices)
        self._steps = self._char_steps()
        self._steps_classes = dfa.num_classes
        self._listed: dict[int, np.ndarray] = {}

    def row_id(self, state: int) -> int:
        """Number of the state's row, UNKNOWN (-1) where it was not computed."""
        row_of = self.rows.row_of
        return int(row_of[state]) if 0 <= state < row_of.size else UNKNOWN

    def fill(self, state: int) -> None:
        """Computes the row of a state.

        Raises:
            LimitExceeded: the automaton or the rows outgrew their limits.
        """
        self.run(lambda: direct(kernels.fill_row)(*self.arrays(), state))

    def share(self, row: int, state: int) -> None:
        """Gives a state a row that another one has."""
        self._cover_states()
        self.rows.row_of[state] = row

    def mask(self, row: int) -> np.ndarray:
        """uint32[words] of a row, a view not to be written to."""
        place = self.rows.place[row]
        if place >= 0:
            return self.rows.dense[place]
        known = self._listed.get(row)
        if known is None:
            if len(self._listed) >= _MEMO_MASKS:
                self._listed.clear()
            known = self._listed[row] = np.zeros(self.rows.dense.shape[1], np.uint32)
            direct(add_row)(self.rows, row, known)
        return known

    def listed(self, begin: int) -> np.ndarray:
        """The list in `rows.lists` that begins there, its length left out."""
        return self.rows.lists[begin + 1 : begin + 1 + self.rows.lists[begin]]

    @property
    def memory_bytes(self) -> int:
        return nbytes(self.rows)

    def arrays(self) -> tuple[NetworkArrays, Machine, Slices, CharSteps, Rows]:
        """What every kernel needs, as it is now."""
        if self._steps_classes != self.dfa.num_classes:
            self._steps = self._char_steps()
            self._steps_classes = self.dfa.num_classes
        return self.dfa.network, self.dfa.machine, self.slices, self._steps, self.rows

    def _char_steps(self) -> CharSteps:
        return char_steps(self.dfa.machine.class_of, self.slices.profile, _RANGES)

    def run(self, kernel: Callable[[], int | tuple[int, int]]) -> int:
        """As `LazyDfa.run`, making room for rows too. Between two calls of the kernel what it has begun may be finished."""
        self.begin()
        return until_done(kernel, self.attend)

    def begin(self) -> None:
        """Before a kernel is called: nothing is begun, and there is room for the rows' numbers."""
        self.rows.progress[STATE] = self.rows.progress[NODE] = -1
        self._cover_states()

    def attend(self, status: int) -> None:
        """Gives a kernel that stopped what it stopped for.

        Raises:
            LimitExceeded: the automaton or the rows outgrew their limits.
        """
        wanted = int(self.rows.counts[WANTED])
        if wanted == NOTHING:
            self.dfa.attend(status)
        else:
            self.rows.counts[WANTED] = NOTHING
            self.dfa.budget.check("the index", memory_bytes=self.dfa.memory_bytes + self.memory_bytes)
            self.rows = _MORE[wanted](self.rows)
        self._cover_states()

    def _cover_states(self) -> None:
        """row_of and notes have an entry for every state that the machine has room for."""
        room = len(self.dfa.machine.flags)
        if len(self.rows.visited) == room:
            return
        if self.rows.row_of.size < room:
            row_of = np.full(room, UNKNOWN, np.int32)
            row_of[: self.rows.row_of.size] = self.rows.row_of
            notes = np.full((room, NUM_SLICED + 1), UNKNOWN, np.int32)
            notes[: len(self.rows.notes)] = self.rows.notes
            self.rows = self.rows._replace(row_of=row_of, notes=notes)
        if self.rows.visited.size < room:
            self.rows = self.rows._replace(visited=np.zeros(room, np.int64))


def _new_rows(slices: Slices, rows: int = 256, dense: int = 32) -> Rows:
    """Room for an everyday index: what is not written to costs nothing, and to make room costs as much as several masks."""
    words = slices.up_to.shape[2]
    return Rows(
        counts=np.zeros(6, np.int64),
        row_of=np.empty(0, np.int32),
        place=np.empty(rows, np.int64),
        dense=np.empty((dense, words), np.uint32),
        lists=np.empty(16384, np.int32),
        row_hash=np.empty(rows, np.uint64),
        table=np.full(4 * rows, -1, np.int32),
        notes=np.empty((0, NUM_SLICED + 1), np.int32),
        visited=np.zeros(0, np.int64),
        path=np.empty(int(slices.nodes[-1, DEPTH]) + 2, np.int32),
        live=np.empty(2 * 256, np.int32),
        progress=np.full(5, -1, np.int64),
    )


def _more_rows(rows: Rows) -> Rows:
    used = int(rows.counts[ROW_COUNT])
    table = np.full(2 * rows.table.size, -1, np.int32)
    enter_all(rows.row_hash, used, table)
    return rows._replace(place=_resized(rows.place, used), row_hash=_resized(rows.row_hash, used), table=table)


def _more_dense_rows(rows: Rows) -> Rows:
    return rows._replace(dense=_resized(rows.dense, int(rows.counts[DENSE_COUNT])))


def _longer_lists(rows: Rows) -> Rows:
    return rows._replace(lists=_resized(rows.lists, int(rows.counts[LISTED])))


def _resized(array: np.ndarray, used: int) -> np.ndarray:
    return with_room(array, used, 2 * len(array))


_MORE = {ROWS: _more_rows, DENSE_ROWS: _more_dense_rows, LISTS: _longer_lists}
