"""An automaton and a vocabulary go in; which tokens are allowed in a state, and where a token leads, comes out.

Rows are computed when they are first asked for, or all at once by `close`. Knows nothing of the constraint's syntax nor
of the batch that is masked with its rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from guided.automaton.direct import direct
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import ACCEPTING, DEAD
from guided.automaton.network import special_token_bytes
from guided.errors import LimitExceeded
from guided.index import kernels
from guided.index.dead_ends import drop_moves
from guided.index.longest import longest_completion
from guided.index.row_table import RowTable
from guided.index.rows import DENSE_COUNT, FILLED, LISTED, NOTHING, ROW_COUNT, UNKNOWN
from guided.index.shortest import UNREACHABLE, shortest_completions, token_graph
from guided.index.slices import NUM_SLICED, slices_of
from guided.index.stack_tops import StackTops
from guided.limits import Budget
from guided.vocabulary import Vocabulary

StateId = int

_CHUNK = 512  # states that are filled between two looks at the clock
_MEMO_MOVES = 1 << 17  # remembered (state, token) pairs
_MEMO_ROWS = 64  # remembered rows of states that are alike but for what they remember
_STORED_ROWS = ("row_of", "place", "dense", "lists")  # the parts of Rows that a file keeps


class TokenIndex:
    """The index of one constraint for one vocabulary; grows while it is used, unless it is closed.

    Stop tokens are in no row: the output may end exactly where `is_accepting`.
    """

    start: StateId = LazyDfa.start

    def __init__(self, dfa: LazyDfa, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._dfa = dfa
        self._special = {token_id: name for name, token_id in vocabulary.special_token_ids.items()}
        self._table = RowTable(dfa, slices_of(vocabulary))
        self._tops: StackTops | None = None  # made when a state with deep stacks is met
        self._moves: dict[int, StateId | None] = {}
        self._likenesses: dict[Hashable, np.ndarray] = {}
        self._min_tokens: np.ndarray | None = None

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], vocabulary: Vocabulary) -> TokenIndex:
        """A closed index from what `to_arrays` gave; the arrays are used as they are."""
        index = cls(LazyDfa.from_tables(arrays["delta"], arrays["class_of"], arrays["accepting"]), vocabulary)
        rows = len(arrays["place"])
        states = len(arrays["row_of"])
        table = index._table
        table.rows = table.rows._replace(
            counts=np.array([rows, len(arrays["dense"]), len(arrays["lists"]), states, NOTHING, 0], np.int64),
            **{name: arrays[name] for name in _STORED_ROWS},
            notes=np.full((states, NUM_SLICED + 1), UNKNOWN, np.int32),
        )
        return index

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a closed index, cut to what is used."""
        delta, class_of, accepting = self._dfa.tables()
        rows = self._table.rows
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
        key = int(state) * self.vocabulary.size + int(token_id)
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
        following = self._dfa.advance(state, data)
        assert following != DEAD, "an allowed token survives"
        return following

    def mask(self, state: StateId) -> np.ndarray:
        """uint32[ceil(vocab / 32)], a view not to be written to: bit t % 32 of word t // 32 set = token t is allowed.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        return self._table.mask(self.row_id(state))

    def row_id(self, state: StateId) -> int:
        """Number of the state's row; equal rows have one number."""
        row = self._table.row_id(state)
        if row == UNKNOWN:
            self._check_states(state)
            self._dfa.budget.restart()
            self._fill(state)
            row = self._table.row_id(state)
        return row

    def _check_states(self, *states: StateId) -> None:
        """Kernels look at no bounds. Raises IndexError for what is no state."""
        for state in states:
            if not 0 <= state < self.num_states:
                raise IndexError(f"{state} is not one of the {self.num_states} states of the index")

    def _fill(self, state: StateId) -> None:
        """Computes the row of a state, where its stacks are deep by their tops first."""
        table, dfa = self._table, self._dfa
        answered = dfa.answered(state)
        if answered != state:
            table.share(self.row_id(answered), state)
            return
        stack_tops = self._stack_tops()
        if stack_tops is None:
            table.fill(state)
        elif dfa.remembers(state) and (tops := stack_tops.of(state)) is not None:
            self._fill_remembering(state, stack_tops, tops)
        else:
            stack_tops.fill(table, state)

    def _fill_remembering(self, state: StateId, stack_tops: StackTops, tops: int) -> None:
        """All but what comes after a question is the same for states that differ in what they remember alone."""
        before, after = stack_tops.open_by_kind(tops)
        key = tops, self._dfa.items_of(state)
        known = self._likenesses.get(key)
        if known is None:
            if len(self._likenesses) >= _MEMO_ROWS:
                self._likenesses.clear()
            self._complete(state, stack_tops.allowed(tops), before)
            known = self._likenesses[key] = self._table.mask(self._table.row_id(state)).copy()
        self._complete(state, known, after)

    def _complete(self, state: StateId, known: np.ndarray, ranges: np.ndarray) -> None:
        """The row of a state that allows the known tokens, and perhaps others of some ranges of nodes."""
        table, dfa = self._table, self._dfa
        table.run(
            lambda: direct(kernels.complete_row)(
                dfa.network, dfa.machine, table.slices, table.rows, state, known, ranges
            )
        )

    def tops_of(self, state: StateId) -> tuple[StackTops, int] | None:
        """The tops of a state with deep stacks, and what knows them.

        Raises:
            LimitExceeded: the automaton outgrew its limits.
        """
        stack_tops = self._stack_tops()
        tops = stack_tops.of(state) if stack_tops is not None else None
        return None if stack_tops is None or tops is None else (stack_tops, tops)

    def _stack_tops(self) -> StackTops | None:
        if self._tops is None and self._dfa.has_stacks:
            self._tops = StackTops(self._dfa, self._table.slices)
        return self._tops

    def is_accepting(self, state: StateId) -> bool:
        """May the output end here?"""
        return bool(self._dfa.machine.flags[state, ACCEPTING])

    # --- the whole index ----------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Every reachable state and its row are known."""
        return int(self._table.rows.counts[FILLED]) == self.num_states

    def close(self, budget: Budget | None = None, endless: bool = True) -> None:
        """Computes all states and rows; is_closed afterwards.

        Args:
            endless: an index that can be seen to have no end is computed all the same, up to a limit.

        Raises:
            LimitExceeded: a limit was reached; what was computed stays usable.
        """
        if budget is not None:
            self.use_budget(budget)
        self._dfa.budget.restart()
        looked_at = 0
        while not self.is_closed:
            limit = int(self._table.rows.counts[FILLED]) + _CHUNK
            self._table.run(lambda: kernels.fill_all(*self._table.arrays(), limit))  # noqa: B023 - called at once
            self._dfa.budget.check("the index", states=self.num_states, memory_bytes=self.memory_bytes)
            if not endless and self.num_states >= 2 * looked_at:  # each look is at all stacks
                looked_at = self.num_states
                if self._dfa.is_endless:
                    raise LimitExceeded("the index has no end: the constraint nests without a bound", limit="states")

    def use_budget(self, budget: Budget) -> None:
        """What the index may cost from now on."""
        self._dfa.budget = budget
        if self._tops is not None:
            self._tops.use_budget(budget)

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
            table = self._table
            table.run(lambda: drop_moves(self._dfa.machine, table.slices, table.rows, dead))
            self._moves.clear()
        return not dead[self.start]

    @property
    def is_crowded(self) -> bool:
        """Does the index still grow and has used up half of what it may, so that `forget_all_but` is due?"""
        limits = self._dfa.budget.limits
        states = max(self.num_states, self._tops.automaton.num_states if self._tops is not None else 0)
        crowded = states > limits.states // 2 or self.memory_bytes > limits.memory_bytes // 2
        return crowded and not self.is_closed

    def forget_all_but(self, states: Sequence[StateId]) -> list[StateId]:
        """Makes room: keeps these states, under the numbers that it returns, and the start. All other numbers are void.

        What was forgotten is found again when it is needed, so no answer changes. Only for an index that is not closed.

        Raises:
            LimitExceeded: these states alone are too much; nothing is forgotten then.
        """
        assert not self.is_closed, "every state of a closed index is needed"
        self._check_states(*states)
        self._dfa.budget.restart()
        kept = self._dfa.forget_all_but(np.array(states, np.int64))
        self._table = RowTable(self._dfa, self._table.slices)
        self._tops = None
        self._likenesses.clear()
        self._moves.clear()
        return kept.tolist()

    def min_tokens(self, state: StateId) -> int:
        """Fewest tokens from a state to an accepting one, the stop token not counted; closes the index first."""
        return int(self._distances()[state])

    def _distances(self) -> np.ndarray:
        if self._min_tokens is None or not self.is_closed:
            self.close()
            self._min_tokens = shortest_completions(*self._table.arrays(), self._check_graph)
        return self._min_tokens

    def max_tokens(self) -> int | None:
        """Most tokens from the start to an end, the stop token not counted; None = unbounded. Closes the index first."""
        reachable = self._distances() != UNREACHABLE
        begin, successors = token_graph(*self._table.arrays(), self._check_graph)
        kept = reachable[successors[: begin[-1]]]  # the others are dead ends, which no row leads to
        begin = np.concatenate([[0], np.cumsum(kept)])[begin]
        return longest_completion(begin, successors[: len(kept)][kept], self.start)

    def _check_graph(self, graph_bytes: int) -> None:
        self._dfa.budget.check("the token graph", memory_bytes=self.memory_bytes + graph_bytes)

    def accepts(self, text: str | bytes) -> bool:
        """Does the whole text satisfy the constraint? Byte level, no tokenizer involved. No answer has a lone surrogate.

        Raises:
            TypeError: neither a string nor bytes.
        """
        if not isinstance(text, str | bytes):
            raise TypeError(f"a text is a string or bytes, not {type(text).__name__}")
        self._dfa.budget.restart()
        try:
            return self._dfa.matches(text.encode() if isinstance(text, str) else text)
        except UnicodeEncodeError:
            return False

    @property
    def automaton(self) -> LazyDfa:
        """What the index walks over."""
        return self._dfa

    @property
    def table(self) -> RowTable:
        """The rows of the states."""
        return self._table

    @property
    def num_states(self) -> int:
        """States known so far."""
        return self._dfa.num_states

    @property
    def num_rows(self) -> int:
        """Distinct rows known so far."""
        return int(self._table.rows.counts[ROW_COUNT])

    @property
    def memory_bytes(self) -> int:
        tops = self._tops.memory_bytes if self._tops is not None else 0
        return self._dfa.memory_bytes + self._table.memory_bytes + tops
