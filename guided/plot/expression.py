"""What stands on an edge: alternatives of sequences of literal texts and character classes, put together and shown in lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from guided.explain.labels import cells

MAX_LINES = 8  # alternatives shown on one edge
MAX_CELLS = 36  # width of a line
_META = frozenset("\\^$.|?*+()[]{}")
_HEAD, _TAIL = 22, 11  # characters shown of a longer text


@dataclass(frozen=True, slots=True)
class Part:
    """A literal text (repeated exactly once), or a class or group repeated lo..hi times."""

    text: str
    is_literal: bool
    lo: int = 1
    hi: int = 1

    @property
    def shown(self) -> str:
        if (self.lo, self.hi) == (1, 1):
            return self.text
        body = self.text if len(self.text) == 1 or self.text[0] in "[(" else f"({self.text})"
        return f"{body}{{{self.lo}}}" if self.lo == self.hi else f"{body}{{{self.lo},{self.hi}}}"


Sequence = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """The label of an edge.

    Attributes:
        branches: one line of the label each, in order of arrival.
    """

    branches: tuple[Sequence, ...]

    @staticmethod
    def literal(text: str) -> Expression:
        return Expression(((Part(text, True),),))

    @staticmethod
    def group(text: str) -> Expression:
        """A class, or anything else that is not a literal text."""
        return Expression(((Part(text, False),),))

    @staticmethod
    def one_of(branches: Iterable[Sequence]) -> Expression:
        """Alternatives, each once; words in alphabetical order."""
        found = Expression(tuple(dict.fromkeys(branches)))
        return Expression(tuple(sorted(found.branches, key=_plain))) if found.is_literal else found

    @property
    def is_literal(self) -> bool:
        """Nothing but plain texts."""
        return all(part.is_literal and part.hi == 1 for branch in self.branches for part in branch)

    def then(self, other: Expression) -> Expression | None:
        """One after the other; None where the label would not be easy to read.

        Texts may grow to any length. Anything else must fit into a line, and alternatives are only written out before or
        after a short text, such as a quote or a backslash.
        """
        branches = tuple(joined(left, right) for left in self.branches for right in other.branches)
        if len(branches) > 1 and not any(_is_short(side) for side in (self, other)):
            return None
        fits = all(cells(_plain(branch)) <= MAX_CELLS for branch in branches) and len(branches) <= MAX_LINES
        found = Expression(branches)
        return found if fits or (found.is_literal and len(branches) == 1) else None

    def either(self, other: Expression) -> Expression:
        """One or the other."""
        return Expression.one_of(self.branches + other.branches)

    def repeated(self, lo: int, hi: int) -> Expression:
        """lo to hi times."""
        only = self.branches[0][0]
        alone = len(self.branches) == len(self.branches[0]) == 1
        if alone and (only.lo, only.hi) == (1, 1) and (len(only.text) == 1 or not only.is_literal):
            return Expression(((Part(only.text, only.is_literal, lo, hi),),))
        text = "|".join("".join(map(_as_pattern, branch)) for branch in self.branches)
        return Expression(((Part(f"({text})", False, lo, hi),),))

    def lines(self) -> list[list[tuple[str, bool]]]:
        """Lines of (text, is literal) as they are drawn: cut to MAX_LINES lines and MAX_CELLS cells each."""
        shown = self.branches if len(self.branches) <= MAX_LINES else self.branches[: MAX_LINES - 1]
        lines = [_cut([(part.shown, part.is_literal) for part in branch]) for branch in shown]
        if len(shown) < len(self.branches):
            lines.append([(f"… {len(self.branches) - len(shown):,} more", False)])
        return lines

    def full_text(self) -> str:
        """The whole label, a line for each alternative."""
        return "\n".join(_plain(branch) for branch in self.branches)


def _as_pattern(part: Part) -> str:
    """A part inside of a group, where literal texts are not told apart by their colour."""
    if not part.is_literal or part.hi > 1:
        return part.shown
    return "".join("\\" + c if c in _META else c for c in part.text)


def _plain(branch: Sequence) -> str:
    return "".join(part.shown for part in branch)


def _is_short(expression: Expression) -> bool:
    """A plain text of one or two characters."""
    return len(expression.branches) == 1 and expression.is_literal and len(_plain(expression.branches[0])) <= 2


def joined(left: Sequence, right: Sequence) -> Sequence:
    """The two in a row; literals run together, repetitions of the same thing add up."""
    a, b = left[-1], right[0]
    if a.is_literal and b.is_literal and a.hi == b.hi == 1:
        return (*left[:-1], Part(a.text + b.text, True), *right[1:])
    if a.text == b.text and (not a.is_literal or (len(a.text) == 1 and b.is_literal)):
        return (*left[:-1], Part(a.text, a.is_literal, a.lo + b.lo, a.hi + b.hi), *right[1:])
    return left + right


def _cut(line: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """The line with its middle left out where it is too wide."""
    characters = [(character, literal) for text, literal in line for character in text]
    if sum(cells(character) for character, _ in characters) <= MAX_CELLS:
        return line
    kept = [*characters[:_HEAD], ("⋯", False), *characters[-_TAIL:]]
    runs: list[tuple[str, bool]] = []
    for character, literal in kept:
        if runs and runs[-1][1] == literal:
            runs[-1] = (runs[-1][0] + character, literal)
        else:
            runs.append((character, literal))
    return runs
