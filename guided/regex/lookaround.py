"""Assertions out of an automaton: one with lookaheads and lookbehinds in, a plain one of the same language out.

The idea is that of alternating automata and of derivatives with lookarounds (Miyazaki and Minamide, "Derivatives of
Regular Expressions with Lookahead", 2019; Varatalu, Veanes and Ernits, "RE#", POPL 2025), run as a product that is
explored from the start. A state of the result is

    (state, pending, behind)

- *pending*: what the lookaheads that were passed still ask of the text to come: a set of (negative, configuration);
  a configuration is the set of places where the body of the lookahead may be, each with pending lookaheads of its own.
  Bodies run as sets, deterministically, so a negative lookahead is the same thing with the answer turned round.
- *behind*: per lookbehind, the configuration of its body started at every place so far. Whether a lookbehind holds
  here is whether that configuration contains the end of the body. It is kept up only where a test of it is no farther
  ahead than the body is wide; anything that started earlier would have ended before the test.

Everything nests: a body may test other bodies, of either kind. Tests elsewhere do not cost anything: states that have
nothing pending and no test near are copied as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from guided.automaton.char_nfa import CharNfa
from guided.automaton.charset import CharSet, partition
from guided.limits import Budget

Pending = frozenset  # of (negative: bool, Config)
Config = frozenset  # of threads (state, Pending)
Behind = tuple  # of Config, one per body; empty: not kept up

_NONE: Pending = frozenset()
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class Body:
    """A lookaround's body inside the automaton; `width`: most characters that it reads, None = unbounded."""

    start: int
    end: int
    behind: bool
    width: int | None


class AssertingNfa(CharNfa):
    """A `CharNfa` with edges that read nothing and hold only where a body matches."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Body] = []  # a body comes after the bodies that it tests
        self.tests: dict[int, list[tuple[int, bool, int]]] = {}  # state -> (body, negative, target)

    def add_body(self, start: int, end: int, behind: bool, width: int | None) -> int:
        self.bodies.append(Body(start, end, behind, width))
        return len(self.bodies) - 1

    def test(self, source: int, body: int, negative: bool, target: int) -> None:
        self.tests.setdefault(source, []).append((body, negative, target))


def resolve(nfa: AssertingNfa, budget: Budget) -> CharNfa:
    """The automaton without tests.

    Raises:
        LimitExceeded: the product has more states than `limits.states`, or out of time.
    """
    return _Product(nfa, budget).explore()


class _Product:
    def __init__(self, nfa: AssertingNfa, budget: Budget) -> None:
        self.nfa = nfa
        self.budget = budget
        self.reach = _Reach(nfa)
        self._split_characters()
        self._after: dict[tuple, tuple | None] = {}
        self._work = 0
        self._step_cache: dict[tuple, list[tuple[tuple, tuple[int, ...]]]] = {}
        self._unions: dict[tuple[int, ...], CharSet] = {}
        self.out = CharNfa()
        self.nothing: Behind = (_NONE,) * len(nfa.bodies)
        self.ids: dict[tuple, int] = {}  # product state -> state of `out`
        self.free_ids = [-1] * nfa.num_states  # the same for states with nothing pending and no lookbehind kept up
        self.order: list[tuple] = []  # (state of `out`, *product state) in order of discovery

    def _split_characters(self) -> None:
        """Classes of characters that some edge tells apart, as far as the main automaton reads them at all."""
        main = self.reach.main
        readable = CharSet.from_ranges(r for s in {c for q in main for c, _ in self.nfa.arcs[q]} for r in s.ranges)
        distinct = list({characters: None for arcs in self.nfa.arcs for characters, _ in arcs})
        self.classes, members = partition([characters & readable for characters in distinct])
        self.classes_of = {c: np.flatnonzero(row).tolist() for c, row in zip(distinct, members, strict=True)}
        self._targets: list[dict[int, list[int]] | None] = [None] * self.nfa.num_states

    def targets(self, state: int, char_class: int) -> list[int]:
        """Where the edges of a state lead over a class."""
        table = self._targets[state]
        if table is None:
            table = self._targets[state] = {}
            for characters, target in self.nfa.arcs[state]:
                for index in self.classes_of[characters]:
                    table.setdefault(index, []).append(target)
        return table.get(char_class, [])

    # --- exploration ------------------------------------------------------------------------------------------------

    def explore(self) -> CharNfa:
        """Every state that is reached from the start, with empty edges where the automaton has empty edges or tests."""
        nfa, out = self.nfa, self.out
        start = self._key(nfa.start, _NONE, self._behind_after(None, None))
        self.ids[start] = out.start
        self.order.append((out.start, *start))
        for source, state, pending, behind in self.order:  # grows while it is walked
            self._tick()
            if state in nfa.accepting and _holds_at_end(pending, self.reach.ends):
                out.accepting.add(source)
            if not pending and not any(behind):
                self._copy(source, state)
                continue
            for target in nfa.empty[state]:
                out.epsilon(source, self._id(self._key(target, pending, behind)))
            self._cross_tests(source, state, pending, behind)
            for characters, target in nfa.arcs[state]:
                self._read(source, pending, behind, characters, target)
        return out

    def _copy(self, source: int, state: int) -> None:
        """The edges of a state with nothing pending and no lookbehind near, as they are where they lead to more of the same."""
        for target in self.nfa.empty[state]:
            self.out.empty[source].append(self._free_id(target))
        self._cross_tests(source, state, _NONE, self.nothing)
        for characters, target in self.nfa.arcs[state]:
            if self.reach.near[target]:
                self._read(source, _NONE, self.nothing, characters, target)
            else:
                self.out.arcs[source].append((characters, self._free_id(target)))

    def _cross_tests(self, source: int, state: int, pending: Pending, behind: Behind) -> None:
        for body, negative, target in self.nfa.tests.get(state, ()):
            for crossed in self._cross(body, negative, pending, behind):
                self.out.epsilon(source, self._id(self._key(target, crossed, behind)))

    def _free_id(self, state: int) -> int:
        known = self.free_ids[state]
        if known < 0:
            known = self.free_ids[state] = self.out.state()
            self.order.append((known, state, _NONE, self.nothing))
        return known

    def _id(self, key: tuple) -> int:
        if not key[1] and not any(key[2]):
            return self._free_id(key[0])
        known = self.ids.get(key)
        if known is None:
            known = self.ids[key] = self.out.state()
            self.order.append((known, *key))
        return known

    def _tick(self) -> None:
        self._work += 1
        if self._work % 256 == 0:
            self.budget.check("lookarounds", states=len(self.order) + len(self._after))

    def _read(self, source: int, pending: Pending, behind: Behind, characters: CharSet, target: int) -> None:
        """The edges that leave a product state over the characters of one edge of the automaton."""
        by_key: dict[tuple, tuple[int, ...]] = {}
        for after, indexes in self._steps(pending, behind, characters):
            key = self._key(target, *after)
            by_key[key] = by_key.get(key, ()) + indexes
        for key, indexes in by_key.items():
            self.out.arc(source, self._union(indexes), self._id(key))

    def _steps(self, pending: Pending, behind: Behind, characters: CharSet) -> list[tuple[tuple, tuple[int, ...]]]:
        """(pending and behind afterwards, the classes that lead there) for one character of a set."""
        key = (pending, behind, characters)
        known = self._step_cache.get(key)
        if known is None:
            by_after: dict[tuple, tuple[int, ...]] = {}
            for index in self.classes_of[characters]:
                after = self._advance(pending, behind, index)
                if after is not None:
                    by_after[after] = (*by_after.get(after, ()), index)
            known = self._step_cache[key] = list(by_after.items())
        return known

    def _union(self, indexes: tuple[int, ...]) -> CharSet:
        known = self._unions.get(indexes)
        if known is None:
            ranges = (r for index in indexes for r in self.classes[index].ranges)
            known = self._unions[indexes] = CharSet.from_ranges(ranges)
        return known

    def _key(self, state: int, pending: Pending, behind: Behind) -> tuple:
        """The product state; lookbehinds that nothing here can test in time are dropped from it."""
        if any(behind):
            states = [state, *_states_of(pending)]
            behind = tuple(
                config if config and any(self.reach.is_near(body, s) for s in states) else _NONE
                for body, config in enumerate(behind)
            )
        return state, pending, behind

    # --- one step ---------------------------------------------------------------------------------------------------

    def _advance(self, pending: Pending, behind: Behind, char_class: int) -> tuple[Pending, Behind] | None:
        """Pending and behind after one more character; None: a lookahead has failed."""
        key = (pending, behind, char_class)
        if key not in self._after:
            self._tick()
            later = self._behind_after(behind, char_class)
            moved = self._pending_after(pending, later, char_class)
            self._after[key] = None if moved is None else (moved, later)
        return self._after[key]

    def _behind_after(self, behind: Behind | None, char_class: int | None) -> Behind:
        """The lookbehinds one character on (None: at the start), each body started anew here; inner bodies first."""
        later: list[Config] = []
        for index, body in enumerate(self.nfa.bodies):
            if not body.behind:
                later.append(_NONE)
                continue
            moved: Iterable[tuple[int, Pending]] = ()
            if behind is not None and char_class is not None:
                moved = self._moved(behind[index], tuple(later), char_class)
            later.append(self._closed([*moved, (body.start, _NONE)], tuple(later)))
        return tuple(later)

    def _pending_after(self, pending: Pending, later: Behind, char_class: int) -> Pending | None:
        configs = []
        for negative, config in pending:
            configs.append((negative, self._closed(self._moved(config, later, char_class), later)))
        return self._simplified(configs)

    def _moved(self, config: Config, later: Behind, char_class: int) -> Iterable[tuple[int, Pending]]:
        """The threads of a configuration after one character; a thread that is through waits for what it has pending."""
        for state, pending in config:
            targets = [state] if state in self.reach.ends else self.targets(state, char_class)
            if targets:
                moved = self._pending_after(pending, later, char_class) if pending else _NONE
                if moved is not None:
                    for target in targets:
                        yield target, moved

    def _closed(self, threads: Iterable[tuple[int, Pending]], behind: Behind) -> Config:
        """The threads and all that empty edges and tests reach from them."""
        reached = set(threads)
        worklist = list(reached)
        while worklist:
            self._tick()
            state, pending = worklist.pop()
            found = [(target, pending) for target in self.nfa.empty[state]]
            for body, negative, target in self.nfa.tests.get(state, ()):
                found += [(target, crossed) for crossed in self._cross(body, negative, pending, behind)]
            for thread in found:
                if thread not in reached:
                    reached.add(thread)
                    worklist.append(thread)
        free = {state for state, pending in reached if not pending}
        return frozenset((state, pending) for state, pending in reached if not pending or state not in free)

    def _cross(self, index: int, negative: bool, pending: Pending, behind: Behind) -> list[Pending]:
        """What is pending once a test is passed; one entry per way to pass it, none where it fails."""
        body = self.nfa.bodies[index]
        if not body.behind:
            config = self._closed([(body.start, _NONE)], behind)
            passed = [self._simplified([*pending, (negative, config)])]
        else:
            matched = [asked for state, asked in behind[index] if state == body.end]
            if negative:  # every way to match must fail later on, if it has not failed already
                done = self.reach.done
                passed = [self._simplified([*pending, *((True, frozenset([(done, asked)])) for asked in matched)])]
            else:
                passed = [self._simplified([*pending, *asked]) for asked in matched]
        return [p for p in passed if p is not None]

    def _simplified(self, configs: Iterable[tuple[bool, Config]]) -> Pending | None:
        """Drops what holds whatever comes; None where something has failed for good."""
        kept = set()
        for negative, config in configs:
            through = any(state in self.reach.ends and not pending for state, pending in config)
            if through or not config:
                if through == negative:
                    return None
                continue
            kept.add((negative, config))
        return frozenset(kept)


def _holds_at_end(pending: Pending, ends: set[int]) -> bool:
    """Do the pending lookaheads hold if the text ends here?"""

    def through(config: Config) -> bool:
        return any(state in ends and _holds_at_end(asked, ends) for state, asked in config)

    return all(through(config) != negative for negative, config in pending)


def _states_of(pending: Pending) -> Iterable[int]:
    for _, config in pending:
        for state, asked in config:
            yield state
            yield from _states_of(asked)


class _Reach:
    """Static facts: which states the main automaton has, and how far ahead of each state the tests of a lookbehind are."""

    def __init__(self, nfa: AssertingNfa) -> None:
        self.done = nfa.state()  # where a thread waits that has matched its body
        self.ends = {self.done} | {body.end for body in nfa.bodies if not body.behind}
        self.main = self._main_states(nfa)
        nested = self._tested_behind(nfa)
        self._distance: list[list[int] | None] = [None] * len(nfa.bodies)
        self._width = [_FAR - 1 if b.width is None or i in nested else b.width for i, b in enumerate(nfa.bodies)]
        incoming = _incoming(nfa)
        self.near = [False] * nfa.num_states  # per state: must any lookbehind be kept up here?
        for index, body in enumerate(nfa.bodies):
            if body.behind:
                distance = self._distance[index] = _distances(nfa, incoming, index)
                for state, far in enumerate(distance):
                    self.near[state] |= far <= self._width[index]

    def is_near(self, body: int, state: int) -> bool:
        """Must this lookbehind be kept up in this state?"""
        distance = self._distance[body]
        return distance is not None and distance[state] <= self._width[body]

    @staticmethod
    def _main_states(nfa: AssertingNfa) -> set[int]:
        reached, worklist = {nfa.start}, [nfa.start]
        while worklist:
            state = worklist.pop()
            targets = [t for _, t in nfa.arcs[state]] + nfa.empty[state] + [t for *_, t in nfa.tests.get(state, ())]
            fresh = set(targets) - reached
            reached |= fresh
            worklist += fresh
        return reached

    @staticmethod
    def _tested_behind(nfa: AssertingNfa) -> set[int]:
        """Bodies that are tested inside a lookbehind: they are needed that much earlier, so they are always kept up."""
        owner: dict[int, set[int]] = {}
        for index, body in enumerate(nfa.bodies):
            seen, worklist = {body.start}, [body.start]
            tested: set[int] = set()
            while worklist:
                state = worklist.pop()
                found = [t for _, t in nfa.arcs[state]] + nfa.empty[state]
                for inner, _, target in nfa.tests.get(state, ()):
                    tested |= {inner} | owner[inner]
                    found.append(target)
                fresh = set(found) - seen
                seen |= fresh
                worklist += fresh
            owner[index] = tested
        return {inner for index, body in enumerate(nfa.bodies) if body.behind for inner in owner[index]}


def _incoming(nfa: AssertingNfa) -> list[list[tuple[int, int]]]:
    """Per state: (source, characters read: 0 or 1) of each edge into it; a test also leads into its body."""
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(nfa.num_states)]
    for state in range(nfa.num_states):
        for _, target in nfa.arcs[state]:
            incoming[target].append((state, 1))
        for target in nfa.empty[state]:
            incoming[target].append((state, 0))
        for body, _, target in nfa.tests.get(state, ()):
            incoming[target].append((state, 0))
            incoming[nfa.bodies[body].start].append((state, 0))
    return incoming


def _distances(nfa: AssertingNfa, incoming: list[list[tuple[int, int]]], body: int) -> list[int]:
    """Fewest characters from each state to a test of the body (breadth first with edges of length 0 and 1)."""
    distance = [_FAR] * nfa.num_states
    queue: deque[int] = deque()
    for state, tests in nfa.tests.items():
        if any(tested == body for tested, _, _ in tests):
            distance[state] = 0
            queue.append(state)
    while queue:
        state = queue.popleft()
        for source, length in incoming[state]:
            if distance[state] + length < distance[source]:
                distance[source] = distance[state] + length
                if length:
                    queue.append(source)
                else:
                    queue.appendleft(source)
    return distance
