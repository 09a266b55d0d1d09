"""An automaton and a vocabulary go in; which tokens are allowed in a state, and where a token leads, comes out.

Rows are computed when they are first asked for, or all at once by `close`. Knows nothing of the constraint's syntax nor
of the batch that is masked with its rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from guided.automaton.kernels import ACCEPTING, DEAD, Machine, NetworkArrays, enter_all
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.network import special_token_bytes
from guided.index import kernels
from guided.index.dead_ends import drop_moves
from guided.index.kernels import (
    DENSE_COUNT,
    DENSE_ROWS,
    FILLED,
    LISTED,
    LISTS,
    NOTHING,
    ROW_COUNT,
    ROWS,
    UNKNOWN,
    WANTED,
)
from guided.index.longest import longest_completion
from guided.index.shortest import UNREACHABLE, shortest_completions, token_graph
from guided.index.slices import NUM_SLICED, Slices, slices_of
from guided.limits import Budget
from guided.vocabulary import Vocabulary

StateId = int

_CHUNK = 512  # states that are filled between two looks at the clock
_RANGES = np.array(kernels.UTF8_RANGES, np.int64)
_MEMO_MOVES = 1 << 17  # remembered (state, token) pairs
_STORED_ROWS = ("row_of", "place", "dense", "lists")  # the parts of Rows that a file keeps
_MEMO_MASKS = 256  # token lists remembered as masks


class TokenIndex:
    """The index of one constraint for one vocabulary; grows while it is used, unless it is closed.

    Stop tokens are in no row: the output may end exactly where `is_accepting`.
    """

    start: StateId = LazyDfa.start

    def __init__(self, dfa: LazyDfa, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._dfa = dfa
        self._slices: Slices = slices_of(vocabulary)
        self._special = {token_id: name for name, token_id in vocabulary.special_token_ids.items()}
        self._rows = _new_rows(words=-(-vocabulary.size // 32))
        self._steps = self._char_steps()
        self._steps_classes = dfa.num_classes
        self._moves: dict[int, StateId | None] = {}
        self._listed: dict[int, np.ndarray] = {}
        self._min_tokens: np.ndarray | None = None

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], vocabulary: Vocabulary) -> TokenIndex:
        """A closed index from what `to_arrays` gave; the arrays are used as they are."""
        index = cls(LazyDfa.from_tables(arrays["delta"], arrays["class_of"], arrays["accepting"]), vocabulary)
        rows = len(arrays["place"])
        states = len(arrays["row_of"])
        index._rows = index._rows._replace(
            counts=np.array([rows, len(arrays["dense"]), len(arrays["lists"]), states, NOTHING], np.int64),
            **{name: arrays[name] for name in _STORED_ROWS},
            char_next=np.full((states, NUM_SLICED), UNKNOWN, np.int32),
        )
        return index

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a closed index, cut to what is used."""
        delta, class_of, accepting = self._dfa.tables()
        rows = self._rows
        return {
            "delta": delta,
            "class_of": class_of,
            "accepting": accepting,
            "row_of": rows.row_of[: self.num_states],
            "place": rows.place[: self.num_rows],
            "dense": rows.dense[: int(rows.counts[DENSE_COUNT])],
            "lists": rows.lists[: int(rows.counts[LISTED])],
        }

    # --- states -------------------------------------------------------------------------------------------------------

    def advance(self, state: StateId, token_id: int) -> StateId | None:
        """The state after a token, or None where the token is not allowed; an id outside of the vocabulary never is."""
        if not 0 <= token_id < self.vocabulary.size:
            return None
        key = state * self.vocabulary.size + token_id
        following = self._moves.get(key, UNKNOWN)
        if following == UNKNOWN:
            if len(self._moves) >= _MEMO_MOVES:
                self._moves.clear()
            following = self._moves[key] = self._walk_token(state, token_id)
        return following

    def _walk_token(self, state: StateId, token_id: int) -> StateId | None:
        mask = self.mask(state)
        if not mask[token_id >> 5] >> (token_id & 31) & 1:
            return None
        name = self._special.get(token_id)
        data = self.vocabulary.bytes_of(token_id) if name is None else special_token_bytes(name)
        piece = np.frombuffer(data, np.uint8)
        dfa = self._dfa
        following = dfa.run(lambda: kernels.advance(dfa.network, dfa.machine, state, piece))
        assert following != DEAD, "an allowed token survives"
        return following

    def mask(self, state: StateId) -> np.ndarray:
        """uint32[ceil(vocab / 32)], a view not to be written to: bit t % 32 of word t // 32 set = token t is allowed.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        row = self.row_id(state)
        place = self._rows.place[row]
        if place >= 0:
            return self._rows.dense[place]
        known = self._listed.get(row)
        if known is None:
            if len(self._listed) >= _MEMO_MASKS:
                self._listed.clear()
            known = self._listed[row] = np.zeros(self._rows.dense.shape[1], np.uint32)
            kernels.set_bits(self._listed_tokens(int(place)), known)
        return known

    def _listed_tokens(self, place: int) -> np.ndarray:
        begin = -1 - place
        return self._rows.lists[begin + 1 : begin + 1 + self._rows.lists[begin]]

    def row_id(self, state: StateId) -> int:
        """Number of the state's row; equal rows have one number."""
        row_of = self._rows.row_of
        if state >= row_of.size or row_of[state] == UNKNOWN:
            self._dfa.budget.restart()
            self._run(lambda: kernels.fill_row(*self._arrays(), state))
            row_of = self._rows.row_of
        return row_of[state]

    def is_accepting(self, state: StateId) -> bool:
        """May the output end here?"""
        return bool(self._dfa.machine.flags[state, ACCEPTING])

    # --- the whole index ----------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Every reachable state and its row are known."""
        return int(self._rows.counts[FILLED]) == self.num_states

    def close(self, budget: Budget | None = None) -> bool:
        """Computes all states and rows, as far as the budget allows; is_closed afterwards.

        Raises:
            LimitExceeded: a limit was reached; what was computed stays usable.
        """
        if budget is not None:
            self.use_budget(budget)
        self._dfa.budget.restart()
        while not self.is_closed:
            limit = int(self._rows.counts[FILLED]) + _CHUNK
            self._run(lambda: kernels.fill_all(*self._arrays(), limit))  # noqa: B023 - called at once
            self._dfa.budget.check("the index", states=self.num_states, memory_bytes=self.memory_bytes)
        return True

    def use_budget(self, budget: Budget) -> None:
        """What the index may cost from now on."""
        self._dfa.budget = budget

    def drop_dead_ends(self) -> bool:
        """Takes out every token that leads to where the vocabulary cannot spell an end; closes the index first.

        Returns:
            False if there is no end in reach from the start.

        Raises:
            LimitExceeded: a limit was reached.
        """
        self.close()
        dead = self._distances() == UNREACHABLE
        if dead.any():
            self._run(lambda: drop_moves(self._dfa.machine, self._slices, self._rows, dead))
            self._moves.clear()
        return not dead[self.start]

    def min_tokens(self, state: StateId) -> int:
        """Fewest tokens from a state to an accepting one, the stop token not counted; closes the index first."""
        return int(self._distances()[state])

    def _distances(self) -> np.ndarray:
        if self._min_tokens is None or not self.is_closed:
            self.close()
            self._min_tokens = shortest_completions(*self._arrays(), self._check_graph)
        return self._min_tokens

    def max_tokens(self) -> int | None:
        """Most tokens from the start to an end, the stop token not counted; None = unbounded. Closes the index first."""
        self.close()
        return longest_completion(*token_graph(*self._arrays(), self._check_graph), self.start)

    def _check_graph(self, graph_bytes: int) -> None:
        self._dfa.budget.check("the token graph", memory_bytes=self.memory_bytes + graph_bytes)

    def accepts(self, text: str | bytes) -> bool:
        """Does the whole text satisfy the constraint? Byte level, no tokenizer involved."""
        self._dfa.budget.restart()
        return self._dfa.matches(text.encode() if isinstance(text, str) else text)

    @property
    def automaton(self) -> LazyDfa:
        """What the index walks over."""
        return self._dfa

    @property
    def num_states(self) -> int:
        """States known so far."""
        return self._dfa.num_states

    @property
    def num_rows(self) -> int:
        """Distinct rows known so far."""
        return int(self._rows.counts[ROW_COUNT])

    @property
    def memory_bytes(self) -> int:
        return self._dfa.memory_bytes + sum(array.nbytes for array in self._rows)

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _arrays(self) -> tuple[NetworkArrays, Machine, Slices, kernels.CharSteps, kernels.Rows]:
        """What every kernel needs, as it is now."""
        if self._steps_classes != self._dfa.num_classes:
            self._steps = self._char_steps()
            self._steps_classes = self._dfa.num_classes
        return self._dfa.network, self._dfa.machine, self._slices, self._steps, self._rows

    def _char_steps(self) -> kernels.CharSteps:
        return kernels.char_steps(self._dfa.machine.class_of, self._slices.profile, _RANGES)

    def _run(self, kernel: Callable[[], int]) -> None:
        """As `LazyDfa.run`, making room for rows too."""

        def with_room() -> int:
            while True:
                self._cover_states()
                self._rows.counts[WANTED] = NOTHING
                status = kernel()
                wanted = int(self._rows.counts[WANTED])
                if wanted == NOTHING:
                    return status
                self._dfa.budget.check("the index", memory_bytes=self.memory_bytes)
                self._rows = _MORE[wanted](self._rows)

        self._dfa.run(with_room)

    def _cover_states(self) -> None:
        """row_of and char_next have an entry for every state that the machine has room for."""
        room = self._dfa.machine.flags.shape[0]
        if self._rows.row_of.size < room:
            row_of = np.full(room, UNKNOWN, np.int32)
            row_of[: self._rows.row_of.size] = self._rows.row_of
            char_next = np.full((room, NUM_SLICED), UNKNOWN, np.int32)
            char_next[: len(self._rows.char_next)] = self._rows.char_next
            self._rows = self._rows._replace(row_of=row_of, char_next=char_next)


def _new_rows(words: int, rows: int = 64, dense: int = 8) -> kernels.Rows:
    return kernels.Rows(
        counts=np.zeros(5, np.int64),
        row_of=np.empty(0, np.int32),
        place=np.empty(rows, np.int64),
        dense=np.empty((dense, words), np.uint32),
        lists=np.empty(4096, np.int32),
        row_hash=np.empty(rows, np.uint64),
        table=np.full(4 * rows, -1, np.int32),
        char_next=np.empty((0, NUM_SLICED), np.int32),
    )


def _more_rows(rows: kernels.Rows) -> kernels.Rows:
    used = int(rows.counts[ROW_COUNT])
    table = np.full(2 * rows.table.size, -1, np.int32)
    enter_all(rows.row_hash, used, table)
    return rows._replace(place=_resized(rows.place, used), row_hash=_resized(rows.row_hash, used), table=table)


def _more_dense_rows(rows: kernels.Rows) -> kernels.Rows:
    return rows._replace(dense=_resized(rows.dense, int(rows.counts[DENSE_COUNT])))


def _longer_lists(rows: kernels.Rows) -> kernels.Rows:
    return rows._replace(lists=_resized(rows.lists, int(rows.counts[LISTED])))


def _resized(array: np.ndarray, used: int) -> np.ndarray:
    """Twice the room; the first `used` elements are kept."""
    grown = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


_MORE = {ROWS: _more_rows, DENSE_ROWS: _more_dense_rows, LISTS: _longer_lists}
