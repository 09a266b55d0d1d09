"""A network is determinised on demand: byte strings go in, dense integer states come out; knows no vocabulary.

State 0 is the start. An entry of `delta[state, class]` is filled when it is first needed, with those that are alike; `class_of`
maps a byte to its class, and bytes that no edge tells apart share one. Late rules may bring byte sets that split a
class: then the column is copied, which is right because both halves behaved alike in every state known so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from guided.automaton import byte_classes, closure, kernels
from guided.automaton.direct import direct
from guided.automaton.keep import carry_over
from guided.automaton.machine import (
    ACCEPTING,
    ANSWERED,
    ASKS,
    CLASSES,
    CONFIGS,
    DEAD,
    EDGES,
    EXPANDED,
    FINAL,
    FIRST_EDGE,
    FULL_ARRAY,
    GROW,
    NEEDED_ANSWER,
    NEEDED_RULES,
    NEEDS_ANSWER,
    NEEDS_RULE,
    REMEMBERED,
    STACKS,
    TEXT,
    UNKNOWN,
    WORK,
    new_machine,
    new_network,
    until_done,
    with_room,
)
from guided.automaton.network import ASK, Network
from guided.automaton.packed import nbytes
from guided.automaton.stack_sets import (
    BELOW,
    FIRST_CELL,
    FIRST_LETTER,
    FIRST_MARK,
    MARKED,
    TOP,
)
from guided.errors import LimitExceeded, Unsatisfiable
from guided.limits import Budget

_CLASS_CAPACITY = 32  # columns of delta to begin with
_AHEAD = 60  # late rules built before the start: more of them make later states cheaper, and the first one dearer


class LazyDfa:
    """The deterministic automaton of a network, as far as it has been visited.

    Attributes:
        network, machine: arrays for the kernels; replaced when they grow, so fetch them anew for each kernel call.
    """

    start = 0
    _known_texts = 0  # of the network's `text_states`, how many the arrays have

    def __init__(self, network: Network, budget: Budget) -> None:
        """Raises Unsatisfiable where the network matches nothing."""
        self.source = network
        self.budget = budget
        self.split_from = np.zeros(256, np.uint8)  # class -> the class that it was part of before
        self.machine = new_machine(_CLASS_CAPACITY)
        self.machine.counts[CLASSES] = 1
        self.network = new_network(_CLASS_CAPACITY)
        self._mirrored = (0, 0, 0, 0)  # states, edges, rules and byte sets that the arrays have
        start = network.build(network.root)
        network.build_ahead(_AHEAD)
        self._sync()
        if self.run(lambda: direct(closure.start)(self.network, self.machine, start)) == DEAD:
            raise Unsatisfiable("nothing satisfies the constraint")

    @classmethod
    def from_tables(cls, delta: np.ndarray, class_of: np.ndarray, accepting: np.ndarray) -> LazyDfa:
        """A complete automaton from its tables, without the network that it came from.

        Args:
            delta: int32[states, classes], -1 = dead; state 0 is the start.
            class_of: uint8[256].
            accepting: uint8[states].
        """
        dfa = cls.__new__(cls)
        dfa.source, dfa.budget = Network(), Budget()
        dfa.split_from = np.zeros(256, np.uint8)
        dfa._mirrored = (0, 0, 0, 0)
        states, classes = delta.shape
        flags = np.zeros((states, 4), np.uint8)
        flags[:, EXPANDED] = 1  # the network is never asked
        flags[:, ACCEPTING] = accepting
        dfa.machine = new_machine(1, configs=1)._replace(delta=delta, class_of=class_of, flags=flags)
        dfa.machine.counts[CONFIGS], dfa.machine.counts[CLASSES] = states, classes
        dfa.network = new_network(classes=1)
        return dfa

    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """delta, class_of and accepting as `from_tables` takes them; only where every state is expanded."""
        states = self.num_states
        flags = self.machine.flags[:states]
        assert flags[:, EXPANDED].all(), "the automaton is complete"
        return self.machine.delta[:states, : self.num_classes], self.machine.class_of, flags[:, ACCEPTING]

    # --- what the rest of the pipeline asks ----------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        """States interned so far."""
        return int(self.machine.counts[CONFIGS])

    @property
    def network_size(self) -> tuple[int, int, int, int]:
        """How many states, edges, rules and byte sets of the network the arrays have."""
        return self._mirrored

    @property
    def num_classes(self) -> int:
        return int(self.machine.counts[CLASSES])

    def is_accepting(self, state: int) -> bool:
        return bool(self.machine.flags[state, ACCEPTING])

    def step(self, state: int, byte: int) -> int:
        """The state after one more byte, DEAD (-1) where it is not allowed."""
        return self.advance(state, bytes((byte,)))

    def advance(self, state: int, data: bytes) -> int:
        """The state after `data`, DEAD where it leaves the language."""
        delta, class_of = self.machine.delta, self.machine.class_of
        for place, byte in enumerate(data):
            following = int(delta[state, class_of[byte]])
            if following == UNKNOWN:
                rest = np.frombuffer(data[place:], np.uint8)
                return self.run(lambda: direct(kernels.advance)(self.network, self.machine, state, rest))  # noqa: B023 - called at once
            if following == DEAD:
                return DEAD
            state = following
        return state

    def matches(self, data: bytes) -> bool:
        """Is the whole of `data` in the language?"""
        state = self.advance(self.start, data)
        return state != DEAD and self.is_accepting(state)

    @property
    def has_stacks(self) -> bool:
        """Has any configuration a stack that is not empty?"""
        return int(self.machine.counts[STACKS]) > FIRST_CELL

    @property
    def is_endless(self) -> bool:
        """Has a stack, as far as they are known, a return state twice? What led from one to the other leads on and on."""
        number: dict[int, int] = {}
        inside = [0] * FIRST_CELL  # for each set of stacks the return states that occur in it, as bits
        for top, below, rest, _ in self.machine.stacks[FIRST_CELL : int(self.machine.counts[STACKS])].tolist():
            bit = 1 << number.setdefault(top, len(number))
            if inside[below] & bit:
                return True
            inside.append(inside[below] | inside[rest] | bit)
        return False

    def remembers(self, state: int) -> bool:
        """Is the text that was read part of the state? Then it is one of very many, and each token leads to one of its own."""
        return bool(self.machine.texts[state, REMEMBERED])

    def items_of(self, state: int) -> bytes:
        """Equal for states that differ in what they remember alone."""
        begin, end = self.machine.config_begin[state : state + 2]
        return self.machine.items[begin:end].tobytes()

    def answered(self, state: int) -> int:
        """The state with its questions answered, from which the same comes; most have none."""
        if not self.machine.flags[state, ASKS]:
            return state
        if self.machine.texts[state, ANSWERED] == UNKNOWN:
            self._answer(state)
        answered = int(self.machine.texts[state, ANSWERED])
        return state if answered == DEAD else answered

    @property
    def memory_bytes(self) -> int:
        return nbytes(self.machine) + nbytes(self.network)

    def forget_all_but(self, states: np.ndarray) -> np.ndarray:
        """int64[n]: the new numbers of these states, int64[n]; all others are forgotten, but for the start, and found anew.

        Raises:
            LimitExceeded: they alone are too many; nothing is forgotten then.
        """
        old = self.machine
        configs = np.concatenate([[self.start], states]).astype(np.int64)
        kept, stack_sets = np.empty_like(configs), np.empty(int(old.counts[STACKS]), np.int64)
        self.machine = new_machine(old.delta.shape[1])._replace(class_of=old.class_of)
        self.machine.counts[CLASSES] = old.counts[CLASSES]
        try:
            self.run(lambda: carry_over(old, configs, self.machine, stack_sets, kept))
        except LimitExceeded:
            self.machine = old
            raise
        return kept[1:]

    # --- running kernels ----------------------------------------------------------------------------------------------

    def run(self, kernel: Callable[[], int | tuple[int, int]]) -> int:
        """Calls a kernel until it is done, making room and building rules as it asks; its result, if it has one.

        Raises:
            LimitExceeded: too many states, too much memory or time.
        """
        return until_done(kernel, self.attend)

    def attend(self, status: int) -> None:
        """Gives a kernel that stopped what it stopped for: room, a rule or an answer.

        Raises:
            LimitExceeded: too many states, too much memory or time.
        """
        self.budget.check("the automaton", states=self.num_states, memory_bytes=self.memory_bytes)
        if status == NEEDS_RULE:
            self.build_rules(self.machine.needed[: self.machine.counts[NEEDED_RULES]].tolist())
        elif status == NEEDS_ANSWER:
            self._answer(int(self.machine.counts[NEEDED_ANSWER]))
        else:
            self._make_room()

    def build_rules(self, rules: list[int]) -> None:
        """Builds late rules, at least one, into the network and its mirror."""
        first, *others = rules
        self.source.build(first)  # a stored network gives way to the real one, or says that there is none
        try:
            for rule in others:
                self.source.build(rule)
        finally:
            self._sync()

    def _answer(self, config: int) -> None:
        """Has the questions of a configuration answered, with the text that each of its stacks remembers."""
        items: list[tuple[int, int]] = []
        begin, end = self.machine.config_begin[config : config + 2].tolist()
        for state, stacks in self.machine.items[begin:end].tolist():
            questions = self._questions_of(state)
            items.append((state, stacks))
            while questions and stacks >= FIRST_CELL:
                top, below, stacks, _ = self.machine.stacks[stacks].tolist()
                if top <= FIRST_MARK:
                    text = self._text(config, FIRST_MARK - top)
                    items += ((self.source.answer(question, text), below) for question in questions)
        self._sync()
        after = np.array(items, np.int64).reshape(-1, 2)
        self.run(lambda: direct(closure.answer)(self.network, self.machine, config, after))

    def _questions_of(self, state: int) -> list[int]:
        found, edge = [], int(self.network.states[state, FIRST_EDGE])
        while edge >= 0:
            following, kind, label, _ = self.network.edges[edge].tolist()
            if kind == ASK:
                found.append(label)
            edge = following
        return found

    def _text(self, config: int, begin: int) -> bytes:
        """What a configuration remembers, from a byte on."""
        letters, cell = [], int(self.machine.texts[config, REMEMBERED])
        while cell >= FIRST_CELL and self.machine.stacks[cell, MARKED] > begin:
            letters.append(FIRST_LETTER - int(self.machine.stacks[cell, TOP]))
            cell = int(self.machine.stacks[cell, BELOW])
        byte_of = np.empty(256, np.uint8)
        byte_of[self.machine.class_of] = np.arange(256)  # of a text each byte is a class
        return byte_of[letters[::-1]].tobytes()

    def _sync(self) -> None:
        """Mirrors what was added to the network since the last time; rooms double, so that late rules cost what they add."""
        source, arrays = self.source, self.network
        known_states, known_edges, known_rules, known_sets = self._mirrored
        states, edges, rules, sets = source.size
        self.network = arrays._replace(
            states=with_room(arrays.states, known_states, states),
            edges=with_room(arrays.edges, known_edges, edges),
            rule_start=with_room(arrays.rule_start, known_rules, rules),
            set_has_class=with_room(arrays.set_has_class, known_sets, sets),
        )
        new = self.network.states[known_states:states]
        new[:, FIRST_EDGE] = np.asarray(source.first_edge)[known_states:]
        new[:, FINAL] = np.asarray(source.final)[known_states:]
        new[:, TEXT] = 0
        self.network.edges[known_edges:edges] = np.asarray(source.edges).reshape(-1, 4)[known_edges:]
        self.network.rule_start[:rules] = np.asarray(source.rule_start)
        if self._known_texts < len(source.text_states):
            self.network.states[source.text_states[self._known_texts :], TEXT] = 1
            self._known_texts = len(source.text_states)
        self._mirrored = states, edges, rules, sets
        if known_sets < sets:
            self._learn_sets(known_sets)

    def _learn_sets(self, known_sets: int) -> None:
        """Refines the byte classes by the byte sets from number `known_sets` on."""
        new_sets = self.source.byte_sets[known_sets:]
        packed = np.frombuffer(b"".join(symbols.to_bytes(32, "little") for symbols in new_sets), np.uint8)
        packed = packed.reshape(len(new_sets), 32)
        known = self.num_classes
        classes = byte_classes.split(packed, self.machine.class_of, self.split_from, known)
        has_class = byte_classes.with_classes(self.network.set_has_class, known_sets, self.split_from, known, classes)
        byte_classes.note_members(packed, self.machine.class_of, has_class[known_sets:])
        self.network = self.network._replace(set_has_class=has_class)
        self._split_columns(classes)

    def _split_columns(self, classes: int) -> None:
        """Columns of delta for classes that are new: each half of a class behaved like the other in every state so far."""
        delta = byte_classes.with_classes(
            self.machine.delta, self.num_states, self.split_from, self.num_classes, classes
        )
        self.machine = self.machine._replace(delta=delta)
        self.machine.counts[CLASSES] = classes

    def _make_room(self) -> None:
        """Doubles the arrays that the kernel found full."""
        full = int(self.machine.counts[FULL_ARRAY])
        self.machine = GROW[full](self.machine)
        if full in (WORK, EDGES):
            self.budget.check("one step of the automaton", states=self.machine.queue.shape[0])
