"""Rules of a context-free grammar as expressions over terminals and rule names; knows no grammar syntax and no bytes.

Both front ends produce a `RuleSet`; everything after them reads nothing else. Only recognition matters, so what shapes a
parse tree (aliases, inlining marks, priorities) has no place here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Literal:
    """A terminal that is exactly `text` (up to case, if `ignore_case`)."""

    text: str
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A terminal given by a Python regular expression, flags written into it as Lark does: `(?i:...)`."""

    regex: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """A terminal that is one character out of sorted, disjoint, inclusive ranges of code points."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A terminal that is one special token of the vocabulary, by name, not its letters."""

    name: str


Terminal = Literal | Pattern | CharacterClass | SpecialToken


@dataclass(frozen=True, slots=True)
class Reference:
    """The rule of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; the empty sequence matches the empty string."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several; of none: matches nothing."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times; `high` None: without end."""

    inner: Expression
    low: int
    high: int | None


Expression = Literal | Pattern | CharacterClass | SpecialToken | Reference | Sequence | Choice | Repeat

EMPTY = Sequence(())


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the source: line from 1, column from 0."""

    line: int
    column: int


@dataclass(slots=True)
class RuleSet:
    """A resolved grammar.

    Attributes:
        start: name of the rule that the whole output matches.
        rules: name -> expression; every `Reference` inside names one of them.
        ignore: terminals that may stand before, between and after all other terminals.
        places: name of a rule -> where it is defined; rules that came from an import have none.
        terminal_places: where a terminal stands first; those of imports have none.
        source: the grammar text, for the caret under an error.
        longest_match: terminals are matched as Python's `re.match` would in the rest of the output (Lark's dynamic lexer),
            instead of as any string of their language.
    """

    start: str
    rules: dict[str, Expression]
    ignore: tuple[Terminal, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)
    terminal_places: dict[Terminal, Place] = field(default_factory=dict)
    source: str = ""
    longest_match: bool = False


def sequence(parts: Iterable[Expression]) -> Expression:
    """The parts one after the other, without a wrapper around a single one."""
    parts = tuple(parts)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def choice(options: Iterable[Expression]) -> Expression:
    """One of the options, without a wrapper around a single one."""
    options = tuple(options)
    return options[0] if len(options) == 1 else Choice(options)
