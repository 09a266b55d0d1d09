"""A Python regular expression in, a backtracking program out: the choices that `re` tries, in its order; knows no strings.

Python's own parser reads the pattern, so flags, escapes and errors are its own. A program is a graph of nodes; a choice lists
its branches best first (Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from guided.automaton.charset import ANY, CharSet
from guided.errors import InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.limits import Budget
from guided.regex.characters import ASCII_SETS, ignoring_case, python_category

_parser, _constants = re._parser, re._constants  # type: ignore[attr-defined]
_NEWLINE = CharSet.of("\n")
_NESTING = 150  # groups inside groups; Python's parser is recursive
_NODES = 20_000  # of one pattern, counted repetitions written out
_BACKREFERENCES = (_constants.GROUPREF, _constants.GROUPREF_EXISTS, _constants.GROUPREF_IGNORE)


@dataclass(frozen=True, slots=True)
class Char:
    """Reads one character of the set."""

    characters: CharSet
    following: int


@dataclass(slots=True)
class Split:
    """Reads nothing; branches best first."""

    branches: list[int]


@dataclass(slots=True)
class Loop:
    """Reads nothing; a `Split` of which one branch leads back here. Coming back without having read, `re` leaves the loop."""

    branches: list[int]
    leave: int


@dataclass(frozen=True, slots=True)
class Look:
    """Reads nothing; passes if the text behind or ahead matches `look`, or does not, if `negated`."""

    look: int  # index into Program.looks
    following: int


@dataclass(frozen=True, slots=True)
class LookPattern:
    """What a lookaround looks for: a program of its own; `width` characters back, if it looks behind."""

    program: Program
    behind: bool
    negated: bool
    width: int


@dataclass(frozen=True, slots=True)
class Accept:
    """The pattern has matched."""


Node = Char | Split | Loop | Look | Accept


@dataclass(slots=True)
class Program:
    """nodes[0] starts, nodes[1] accepts."""

    nodes: list[Node]
    looks: list[LookPattern]


def parse_program(pattern: str, name: str, budget: Budget) -> Program:
    """The program of a pattern.

    Args:
        name: of the terminal, for messages.

    Raises:
        InvalidConstraint: not a regular expression.
        UnsupportedKeyword: back references, anchors, word boundaries, locale.
        LimitExceeded: groups nested too deeply, or too many repetitions.
    """
    _check_nesting(pattern, budget)
    try:
        tree = _parser.parse(pattern)
    except (re.error, OverflowError) as error:
        raise InvalidConstraint(f"terminal {name or pattern} is not a regular expression: {error}") from error
    return _Writer(name or pattern, budget).program(tree, tree.state.flags)


def _check_nesting(pattern: str, budget: Budget) -> None:
    depth = deepest = 0
    for piece in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", pattern, re.DOTALL):
        depth += (piece.group() == "(") - (piece.group() == ")")
        deepest = max(deepest, depth)
    if deepest > _NESTING:
        budget.check("a terminal", depth=max(deepest, budget.limits.nesting + 1))


class _Writer:
    """Writes nodes from the end of the pattern backwards, so that every node knows what follows it."""

    def __init__(self, name: str, budget: Budget) -> None:
        self._name = name
        self._budget = budget
        self._start = Split([])
        self._nodes: list[Node] = [self._start, Accept()]
        self._looks: list[LookPattern] = []

    def program(self, tree: Any, flags: int) -> Program:
        if flags & re.LOCALE:
            raise self._unsupported("the flag L")
        self._start.branches.append(self._sequence(tree, flags, 1))
        return Program(self._nodes, self._looks)

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        self._check_size(len(self._nodes))
        return len(self._nodes) - 1

    def _check_size(self, nodes: int) -> None:
        if nodes > _NODES:
            raise LimitExceeded(
                f"the grammar is too complex: terminal {self._name} needs {nodes:,} steps, the limit is {_NODES:,}",
                limit="states",
            )

    def _sequence(self, tree: Any, flags: int, following: int) -> int:
        for operator, argument in reversed(list(tree)):
            following = self._item(operator, argument, flags, following)
        return following

    def _item(self, operator, argument, flags: int, following: int) -> int:
        c = _constants
        if operator in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self._add(Char(_characters(operator, argument, flags), following))
        if operator is c.BRANCH:
            return self._add(Split([self._sequence(branch, flags, following) for branch in argument[1]]))
        if operator is c.SUBPATTERN:
            _group, added, removed, inner = argument
            return self._sequence(inner, (flags | added) & ~removed, following)
        if operator in (c.MAX_REPEAT, c.MIN_REPEAT):
            low, high, inner = argument
            return self._repeat(low, high, inner, flags, following, lazy=operator is c.MIN_REPEAT)
        if operator in (c.ASSERT, c.ASSERT_NOT):
            direction, inner = argument
            return self._look(direction, inner, flags, following, negated=operator is c.ASSERT_NOT)
        if operator is c.FAILURE:
            return self._add(Split([]))
        raise self._unsupported(_described(operator, argument))

    def _repeat(self, low: int, high: int, inner, flags: int, following: int, lazy: bool) -> int:
        def choices(again: int) -> list[int]:
            return [following, again] if lazy else [again, following]

        end = following
        if high is _constants.MAXREPEAT:
            loop = Loop([], following)
            end = self._add(loop)
            loop.branches = choices(self._sequence(inner, flags, end))
        else:
            self._check_size(len(self._nodes) + high)
            for _ in range(high - low):
                end = self._add(Split(choices(self._sequence(inner, flags, end))))
        for _ in range(low):
            end = self._sequence(inner, flags, end)
        return end

    def _look(self, direction: int, inner, flags: int, following: int, negated: bool) -> int:
        behind = direction < 0
        low, high = inner.getwidth()
        if behind and low != high:
            raise self._unsupported("lookbehind of more than one width")
        writer = _Writer(self._name, self._budget)
        program = writer.program(inner, flags)
        if program.looks:
            raise self._unsupported("a lookaround inside a lookaround")
        self._looks.append(LookPattern(program, behind, negated, int(low)))
        return self._add(Look(len(self._looks) - 1, following))

    def _unsupported(self, what: str) -> UnsupportedKeyword:
        return UnsupportedKeyword(f"terminal {self._name} uses {what}, which a terminal cannot enforce", keyword=what)


def _described(operator, argument) -> str:
    c = _constants
    if operator in _BACKREFERENCES:
        return "a back reference"
    if operator is c.AT:
        signs = {
            c.AT_BEGINNING: "^", c.AT_BEGINNING_STRING: "\\A", c.AT_END: "$", c.AT_END_STRING: "\\Z",
            c.AT_BOUNDARY: "\\b", c.AT_NON_BOUNDARY: "\\B",
        }  # fmt: skip
        return signs.get(argument, str(argument))
    if operator is c.ATOMIC_GROUP:
        return "an atomic group (?>...)"
    if operator is c.POSSESSIVE_REPEAT:
        return "a possessive repetition"
    return str(operator)


# --- sets of characters ---------------------------------------------------------------------------------------------


def _characters(operator, argument, flags: int) -> CharSet:
    """The characters that a node of Python's syntax tree reads."""
    c = _constants
    if operator is c.ANY:
        return ANY if flags & re.DOTALL else ~_NEWLINE
    members = [(operator, argument)] if operator is not c.IN else argument
    negated = False
    chosen = categories = CharSet.none()
    for kind, value in members:
        if kind is c.NEGATE:
            negated = True
        elif kind is c.NOT_LITERAL:
            negated, chosen = True, CharSet.of(value)
        elif kind is c.LITERAL:
            chosen |= CharSet.of(value)
        elif kind is c.RANGE:
            chosen |= CharSet.range(*value)
        else:
            categories |= _category(str(value), bool(flags & re.ASCII))
    if flags & re.IGNORECASE:
        chosen = ignoring_case(chosen, bool(flags & re.ASCII))
    chosen |= categories
    return ~chosen if negated else chosen


def _category(name: str, ascii_only: bool) -> CharSet:
    """`\\d`, `\\s`, `\\w` and their complements, exactly as `re` knows them."""
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rsplit("_", 1)[1]]
    found = ASCII_SETS[letter] if ascii_only else python_category(letter)
    return ~found if "_NOT_" in name else found
