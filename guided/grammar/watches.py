"""Terminal automata and watches in, what a terminal does to a watch out: its variants; knows no rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from guided.automaton.charset import CharSet, partition
from guided.grammar.rules import Literal, Pattern, SpecialToken, Terminal
from guided.grammar.terminal_automaton import DEAD, DONE, TerminalAutomaton, union_of
from guided.regex.characters import ignoring_case

NO_WATCH = 0
_DEPENDS = -1
Watch = frozenset[tuple[int, int]]  # (terminal that left it behind, state of that terminal's watch)


@dataclass(frozen=True)
class TerminalVariant:
    """A terminal entered with a watch.

    Attributes:
        classes: disjoint sets of characters.
        rows: state -> class -> next state, -1 = dead; state 0 starts.
        exit: per state, the watch that is left where the terminal ends here, or None.
    """

    classes: tuple[CharSet, ...]
    rows: tuple[tuple[int, ...], ...]
    exit: tuple[int | None, ...]

    @cached_property
    def arcs(self) -> list[list[tuple[CharSet, int]]]:
        """Per state, (characters, next state)."""
        return [self._arcs_of(row) for row in self.rows]

    def _arcs_of(self, row: tuple[int, ...]) -> list[tuple[CharSet, int]]:
        by_target: dict[int, list[CharSet]] = {}
        for index, target in enumerate(row):
            if target != DEAD:
                by_target.setdefault(target, []).append(self.classes[index])
        return [(union_of(sets), target) for target, sets in by_target.items()]

    def reaching(self, exits: Collection[int]) -> list[bool]:
        """Per state: can the terminal end with one of these exits?"""
        sources: list[list[int]] = [[] for _ in self.rows]
        for state, row in enumerate(self.rows):
            for target in set(row) - {DEAD}:
                sources[target].append(state)
        alive = [exit in exits for exit in self.exit]
        worklist = [state for state, lives in enumerate(alive) if lives]
        while worklist:
            for source in sources[worklist.pop()]:
                if not alive[source]:
                    alive[source] = True
                    worklist.append(source)
        return alive

    @cached_property
    def num_arcs(self) -> int:
        return sum(map(len, self.arcs))


def literal_sets(literal: Literal) -> list[CharSet]:
    """What may stand for each character of a fixed text."""
    sets = [CharSet.of(character) for character in literal.text]
    return [ignoring_case(characters, False) for characters in sets] if literal.ignore_case else sets


class TerminalVariants:
    """Terminals by number, with every watch that they meet."""

    def __init__(self, terminals: list[Terminal], automaton: Callable[[Terminal], TerminalAutomaton]) -> None:
        self.terminals = terminals
        self._automaton = automaton
        self._relevant: set[int] = set()
        self._ids: dict[Watch, int] = {frozenset(): NO_WATCH}
        self._watches: list[Watch] = [frozenset()]
        self._variants: dict[tuple[int, int], TerminalVariant] = {}
        self._exits: dict[tuple[int, int], tuple[int, ...]] = {}
        self._openings: dict[int, CharSet] = {}
        self._disturbing: dict[int, int] = {}
        self._after_literal: dict[tuple[int, int], int | None] = {}

    def choose_relevant(self, next_to: dict[int, int], ignore: list[int]) -> None:
        """Keeps the watches of those terminals only which something that may follow can disturb.

        Args:
            next_to: terminal -> mask of the terminals that may follow it, ignored ones left out.
            ignore: the ignored terminals; any of them may follow any terminal.
        """
        ignored = sum(1 << terminal for terminal in ignore)
        anything = sum(1 << terminal for terminal in next_to)
        for terminal in dict.fromkeys([*next_to, *ignore]):
            if not isinstance(self.terminals[terminal], Pattern):
                continue
            following = (anything if terminal in ignore else next_to.get(terminal, 0)) | ignored
            automaton = self._automaton(self.terminals[terminal])
            if terminal in ignore and _closed_under_repetition(automaton):
                following &= ~(1 << terminal)  # two in a row are one longer one
            busy = _busy(automaton, set(automaton.watch))
            waits = any(automaton.watch_open[watch] for watch in automaton.watch)
            if waits or any(self._opening(other) & busy for other in _members(following)):
                self._relevant.add(terminal)

    def kept(self, watch: int, next_terminals: int) -> int:
        """The watch, or NO_WATCH if none of the terminals of a mask, coming next, could disturb it."""
        if watch == NO_WATCH:
            return NO_WATCH
        disturbing = self._disturbing.get(watch)
        if disturbing is None:
            disturbing = self._disturbing[watch] = self._disturbers(watch)
        return watch if disturbing & next_terminals else NO_WATCH

    def _disturbers(self, watch: int) -> int:
        """The mask of the terminals whose first character could let a watch fail or go on; all for one that waits."""
        if self.is_open(watch):
            return -1
        automata = [(self._automaton(self.terminals[terminal]), state) for terminal, state in self._watches[watch]]
        busy = [_busy(automaton, {state}) for automaton, state in automata]
        return sum(
            1 << terminal
            for terminal in range(len(self.terminals))
            if any(self._opening(terminal) & characters for characters in busy)
        )

    def is_open(self, watch: int) -> bool:
        """Does the watch fail at the end of the text?"""
        return any(self._automaton(self.terminals[t]).watch_open[state] for t, state in self._watches[watch])

    def exits(self, terminal: int, watch: int) -> tuple[int, ...]:
        """The watches that may be left after the terminal, entered with a watch; none if it cannot be entered."""
        known = self._exits.get((terminal, watch))
        if known is None:
            if self.needs_variant(terminal, watch):
                found = self.variant(terminal, watch).exit
            else:
                found = (self._after_fixed(terminal, watch),)
            known = self._exits[terminal, watch] = tuple(dict.fromkeys(exit for exit in found if exit is not None))
        return known

    def variant(self, terminal: int, watch: int) -> TerminalVariant:
        """The automaton of the terminal and the watch together."""
        known = self._variants.get((terminal, watch))
        if known is None:
            known = self._variants[terminal, watch] = self._product(terminal, self._watches[watch])
        return known

    def needs_variant(self, terminal: int, watch: int) -> bool:
        """Does the watch on entry, or one that is left, have to be followed through the terminal?"""
        match self.terminals[terminal]:
            case SpecialToken():
                return False
            case Literal() as literal:
                return watch != NO_WATCH and self._after_text(terminal, literal, watch) == _DEPENDS
        return watch != NO_WATCH or terminal in self._relevant

    def _after_text(self, terminal: int, literal: Literal, watch: int) -> int | None:
        """The watch after a fixed text; None if the watch fails on it, _DEPENDS if that depends on the case of a letter."""
        if (terminal, watch) not in self._after_literal:
            self._after_literal[terminal, watch] = self._read_text(literal, self._watches[watch])
        return self._after_literal[terminal, watch]

    def _read_text(self, literal: Literal, watch: Watch) -> int | None:
        left: Watch | None = watch
        for characters in literal_sets(literal):
            if not left:
                break
            found = {self._after_character(left, point) for point in characters}
            if len(found) > 1:
                return _DEPENDS
            left = found.pop()
        return None if left is None else self._id(left)

    def _after_fixed(self, terminal: int, watch: int) -> int | None:
        """The watch after a terminal without choice."""
        match self.terminals[terminal]:
            case Literal() as literal if watch != NO_WATCH:
                return self._after_text(terminal, literal, watch)
        return None if self.is_open(watch) else NO_WATCH  # no watch sees a special token, so none may wait for more

    def _after_character(self, watch: Watch, point: int) -> Watch | None:
        watchers = {other: self._automaton(self.terminals[other]) for other, _ in watch}
        columns = {
            other: [next(index for index, members in enumerate(watcher.classes) if point in members)]
            for other, watcher in watchers.items()
        }
        return _stepped(watch, watchers, columns, 0)

    def _id(self, watch: Watch) -> int:
        if watch not in self._ids:
            self._ids[watch] = len(self._watches)
            self._watches.append(watch)
        return self._ids[watch]

    def _opening(self, terminal: int) -> CharSet:
        """The characters that a terminal can begin with."""
        known = self._openings.get(terminal)
        if known is None:
            match self.terminals[terminal]:
                case SpecialToken():
                    known = CharSet.none()
                case Literal() as literal:
                    known = literal_sets(literal)[0]
                case other:
                    known = union_of(characters for characters, _ in self._automaton(other).arcs(0))
            self._openings[terminal] = known
        return known

    def _product(self, terminal: int, watch: Watch) -> TerminalVariant:
        automaton = self._automaton(self.terminals[terminal])
        watchers = {other: self._automaton(self.terminals[other]) for other, _ in watch}
        classes, column = _joint_classes([automaton.classes, *(watcher.classes for watcher in watchers.values())])
        columns = dict(zip(watchers, column[1:], strict=True))
        order: list[tuple[int, Watch]] = [(0, watch)]
        ids = {order[0]: 0}
        rows = []
        for state, left in order:  # grows while it is walked
            row = []
            for index in range(len(classes)):
                following = automaton.rows[state][column[0][index]]
                kept = _stepped(left, watchers, columns, index) if following != DEAD else None
                if kept is None:
                    row.append(DEAD)
                    continue
                if (following, kept) not in ids:
                    ids[following, kept] = len(order)
                    order.append((following, kept))
                row.append(ids[following, kept])
            rows.append(tuple(row))
        exit = tuple(self._left(terminal, automaton, state, left) for state, left in order)
        return TerminalVariant(classes, tuple(rows), exit)

    def _left(self, terminal: int, automaton: TerminalAutomaton, state: int, left: Watch) -> int | None:
        if not automaton.accepting[state]:
            return None
        if terminal in self._relevant and automaton.watch[state] != DONE:
            left |= {(terminal, automaton.watch[state])}
        return self._id(left)


def _stepped(
    watch: Watch, watchers: dict[int, TerminalAutomaton], columns: dict[int, list[int]], index: int
) -> Watch | None:
    """The watch after a character of a joint class; None if it fails."""
    kept = set()
    for terminal, state in watch:
        following = watchers[terminal].watch_rows[state][columns[terminal][index]]
        if following == DEAD:
            return None
        if following != DONE:
            kept.add((terminal, following))
    return frozenset(kept)


def _joint_classes(all_classes: list[tuple[CharSet, ...]]) -> tuple[tuple[CharSet, ...], list[list[int]]]:
    """(classes that refine all given ones, per given one: joint class -> its class)."""
    if len(all_classes) == 1:
        return all_classes[0], [list(range(len(all_classes[0])))]
    blocks, members = partition([characters for classes in all_classes for characters in classes])
    columns, done = [], 0
    for classes in all_classes:
        columns.append(members[done : done + len(classes)].argmax(axis=0).tolist())
        done += len(classes)
    return tuple(blocks), columns


def _busy(automaton: TerminalAutomaton, watches: set[int]) -> CharSet:
    """The characters that keep one of the watches busy, or let it fail."""
    return union_of(
        members
        for index, members in enumerate(automaton.classes)
        if any(automaton.watch_rows[watch][index] != DONE for watch in watches)
    )


def _closed_under_repetition(automaton: TerminalAutomaton) -> bool:
    """Is one match after another always one longer match? (Wherever it may end, it goes on as at its start.)"""
    return all(
        row == automaton.rows[0] for row, accepts in zip(automaton.rows, automaton.accepting, strict=True) if accepts
    )


def _members(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
