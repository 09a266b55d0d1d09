"""The recogniser that every front end builds: a recursive transition network over bytes; knows no vocabulary and no syntax.

A network is a set of *rules*; a rule is a non-deterministic automaton whose edges read one byte out of a set, read nothing, or
*call* another rule and go on when that rule is through. A regular language needs one rule, a recursive schema or a
grammar several (Woods, "Transition Network Grammars for Natural Language Analysis", 1970). A configuration of the running
network is a set of (state, stack of return states) pairs; `LazyDfa` interns configurations and so determinises the network
on demand.

Rules can be built late: `rule(build)` registers a function that is called once, at the latest when a configuration first reaches the
rule, and that adds the rule's states then. So a large schema costs what the output visits, and a rule may stand for one of
infinitely many situations (which properties are still missing, how many items were written).

What comes may depend on the very text of a value that was read, as where no two items of an array may be equal. A *mark* is set where
the value begins; from there on what is read is remembered, until an edge *forgets* the mark, or *asks* a question: its function gets
the text since the mark and says from which state it goes on. A question is put when something is read after it, not before.

What front ends must keep:
- **Alive**: from every state some final state of its rule can be reached, calls included. A network without late
  rules is put in order by `trim`; who builds late may only add edges that can be completed.
- **No left recursion**: a chain of calls and empty edges must not lead from a rule to itself.
- **Sealed**: edges are added to a state before the network runs through it: in the same `build` call at the latest.
- **Exits answered**: a state that a call returns to has a `resume` edge for each exit that the called rule can end with.
- **Marks forgotten**: a rule forgets each mark that it sets before it ends, by `forget` or `ask`.
- Only bytes of valid UTF-8 are read; byte 0xFF stands for special tokens: the token named `<|x|>` is the byte
  string `special_token_bytes("<|x|>")`.
"""

from __future__ import annotations

import contextlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from guided.errors import LimitExceeded

BYTES, EPSILON, CALL, CALL_AGAIN, RESUME, MARK, FORGET, ASK = range(8)  # kinds of edges
CALLS = (CALL, CALL_AGAIN)
NEXT, KIND, LABEL, TARGET = range(4)  # numbers of an edge
PLAIN = 1  # how most final states end their rule; exit k is 2 + k

ByteSet = int  # bit b set = byte b is in the set


def byte_range(lo: int, hi: int) -> ByteSet:
    """The set of bytes lo..hi, both included."""
    return (1 << (hi + 1)) - (1 << lo)


def byte_set(values: Iterable[int]) -> ByteSet:
    """The set of the given bytes."""
    bits = 0
    for value in values:
        bits |= 1 << value
    return bits


def special_token_bytes(name: str) -> bytes:
    """The byte string that stands for a special token; no text contains byte 0xFF."""
    return b"\xff" + name.encode() + b"\xff"


class Network:
    """A network under construction and, through late rules, while it runs.

    Flat, growable arrays, appended to and never changed behind `sealed` states, so that they can be mirrored piece by piece:
        first_edge[state]                    its newest edge, -1: none
        edges[4 * edge + ...]                NEXT: the next edge of the same state, -1 ends the list; KIND; LABEL: id of a byte set
                                             (BYTES), of a rule (CALL, CALL_AGAIN), of a question (ASK), exit (RESUME); TARGET
        final[state]                         the rule of this state may end here: 0 no, PLAIN, or 2 + exit
        rule_start[rule]                     start state, -1 while the rule is not built
        byte_sets[id]                        the interned byte sets
        text_states                          states that were declared to read any text
    """

    def __init__(self) -> None:
        self.first_edge = array("i")
        self.final = array("i")
        self.edges = array("i")
        self.rule_start = array("i")
        self.byte_sets: list[ByteSet] = []
        self.text_states: list[int] = []
        self._byte_set_ids: dict[ByteSet, int] = {}
        self._byte_labels = [-1] * 256  # of the sets of one byte
        self._builders: dict[int, Callable[[], int]] = {}
        # What was added by functions, in this order: a rule, or a question (as -1 - its number) and the text that it got.
        self.late_rules: list[int | tuple[int, bytes]] = []
        self._questions: list[Callable[[bytes], int]] = []
        self._answers: dict[tuple[int, bytes], int] = {}
        self._ahead: deque[int] = deque()  # late rules that `build_ahead` may build
        self.root = -1  # the rule that the whole output matches
        self.special_tokens: dict[str, list[tuple[int, int]]] = {}  # name -> where it is read: (source, target)
        self.token_places: dict[str, dict[str, Any]] = {}  # name -> its place, as a `ConstraintError` takes it

    # --- states and edges -------------------------------------------------------------------------------------------

    def state(self, final: bool = False, exit: int | None = None) -> int:
        """A new state. With `exit` it is final, and the caller goes on over its `resume` edges for this exit only."""
        self.first_edge.append(-1)
        self.final.append(int(final) if exit is None else 2 + exit)
        return len(self.final) - 1

    def reads_text(self, state: int) -> None:
        """Declares that a state reads whatever text comes, but for quotes, backslashes and control characters, and for ever.

        So who asks which tokens may come next need not look at what they lead to, one by one.
        """
        self.text_states.append(state)

    def edge(self, source: int, symbols: ByteSet, target: int) -> None:
        """From source to target over any byte of the set (not empty)."""
        assert symbols, "an edge over no byte is dead"
        self._edge(source, BYTES, self.byte_set_id(symbols), target)

    def epsilon(self, source: int, target: int) -> None:
        """From source to target, reading nothing."""
        self._edge(source, EPSILON, 0, target)

    def call(self, source: int, rule: int, target: int, absorbing: bool = False) -> None:
        """From source through the whole of `rule` to target. A PLAIN final target without edges costs no stack.

        Args:
            absorbing: what may follow target in its rule may as well follow it twice (a loop, L L = L), so a return to
                target right above another return to target is left out.
        """
        self._edge(source, CALL_AGAIN if absorbing else CALL, rule, target)

    def resume(self, source: int, exit: int, target: int) -> None:
        """Where a call that returns to source goes on, if the called rule ended with this exit."""
        self._edge(source, RESUME, exit, target)

    def mark(self, source: int, target: int) -> None:
        """From source to target, reading nothing; from there on what is read is remembered."""
        for byte in range(0xF5):  # of a text each byte counts
            self._byte_label(byte)
        self._edge(source, MARK, 0, target)

    def forget(self, source: int, target: int) -> None:
        """From source to target, reading nothing; the last mark is taken away."""
        self._edge(source, FORGET, 0, target)

    def ask(self, source: int, question: Callable[[bytes], int], stand_in: int) -> None:
        """From source, reading nothing, to the state that `question` gives for the text since the last mark, which is taken away.

        The function adds states and gives one of them, which asks nothing before it reads; it is asked for each text once.

        Args:
            stand_in: from here a rule needs at least as many bytes to its end as after any answer. For who only wants to know that.
        """
        self._questions.append(question)
        self._edge(source, ASK, len(self._questions) - 1, stand_in)

    def literal(self, source: int, data: bytes, target: int) -> None:
        """From source to target over exactly `data`."""
        if not data:
            self.epsilon(source, target)
            return
        labels = list(map(self._byte_label, data))
        first, more = len(self.final), len(data) - 1
        self._edge(source, BYTES, labels[0], first if more else target)
        if more:  # a chain of states with one edge each
            edge = self.num_edges
            self.first_edge.extend(range(edge, edge + more))
            self.final.frombytes(bytes(self.final.itemsize * more))
            edges = [-1, BYTES, 0, 0] * more
            edges[LABEL::4] = labels[1:]
            edges[TARGET::4] = [*range(first + 1, first + more), target]
            self.edges.fromlist(edges)

    def special_token(self, source: int, name: str, target: int) -> None:
        """From source to target over one special token. Which names there are is known once there is a vocabulary."""
        self.special_tokens.setdefault(name, []).append((source, target))
        self.literal(source, special_token_bytes(name), target)

    def _edge(self, source: int, kind: int, label: int, target: int) -> None:
        first_edge, edges = self.first_edge, self.edges
        edge = len(edges) >> 2
        edges.extend((first_edge[source], kind, label, target))
        first_edge[source] = edge

    @property
    def num_edges(self) -> int:
        return len(self.edges) >> 2

    def extend(
        self, final: np.ndarray, source: np.ndarray, kind: np.ndarray, label: np.ndarray, target: np.ndarray
    ) -> int:
        """Many new states and their edges at once; returns the id of the first new state.

        Args:
            final: bool[num_new_states].
            source: int[num_edges], counted from the first new state.
            kind, label, target: int[num_edges], as in the network: labels are ids, targets any states.
        """
        base, first_edge_id, count = len(self.final), self.num_edges, len(source)
        order = np.argsort(source, kind="stable")
        source = source[order]
        opens = np.ones(count + 1, dtype=bool)  # the edge is the first of its source; one more closes the last list
        np.not_equal(source[1:], source[:-1], out=opens[1:count])
        following = np.arange(first_edge_id + 1, first_edge_id + count + 1, dtype=np.int32)
        following[opens[1:]] = -1
        first_edge = np.full(len(final), -1, dtype=np.int32)
        first_edge[source[opens[:count]]] = np.flatnonzero(opens[:count]) + first_edge_id
        _append(self.first_edge, first_edge)
        _append(self.final, final)
        _append(self.edges, np.column_stack([following, kind[order], label[order], target[order]]))
        return base

    def include(self, part: Network) -> int:
        """Copies a network without late rules into this one; returns the rule that is its root here."""
        assert part.is_complete
        if not self.rule_start and not self.final:
            return self._begin_with(part)
        states, rules = len(self.final), len(self.rule_start)
        table, reads, calls = part._table
        assert len(table) == part.num_edges, "a part is complete when it is first copied"
        table = table.copy()
        labels = np.array([self.byte_set_id(symbols) for symbols in part.byte_sets], dtype=np.int32)
        table[reads, LABEL] = labels[table[reads, LABEL]]
        table[calls, LABEL] += rules
        table[:, NEXT] = _shifted(table[:, NEXT], self.num_edges)
        table[:, TARGET] += states
        _append(self.first_edge, _shifted(part.first_edge, self.num_edges))
        _append(self.rule_start, _shifted(part.rule_start, states))
        _append(self.edges, table)
        self.final.extend(part.final)
        for name, uses in part.special_tokens.items():
            self.special_tokens.setdefault(name, []).extend((source + states, to + states) for source, to in uses)
        self.token_places |= part.token_places
        self.text_states.extend(state + states for state in part.text_states)
        return rules + part.root

    def _begin_with(self, part: Network) -> int:
        """`include` where there is nothing yet: all numbers stay the same."""
        for name in ("first_edge", "final", "edges", "rule_start", "byte_sets", "text_states", "_byte_labels"):
            setattr(self, name, getattr(part, name)[:])
        self._byte_set_ids = part._byte_set_ids.copy()
        self.special_tokens = {name: uses.copy() for name, uses in part.special_tokens.items()}
        self.token_places = part.token_places.copy()
        return part.root

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges, int32[edges, 4], of a network that is complete and copied over and over; which read bytes, which call."""
        table = np.array(self.edges, dtype=np.int32).reshape(-1, 4)
        calls = np.flatnonzero((table[:, KIND] == CALL) | (table[:, KIND] == CALL_AGAIN))
        return table, np.flatnonzero(table[:, KIND] == BYTES), calls

    def _byte_label(self, byte: int) -> int:
        """The label of edges over one byte."""
        known = self._byte_labels[byte]
        if known < 0:
            known = self._byte_labels[byte] = self.byte_set_id(1 << byte)
        return known

    def byte_set_id(self, symbols: ByteSet) -> int:
        """The label of edges over a set of bytes."""
        known = self._byte_set_ids.get(symbols)
        if known is None:
            known = self._byte_set_ids[symbols] = len(self.byte_sets)
            self.byte_sets.append(symbols)
        return known

    # --- rules ------------------------------------------------------------------------------------------------------

    def rule(self, build: Callable[[], int] | None = None, ahead: bool = False) -> int:
        """A new rule; `build` adds its states when it is first reached and returns the start state.

        Args:
            ahead: many outputs reach it and it is soon built, so `build_ahead` may build it before.
        """
        self.rule_start.append(-1)
        rule = len(self.rule_start) - 1
        if build is not None:
            self._builders[rule] = build
            if ahead:
                self._ahead.append(rule)
        return rule

    def define(self, rule: int, start: int) -> None:
        """Gives a rule its start state; a late rule needs no building then."""
        assert self.rule_start[rule] == -1, "a rule is defined once"
        self._builders.pop(rule, None)
        self.rule_start[rule] = start

    def build(self, rule: int) -> int:
        """The start state of a rule, built now if it has not been."""
        if self.rule_start[rule] == -1:
            self.late_rules.append(rule)
            try:
                start = self._builders[rule]()
            except BaseException:  # a limit, mostly: who asks again finds the rule as it was, and asks it anew
                self.late_rules.remove(rule)
                raise
            del self._builders[rule]
            if self.rule_start[rule] == -1:  # the builder may have defined it itself
                self.rule_start[rule] = start
        return self.rule_start[rule]

    def build_ahead(self, rules: int) -> None:
        """Builds late rules that were registered for it, in the order in which they came up, until the network has built so many.

        Together they cost less than one by one while the network runs, where each stops a kernel and is mirrored alone.
        """
        with contextlib.suppress(LimitExceeded):  # who reaches that rule is told
            while self._ahead and len(self.late_rules) < rules:
                self.build(self._ahead.popleft())

    def answer(self, question: int, text: bytes) -> int:
        """The state from which it goes on after a question."""
        known = self._answers.get((question, text))
        if known is None:
            self.late_rules.append((-1 - question, text))
            try:
                known = self._answers[(question, text)] = self._questions[question](text)
            except BaseException:
                self.late_rules.remove((-1 - question, text))
                raise
        return known

    @property
    def size(self) -> tuple[int, int, int, int]:
        """How many states, edges, rules (built or not) and byte sets there are."""
        return len(self.final), self.num_edges, len(self.rule_start), len(self.byte_sets)

    def build_all(self) -> None:
        """Builds every rule, and those that come with it: for networks that are known to have an end."""
        rule = 0
        while rule < len(self.rule_start):
            self.build(rule)
            rule += 1

    @property
    def is_complete(self) -> bool:
        """Every rule is built, and nothing is asked."""
        return not self._builders and not self._questions

    @property
    def has_late_rules(self) -> bool:
        """Some rules are built late, or were."""
        return bool(self._builders or self.late_rules)

    def edges_of(self, state: int) -> list[tuple[int, int, int]]:
        """(kind, label, target) of each edge of a state, newest first."""
        found, edge = [], self.first_edge[state]
        while edge >= 0:
            following, kind, label, target = self.edges[4 * edge : 4 * edge + 4]
            found.append((kind, label, target))
            edge = following
        return found

    # --- liveness ---------------------------------------------------------------------------------------------------

    def lose_bytes(self, missing: ByteSet) -> bool:
        """Takes bytes that cannot be written out of every byte set; True if an edge lost all it had: then `trim` is due."""
        emptied = False
        for label, symbols in enumerate(self.byte_sets):
            self.byte_sets[label] = symbols & ~missing
            emptied = emptied or not self.byte_sets[label]
        return emptied

    def trim(self) -> bool:
        """Drops every edge that cannot be part of a complete string; False if the root matches no string at all.

        Only for networks without late rules. The least fixed point of "can reach a final state of its rule", by a
        worklist over reversed edges; a call edge counts once the called rule's start state does.
        """
        assert self.is_complete
        waiting = self._users_of_states()
        productive = np.zeros(len(self.final), dtype=bool)
        worklist = [state for state, final in enumerate(self.final) if final]
        productive[worklist] = True
        while worklist:
            for source, kind, label, target in waiting.get(worklist.pop(), ()):
                started = kind not in CALLS or productive[self.rule_start[label]]
                if not productive[source] and started and productive[target]:
                    productive[source] = True
                    worklist.append(source)
        for state in range(len(self.final)):
            self._drop_dead_edges(state, productive)
        return bool(productive[self.rule_start[self.root]])

    def _users_of_states(self) -> dict[int, list[tuple[int, int, int, int]]]:
        """state -> the edges (source, kind, label, target) that become useful when the state becomes productive."""
        users: dict[int, list[tuple[int, int, int, int]]] = {}
        for state in range(len(self.final)):
            for kind, label, target in self.edges_of(state):
                if kind == BYTES and not self.byte_sets[label]:
                    continue
                edge = (state, kind, label, target)
                users.setdefault(target, []).append(edge)
                if kind in CALLS:
                    users.setdefault(self.rule_start[label], []).append(edge)
        return users

    def _drop_dead_edges(self, state: int, productive: np.ndarray) -> None:
        previous, edge = -1, self.first_edge[state]
        while edge >= 0:
            following, kind, label, target = self.edges[4 * edge : 4 * edge + 4]
            passable = (
                self.byte_sets[label] if kind == BYTES else kind not in CALLS or productive[self.rule_start[label]]
            )
            if productive[target] and passable:
                previous = edge
            elif previous < 0:
                self.first_edge[state] = following
            else:
                self.edges[4 * previous + NEXT] = following
            edge = following


def _shifted(numbers: array | np.ndarray, offset: int) -> np.ndarray:
    """Numbers that refer to something, which has moved by `offset`; -1 refers to nothing."""
    values = np.array(numbers, dtype=np.int32)
    return np.where(values >= 0, values + np.int32(offset), values)


def _append(flat: array, values: np.ndarray) -> None:
    """Appends numbers to a growable array without a step per number."""
    flat.frombytes(values.astype(flat.typecode, copy=False).tobytes())
