"""The syntax tree of a pattern: five kinds of nodes, flags and dialect already resolved; knows no concrete syntax.

Anchors and word boundaries are lookarounds: `\\Z` is `(?!any)`, `^` is `(?<!any)`, `\\b` is
`(?<=w)(?!w)|(?<!w)(?=w)`. Groups leave no node, since what they capture is no part of the language.
"""

from __future__ import annotations

from dataclasses import dataclass

from guided.automaton.charset import ANY, CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set; the empty set matches nothing."""

    characters: CharSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other; no item: the empty string."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any one of the items; no item: nothing matches."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item lo..hi times; hi None: no upper bound."""

    item: Node
    lo: int
    hi: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """Reads nothing: holds where the body matches (`negative`: does not match) right after, or right `behind`, this place."""

    body: Node
    behind: bool
    negative: bool


Node = Chars | Sequence | Alternation | Repeat | Look

EMPTY = Sequence(())
NOTHING = Alternation(())
_ANYTHING = Chars(ANY)
NEWLINE = CharSet.of("\n")

TEXT_START = Look(_ANYTHING, behind=True, negative=True)
TEXT_END = Look(_ANYTHING, behind=False, negative=True)
# At the end, or before a newline that is the last character.
PYTHON_DOLLAR = Look(Alternation((Chars(~NEWLINE), Sequence((Chars(NEWLINE), _ANYTHING)))), behind=False, negative=True)


def line_start(terminators: CharSet) -> Look:
    """`^` in multiline mode: no character before, or a line terminator."""
    return Look(Chars(~terminators), behind=True, negative=True)


def line_end(terminators: CharSet) -> Look:
    """`$` in multiline mode: no character after, or a line terminator."""
    return Look(Chars(~terminators), behind=False, negative=True)


def word_boundary(word: CharSet) -> Node:
    """`\\b`: a word character on exactly one side."""
    w = Chars(word)
    ends = Sequence((Look(w, behind=True, negative=False), Look(w, behind=False, negative=True)))
    begins = Sequence((Look(w, behind=True, negative=True), Look(w, behind=False, negative=False)))
    return Alternation((ends, begins))


def no_word_boundary(word: CharSet, holds_in_empty_text: bool) -> Node:
    """`\\B`: word characters on both sides or on neither. Python before 3.14 has it fail in the empty text."""
    w = Chars(word)
    inside = Sequence((Look(w, behind=True, negative=False), Look(w, behind=False, negative=False)))
    outside: list[Node] = [Look(w, behind=True, negative=True), Look(w, behind=False, negative=True)]
    if not holds_in_empty_text:
        some = (Look(_ANYTHING, behind=True, negative=False), Look(_ANYTHING, behind=False, negative=False))
        outside.append(Alternation(some))
    return Alternation((inside, Sequence(tuple(outside))))


def sequence(items: list[Node]) -> Node:
    """The items in order, without a wrapper around a single one."""
    return items[0] if len(items) == 1 else Sequence(tuple(items))


def alternation(items: list[Node]) -> Node:
    """Any of the items, without a wrapper around a single one."""
    return items[0] if len(items) == 1 else Alternation(tuple(items))


def repeat(item: Node, lo: int, hi: int | None) -> Node:
    """The item lo..hi times; (x{a,b}){c,d} with a <= 1 is x{ac,bd}, which spares nested copies."""
    if (lo, hi) == (1, 1):
        return item
    if hi == 0:
        return EMPTY
    if isinstance(item, Repeat) and item.lo <= 1:
        return Repeat(item.item, item.lo * lo, None if hi is None or item.hi is None else item.hi * hi)
    return Repeat(item, lo, hi)


def min_width(node: Node) -> int:
    """Fewest characters that the node reads."""
    match node:
        case Chars():
            return 1
        case Sequence(items):
            return sum(map(min_width, items))
        case Alternation(items):
            return min(map(min_width, items), default=0)
        case Repeat(item, lo, _):
            return lo * min_width(item) if lo else 0
        case Look():
            return 0


def max_width(node: Node) -> int | None:
    """Most characters that the node reads; None: no bound."""
    match node:
        case Chars():
            return 1
        case Sequence(items):
            widths = _max_widths(items)
            return None if widths is None else sum(widths)
        case Alternation(items):
            widths = _max_widths(items)
            return None if widths is None else max(widths, default=0)
        case Repeat(item, _, hi):
            width = max_width(item)
            if width == 0:
                return 0
            return None if width is None or hi is None else width * hi
        case Look():
            return 0


def _max_widths(items: tuple[Node, ...]) -> list[int] | None:
    """`max_width` of each item; None: one of them has no bound."""
    widths = [width for item in items if (width := max_width(item)) is not None]
    return widths if len(widths) == len(items) else None


def settle_ends(node: Node, at_start: bool, at_end: bool) -> Node:
    """Decides the lookarounds that stand at the very start or end of the whole text: no character is there to look at.

    `^\\d+$` becomes `\\d+`. Whatever else a pattern asserts is left to `guided.regex.lookaround`.
    """
    match node:
        case Look(body, behind, negative) if (at_start if behind else at_end) and min_width(body):
            return EMPTY if negative else NOTHING
        case Alternation(items) if at_start or at_end:
            return Alternation(tuple(settle_ends(item, at_start, at_end) for item in items))
        case Sequence(items) if at_start or at_end:
            return _settle_sequence(items, at_start, at_end)
    return node


def _settle_sequence(items: tuple[Node, ...], at_start: bool, at_end: bool) -> Sequence:
    """An item is at the start if no item before it reads anything, and at the end likewise."""
    first = next((i for i, item in enumerate(items) if not _reads_nothing(item)), len(items) - 1)
    last = next((i for i in range(len(items) - 1, -1, -1) if not _reads_nothing(items[i])), 0)
    settled = list(items)
    for i in {*range(first + 1), *range(last, len(items))}:
        settled[i] = settle_ends(items[i], at_start and i <= first, at_end and i >= last)
    return Sequence(tuple(settled))


def _reads_nothing(node: Node) -> bool:
    """Is every match of the node empty?"""
    match node:
        case Chars():
            return False
        case Sequence(items) | Alternation(items):
            return all(map(_reads_nothing, items))
        case Repeat(item, _, _):
            return _reads_nothing(item)
    return True


def unanchored(node: Node) -> Node:
    """The texts in which the pattern matches somewhere, as a pattern for whole texts."""
    if isinstance(node, Alternation):
        return Alternation(tuple(unanchored(item) for item in node.items))
    filler = Repeat(_ANYTHING, 0, None)
    before = [] if _begins_with(node, TEXT_START) else [filler]
    after = [] if _ends_with(node, TEXT_END) else [filler]
    return Sequence((*before, node, *after))


def _begins_with(node: Node, anchor: Look) -> bool:
    """Does every match pass the anchor before it reads anything?"""
    match node:
        case Look():
            return node == anchor
        case Sequence(items):
            for item in items:
                if _begins_with(item, anchor):
                    return True
                if not isinstance(item, Look):
                    return False
            return False
        case Alternation(items):
            return bool(items) and all(_begins_with(item, anchor) for item in items)
        case Repeat(item, lo, _):
            return lo > 0 and _begins_with(item, anchor)
    return False


def _ends_with(node: Node, anchor: Look) -> bool:
    """Does every match pass the anchor after all that it reads?"""
    match node:
        case Sequence(items):
            for item in reversed(items):
                if _ends_with(item, anchor):
                    return True
                if not isinstance(item, Look):
                    return False
            return False
        case Alternation(items):
            return bool(items) and all(_ends_with(item, anchor) for item in items)
        case Repeat(item, lo, _):
            return lo > 0 and _ends_with(item, anchor)
    return _begins_with(node, anchor)
