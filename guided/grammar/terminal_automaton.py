"""A backtracking program in, the deterministic automaton of what `re.match` finds out; knows no grammar.

Lark's dynamic lexer asks `re.match` for a terminal, which finds at most one end for each beginning: the first that backtracking
meets. So a state here is the *ordered* list of the program's threads, cut behind the first that accepts (the "leftmost-first"
automaton of RE2: Cox, "Regular Expression Matching in the Wild", 2010): `".*?"` ends at the first quote, as in Python, though
`re.fullmatch` would let it run over quotes.

What is above an accepting thread in the list would be preferred by `re.match` if the text that follows let it accept. So an
accepting state has a *watch*: an automaton that reads what follows the terminal and fails where another end would be found.
After `[a-z]+` the watch fails on a letter; after `"[^"]*"` there is nothing to watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from guided.automaton.charset import CharSet, partition
from guided.errors import LimitExceeded, UnsupportedKeyword
from guided.grammar.terminal_program import Accept, Char, Look, LookPattern, Loop, Program, Split
from guided.limits import Budget

DEAD = -1
DONE = 0  # the watch that watches nothing
_STATES = 5_000  # of one terminal; a deterministic automaton can be exponentially larger than its pattern

Obligation = tuple[int, int, bool]  # (lookahead, state of its automaton, it must match)
Thread = tuple[
    int, frozenset[Obligation]
]  # (node that reads or accepts, what the text from here on must or must not match)


@dataclass(frozen=True, slots=True)
class TerminalAutomaton:
    """Deterministic, trimmed, minimal; state 0 starts.

    Attributes:
        classes: disjoint sets of characters.
        rows: state -> class -> next state, -1 = dead.
        accepting: per state.
        watch: per state, the watch to start where the terminal ends here; 0 = none.
        watch_rows: watch -> class -> next watch, 0 = nothing left to watch, -1 = the terminal would have ended elsewhere.
        watch_open: per watch, it fails at the end of the text, since it waits for something that must follow.
    """

    classes: tuple[CharSet, ...]
    rows: tuple[tuple[int, ...], ...]
    accepting: tuple[bool, ...]
    watch: tuple[int, ...]
    watch_rows: tuple[tuple[int, ...], ...]
    watch_open: tuple[bool, ...]

    def arcs(self, state: int) -> Iterator[tuple[CharSet, int]]:
        """(characters, next state) of a state."""
        by_target: dict[int, list[int]] = {}
        for index, target in enumerate(self.rows[state]):
            if target != DEAD:
                by_target.setdefault(target, []).append(index)
        for target, members in by_target.items():
            yield union_of(self.classes[member] for member in members), target

    @property
    def num_arcs(self) -> int:
        return sum(len(set(row) - {DEAD}) for row in self.rows)


def union_of(sets: Iterable[CharSet]) -> CharSet:
    """The union of disjoint sets."""
    members = list(sets)
    return members[0] if len(members) == 1 else CharSet.from_ranges(piece for part in members for piece in part.ranges)


def build_terminal(program: Program, name: str, budget: Budget) -> TerminalAutomaton:
    """The automaton of a terminal.

    Raises:
        UnsupportedKeyword: lookbehind that depends on the text before the terminal, several lookaheads at one end.
        LimitExceeded: too many states.
    """
    return _Builder(program, name, budget).build()


class _Builder:
    """The ordered subset construction."""

    def __init__(self, program: Program, name: str, budget: Budget) -> None:
        self._nodes = program.nodes
        self._name = name
        self._budget = budget
        distinct = list(dict.fromkeys(_sets(program)))
        blocks, members = partition(distinct)
        self._classes = tuple(blocks)
        self._class_in = dict(zip(distinct, members.tolist(), strict=True))  # set -> bool per class
        self._looks = [_LookMachine(look, self._class_in, len(blocks)) for look in program.looks]
        self._behind = [index for index, look in enumerate(program.looks) if look.behind]
        self._width = max((program.looks[index].width for index in self._behind), default=0)

    def build(self) -> TerminalAutomaton:
        behind = tuple(self._looks[index].start_behind() for index in self._behind)
        start = (self.closed([(0, frozenset())], behind, 0), behind, 0)
        ids, order, rows = {start: 0}, [start], []
        for threads, behind, read in order:  # grows while it is walked
            row = []
            for index in range(len(self._classes)):
                moved = list(self.moved(threads, index))
                seen, now_read = self.seen_behind(behind, read, index)
                closed = self.closed(moved, seen, now_read) if moved else ()
                if not closed:
                    row.append(DEAD)
                    continue
                config = (closed, seen, now_read)
                if config not in ids:
                    ids[config] = len(order)
                    order.append(config)
                row.append(ids[config])
            rows.append(row)
            if not len(rows) & 63:
                self.check(len(order))
        watches = _Watches(self)
        accepting = [any(self.accepts(thread) for thread in config[0]) for config in order]
        watch = [watches.of(*config) if accepts else DONE for config, accepts in zip(order, accepting, strict=True)]
        watch_rows, watch_open, harmless = watches.rows()
        watch = [harmless[state] for state in watch]
        return _minimal(self._classes, rows, accepting, watch, watch_rows, watch_open)

    def check(self, states: int) -> None:
        self._budget.check(f"terminal {self._name}")
        if states > _STATES:
            raise LimitExceeded(
                f"the grammar is too complex: terminal {self._name} has more than {_STATES:,} states", limit="states"
            )

    @property
    def num_classes(self) -> int:
        return len(self._classes)

    # --- threads ----------------------------------------------------------------------------------------------------

    def accepts(self, thread: Thread) -> bool:
        return isinstance(self._nodes[thread[0]], Accept)

    def seen_behind(self, behind: tuple, read: int, index: int) -> tuple[tuple, int]:
        """What lookbehind has seen, and characters read as far as it cares, after a character of the class."""
        states = zip(self._behind, behind, strict=True)
        return tuple(self._looks[look].step_behind(state, index) for look, state in states), min(read + 1, self._width)

    def moved(self, threads: Iterable[Thread], index: int) -> Iterator[Thread]:
        """The threads after a character of the class, best first, not closed."""
        for node, obligations in threads:
            reader = self._nodes[node]
            if isinstance(reader, Char) and self._class_in[reader.characters][index]:
                kept = self.stepped(obligations, index)
                if kept is not None:
                    yield reader.following, kept

    def stepped(self, obligations: frozenset[Obligation], index: int) -> frozenset[Obligation] | None:
        """What is left to look for after a character of the class; None if it has been decided against the thread."""
        kept = []
        for look, state, must in obligations:
            following = self._looks[look].rows[state][index]
            matched = following != DEAD and self._looks[look].accepting[following]
            if (matched and not must) or (following == DEAD and must):
                return None
            if following != DEAD and not matched:
                kept.append((look, following, must))
        return frozenset(kept)

    def closed(self, threads: list[Thread], behind: tuple, read: int) -> tuple[Thread, ...]:
        """The threads that read or accept, best first, cut behind the first that surely accepts."""
        found: dict[Thread, None] = {}
        seen: set[Thread] = set()
        waiting = list(reversed(threads))
        while waiting:
            thread = waiting.pop()
            node, obligations = thread
            if thread in seen:
                match self._nodes[node]:
                    case Loop(_, leave):
                        waiting.append((leave, obligations))
                continue
            seen.add(thread)
            match self._nodes[node]:
                case Split(branches) | Loop(branches):
                    waiting.extend((branch, obligations) for branch in reversed(branches))
                case Look(look, following):
                    passed = self._looked(look, obligations, behind, read)
                    if passed is not None:
                        waiting.append((following, passed))
                case Accept() if not obligations:
                    found[thread] = None
                    break
                case Accept():
                    found[thread] = None
                    waiting = self._after_conditional(obligations, waiting)
                case _:
                    found[thread] = None
        return tuple(found)

    def contradicted(self, thread: Thread) -> Thread:
        """For a thread that accepts depending on a lookahead: that it turns out the other way."""
        _, obligations = thread
        if len(obligations) > 1:
            raise self.unsupported("several lookaheads at the end of one alternative")
        ((look, state, must),) = obligations
        return DEAD, frozenset(((look, state, not must),))

    def _after_conditional(self, obligations: frozenset[Obligation], waiting: list[Thread]) -> list[Thread]:
        """The threads below one that accepts if a lookahead does not match: they matter only if it does."""
        if not waiting:
            return []
        _, contrary = self.contradicted((DEAD, obligations))
        return [(node, kept | contrary) for node, kept in waiting]

    def _looked(
        self, look: int, obligations: frozenset[Obligation], behind: tuple, read: int
    ) -> frozenset[Obligation] | None:
        """The thread's obligations after a lookaround; None if it does not pass."""
        machine = self._looks[look]
        if machine.pattern.behind:
            if read < machine.pattern.width:
                raise self.unsupported("lookbehind at its start, where it depends on the text before the terminal")
            matched = machine.matches_behind(behind[self._behind.index(look)])
            return None if matched == machine.pattern.negated else obligations
        if machine.accepting[0]:
            return None if machine.pattern.negated else obligations
        return obligations | {(look, 0, not machine.pattern.negated)}

    def unsupported(self, what: str) -> UnsupportedKeyword:
        return UnsupportedKeyword(
            f"terminal {self._name} has {what}, which a terminal cannot enforce", keyword="lookaround"
        )


class _Watches:
    """The automaton of what must not follow a terminal.

    A state: threads that must not accept, lookaheads that must not match, and what lookbehind has seen.
    """

    def __init__(self, builder: _Builder) -> None:
        self._builder = builder
        self._ids: dict[tuple, int] = {}
        self._order: list[tuple] = []
        self._id(frozenset(), (), 0)  # DONE

    def of(self, threads: tuple[Thread, ...], behind: tuple, read: int) -> int:
        """The watch to start where the last thread of a list accepts, which would not be where a better one does."""
        accepting = [index for index, thread in enumerate(threads) if self._builder.accepts(thread)]
        _, obligations = threads[accepting[-1]]
        if len(accepting) > 1:
            raise self._builder.unsupported("several lookaheads at its end")
        alone = {(DEAD, frozenset((obligation,))) for obligation in obligations}
        return self._id(frozenset(threads[: accepting[0]]) | alone, behind, read)

    def _id(self, threads: frozenset[Thread], behind: tuple, read: int) -> int:
        state = (threads, behind, read) if threads else (threads, (), 0)
        if state not in self._ids:
            self._ids[state] = len(self._order)
            self._order.append(state)
        return self._ids[state]

    def rows(self) -> tuple[list[list[int]], list[bool], list[int]]:
        """(watch -> class -> next watch, watch -> open at the end?, watch -> the same or DONE where it can never fail)."""
        rows: list[list[int]] = []
        for state in self._order:  # grows while it is walked
            threads, behind, read = state
            rows.append([self._step(threads, behind, read, index) for index in range(self._builder.num_classes)])
            self._builder.check(len(self._order))
        is_open = [any(node == DEAD and any(o[2] for o in kept) for node, kept in state[0]) for state in self._order]
        failing = _alive(rows, [DEAD in row or waits for row, waits in zip(rows, is_open, strict=True)])
        harmless = [watch if failing[watch] else DONE for watch in range(len(rows))]
        rows = [[DEAD if target == DEAD else harmless[target] for target in row] for row in rows]
        return rows, is_open, harmless

    def _step(self, threads: frozenset[Thread], behind: tuple, read: int, index: int) -> int:
        builder = self._builder
        seen, read = builder.seen_behind(behind, read, index) if threads else (behind, read)
        following: set[Thread] = set()
        for node, obligations in threads:
            if node == DEAD:
                kept = builder.stepped(obligations, index)
                if kept is None:
                    return DEAD
                following |= {(DEAD, frozenset((obligation,))) for obligation in kept}
                continue
            for thread in builder.closed(list(builder.moved([(node, obligations)], index)), seen, read):
                if builder.accepts(thread):
                    if not thread[1]:
                        return DEAD
                    following.add(builder.contradicted(thread))
                else:
                    following.add(thread)
        return self._id(frozenset(following), seen, read)


class _LookMachine:
    """The automaton of a lookaround's pattern, determinised without order: whether it matches, not where."""

    def __init__(self, look: LookPattern, class_in: dict[CharSet, list[bool]], num_classes: int) -> None:
        self.pattern = look
        self._nodes = look.program.nodes
        self._class_in = class_in
        self.rows: list[list[int]] = []
        self.accepting: list[bool] = []
        if not look.behind:
            self._determinise(num_classes)

    def _determinise(self, num_classes: int) -> None:
        start = self._closed({0})
        ids, order = {start: 0}, [start]
        for subset in order:  # grows while it is walked
            row = []
            for index in range(num_classes):
                following = self._stepped(subset, index)
                if following and following not in ids:
                    ids[following] = len(order)
                    order.append(following)
                row.append(ids[following] if following else DEAD)
            self.rows.append(row)
        self.accepting = [1 in subset for subset in order]

    def start_behind(self) -> frozenset[int]:
        return self._closed({0})

    def step_behind(self, subset: frozenset[int], index: int) -> frozenset[int]:
        """One character on; a match may begin at every position."""
        return self._stepped(subset, index) | self._closed({0})

    def matches_behind(self, subset: frozenset[int]) -> bool:
        return 1 in subset

    def _stepped(self, subset: frozenset[int], index: int) -> frozenset[int]:
        nodes = (self._nodes[node] for node in subset)
        return self._closed({n.following for n in nodes if isinstance(n, Char) and self._class_in[n.characters][index]})

    def _closed(self, nodes: set[int]) -> frozenset[int]:
        reached, worklist = set(nodes), list(nodes)
        while worklist:
            node = self._nodes[worklist.pop()]
            for branch in node.branches if isinstance(node, (Split, Loop)) else ():
                if branch not in reached:
                    reached.add(branch)
                    worklist.append(branch)
        return frozenset(reached)


def _sets(program: Program) -> Iterator[CharSet]:
    """Every set of characters that the program and its lookarounds tell apart."""
    for node in program.nodes:
        if isinstance(node, Char):
            yield node.characters
    for look in program.looks:
        yield from _sets(look.program)


def _minimal(
    classes: tuple[CharSet, ...],
    rows: list[list[int]],
    accepting: list[bool],
    watch: list[int],
    watch_rows: list[list[int]],
    watch_open: list[bool],
) -> TerminalAutomaton:
    """Dead states cut off, equal states merged (Moore, 1956), equal classes merged, unused watches dropped."""
    watch_block = _refined(watch_rows, [(number == DONE, waits) for number, waits in enumerate(watch_open)])
    watch = [watch_block[w] for w in watch]
    alive = _alive(rows, accepting)
    rows = [[t if t != DEAD and alive[t] else DEAD for t in row] for row in rows]
    block = _refined(rows, list(zip(accepting, watch, strict=True)))
    rows, states = _quotient(rows, block, [block[0]])
    watch_quotient, watch_states = _quotient(watch_rows, watch_block, [watch_block[DONE], *(watch[s] for s in states)])
    numbers = {watch_block[original]: number for number, original in enumerate(watch_states)}
    return _merge_classes(
        classes,
        rows,
        tuple(accepting[state] for state in states),
        tuple(numbers[watch[state]] for state in states),
        watch_quotient,
        tuple(watch_open[state] for state in watch_states),
    )


def _alive(rows: list[list[int]], accepting: list[bool]) -> list[bool]:
    sources: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for target in set(row) - {DEAD}:
            sources[target].append(state)
    alive = list(accepting)
    worklist = [state for state, accepts in enumerate(accepting) if accepts]
    while worklist:
        for source in sources[worklist.pop()]:
            if not alive[source]:
                alive[source] = True
                worklist.append(source)
    return alive


def _refined(rows: list[list[int]], labels: list) -> list[int]:
    """The coarsest partition of the states that respects labels and rows."""
    ids: dict = {}
    block = [ids.setdefault(label, len(ids)) for label in labels]
    while True:
        before = len(ids)
        ids = {}
        signatures = [(block[state], *(t if t == DEAD else block[t] for t in row)) for state, row in enumerate(rows)]
        block = [ids.setdefault(signature, len(ids)) for signature in signatures]
        if len(ids) == before:
            return block


def _quotient(rows: list[list[int]], block: list[int], roots: list[int]) -> tuple[list[list[int]], list[int]]:
    """(rows over the blocks that are reached from the root blocks, a state of each); blocks numbered as they are reached."""
    member: dict[int, int] = {}
    for state, number in enumerate(block):
        member.setdefault(number, state)
    numbers: dict[int, int] = {}
    order: list[int] = []
    for root in roots:
        if root not in numbers:
            numbers[root] = len(order)
            order.append(root)
    merged = []
    for number in order:  # grows while it is walked
        row = []
        for target in rows[member[number]]:
            if target != DEAD and block[target] not in numbers:
                numbers[block[target]] = len(order)
                order.append(block[target])
            row.append(DEAD if target == DEAD else numbers[block[target]])
        merged.append(row)
    return merged, [member[number] for number in order]


def _merge_classes(classes, rows, accepting, watch, watch_rows, watch_open) -> TerminalAutomaton:
    columns: dict[tuple, list[int]] = {}
    for index in range(len(classes)):
        column = tuple(row[index] for row in rows), tuple(row[index] for row in watch_rows)
        columns.setdefault(column, []).append(index)
    merged = tuple(union_of(classes[index] for index in members) for members in columns.values())
    first = [members[0] for members in columns.values()]
    return TerminalAutomaton(
        merged,
        tuple(tuple(row[index] for index in first) for row in rows),
        accepting,
        watch,
        tuple(tuple(row[index] for index in first) for row in watch_rows),
        watch_open,
    )
