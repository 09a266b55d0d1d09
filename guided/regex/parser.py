"""Recursive descent over the text of a pattern: what Python's `re` and ECMA-262 have in common; knows no automata.

The tree is built here, and not taken from `re`'s private parser or from `interegular`, because its nodes need their
columns (refusals point at them) and because both dialects share all of it; `interegular` has no lookbehind in
the middle, no `\\b`, no `\\N{...}` and no ECMA.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache

from guided.automaton.charset import ANY, NONE, CharSet
from guided.errors import InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.limits import Budget
from guided.regex import syntax
from guided.regex.characters import Categories, ignoring_case
from guided.regex.syntax import Chars, Look, Node

A, I, L, M, S, U, X = (int(flag) for flag in (re.A, re.I, re.L, re.M, re.S, re.U, re.X))  # noqa: E741 - the names of `re`
FLAGS = {"a": A, "i": I, "L": L, "m": M, "s": S, "u": U, "x": X}
SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ORDINARY = re.compile(r"[^\\.^$*+?{\[()|]+")  # literals; a run of them is read at once
_LEADING = re.compile(r"(\(\?(#[^)]*|[a-zA-Z]+)\)|\s)*")  # what global flags may follow
_CASELESS_WORK = 1 << 22  # code points below U+10000 in the classes that ignore case: `re` folds them one by one


class Parser(ABC):
    """What the dialects have in common; `at` is the offset of the next character."""

    def __init__(self, pattern: str, flags: int, budget: Budget) -> None:
        self.pattern = pattern
        self.flags = flags
        self.budget = budget
        self.at = 0
        self.depth = 0
        self.in_look = 0  # inside how many lookarounds: there, sets are exact
        self.caseless_work = 0
        self.num_items = 0

    # --- what a dialect defines -------------------------------------------------------------------------------------

    name_opening: str  # of a named group, after `(?`
    flag_names: str
    line_ends: CharSet
    dollar: Node  # `$` outside multiline mode

    @property
    @abstractmethod
    def categories(self) -> Categories:
        """What `\\d \\w \\s` mean under the present flags."""

    @abstractmethod
    def no_boundary(self, word: CharSet) -> Node:
        """`\\B`."""

    @abstractmethod
    def is_quantifier(self, lo: str, has_comma: bool) -> bool:
        """Is `{lo` with or without a comma a quantifier, rather than literal text?"""

    @abstractmethod
    def is_name(self, name: str) -> bool:
        """May a group have this name?"""

    @abstractmethod
    def is_octal(self) -> bool:
        """Is the backslash and digit that come next an octal escape, rather than a backreference?"""

    @abstractmethod
    def character_escape(self, in_class: bool) -> int:
        """The code point of an escape that stands for one character."""

    @abstractmethod
    def special_group(self, column: int) -> tuple[Node | None, bool]:
        """A group that opens like no other: after `(?`, as `atom`."""

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> str:
        """The next character, "" at the end."""
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        """Steps over `text` if it comes next."""
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def take_while(self, allowed: str, limit: int) -> str:
        begin = self.at
        while self.at < len(self.pattern) and self.at - begin < limit and self.pattern[self.at] in allowed:
            self.at += 1
        return self.pattern[begin : self.at]

    def fail(self, message: str, column: int | None = None) -> InvalidConstraint:
        return InvalidConstraint(
            f"invalid regex: {message}", column=self.at if column is None else column, source=self.pattern
        )

    def refuse(self, keyword: str, column: int, hint: str | None = None) -> UnsupportedKeyword:
        return UnsupportedKeyword(
            f"regex: {keyword} cannot be enforced", keyword=keyword, column=column, source=self.pattern, hint=hint
        )

    # --- structure --------------------------------------------------------------------------------------------------

    def parse(self) -> Node:
        tree = self.alternation()
        if self.at < len(self.pattern):
            raise self.fail("unbalanced parenthesis")
        return tree

    def alternation(self) -> Node:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return syntax.alternation(branches)

    def sequence(self) -> Node:
        items: list[Node] = []
        repeatable = False  # may a quantifier follow?
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            run = None if self.flags & (I | X) else _ORDINARY.match(self.pattern, self.at)
            if run:
                items += map(_literal, run.group())
                self.at, repeatable = run.end(), True
                continue
            if self.flags & X and self.skip_blank():
                continue
            column = self.at
            bounds = self.quantifier()
            if bounds is None:
                item, repeatable = self.atom()
                if item is not None:
                    items.append(item)
                continue
            if not items or not repeatable:
                raise self.fail("nothing to repeat" if not items else "multiple repeat", column)
            self.suffix(column)
            items[-1] = syntax.repeat(items[-1], *bounds)
            repeatable = False
        self.num_items += len(items)
        self.budget.check("regex", states=self.num_items)  # each is a state at least
        return syntax.sequence(items)

    def skip_blank(self) -> bool:
        """Steps over what verbose mode ignores."""
        begin = self.at
        if self.next in " \t\n\r\v\f":
            self.at += 1
        elif self.next == "#":
            end = self.pattern.find("\n", self.at)
            self.at = len(self.pattern) if end < 0 else end + 1
        return self.at > begin

    def quantifier(self) -> tuple[int, int | None] | None:
        """(lo, hi) of a quantifier that comes next; None where it is a literal after all."""
        begin = self.at
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        if not self.take("{"):
            return None
        bounds = self.bounds()
        if bounds is None:
            self.at = begin
        return bounds

    def bounds(self) -> tuple[int, int | None] | None:
        """The rest of `{lo,hi}`; None if this is no quantifier."""
        column = self.at - 1
        digits = "0123456789"
        lo = self.take_while(digits, len(self.pattern))
        has_comma = self.take(",")
        hi = self.take_while(digits, len(self.pattern)) if has_comma else lo
        if not self.take("}") or not self.is_quantifier(lo, has_comma):
            return None
        if max(len(lo), len(hi)) > 10:
            raise self.fail("the repetition number is too large", column)
        least, most = int(lo or 0), int(hi) if hi else None
        if most is not None and most < least:
            raise self.fail("min repeat greater than max repeat", column)
        return least, most

    def suffix(self, column: int) -> None:
        """`?` after a quantifier changes which match is found, not the language; `+` gives nothing back."""
        if self.take("?"):
            return
        if self.next == "+":
            raise self.refuse("possessive quantifier", column, "Drop the +, if giving back characters does no harm")

    def atom(self) -> tuple[Node | None, bool]:
        """The next item (None: a comment or flags), and whether a quantifier may follow it."""
        character = self.pattern[self.at]
        if character == "(":
            return self.group()
        if character == "[":
            return Chars(self.char_class()), True
        if character == "\\":
            return self.escape()
        self.at += 1
        if character == ".":
            return Chars(ANY if self.flags & S else ~self.line_ends), True
        if character == "^":
            return syntax.line_start(self.line_ends) if self.flags & M else syntax.TEXT_START, False
        if character == "$":
            return syntax.line_end(self.line_ends) if self.flags & M else self.dollar, False
        return self.literal(character), True

    def literal(self, character: str) -> Node:
        if self.flags & I:
            return Chars(ignoring_case(CharSet.of(character), bool(self.flags & A)))
        return _literal(character)

    # --- groups -----------------------------------------------------------------------------------------------------

    def group(self) -> tuple[Node | None, bool]:
        column = self.at
        self.at += 1
        if not self.take("?"):
            return self.group_body(column, self.flags), True
        if self.take(":"):
            return self.group_body(column, self.flags), True
        for opening, behind, negative in (
            ("=", False, False),
            ("!", False, True),
            ("<=", True, False),
            ("<!", True, True),
        ):
            if self.take(opening):
                return self.look(column, behind, negative), True
        if self.take(self.name_opening):
            self.group_name(">")
            return self.group_body(column, self.flags), True
        return self.special_group(column)

    def group_body(self, column: int, flags: int) -> Node:
        """The alternation up to the closing parenthesis, under the given flags."""
        self.depth += 1
        self.budget.check("regex", depth=self.depth)
        outer, self.flags = self.flags, flags
        body = self.alternation()
        self.flags = outer
        self.depth -= 1
        if not self.take(")"):
            raise self.fail("missing ), unterminated subpattern", column)
        return body

    def look(self, column: int, behind: bool, negative: bool) -> Look:
        self.in_look += 1
        body = self.group_body(column, self.flags)
        self.in_look -= 1
        return Look(body, behind, negative)

    def group_name(self, end: str) -> str:
        close = self.pattern.find(end, self.at)
        name = self.pattern[self.at : close] if close >= 0 else ""
        if not self.is_name(name):
            raise self.fail(f"bad group name {name!r}")
        self.at = close + len(end)
        return name

    def scoped_flags(self, column: int) -> tuple[Node | None, bool]:
        """`(?flags)` at the start of the pattern, or `(?flags-flags:...)`."""
        added = self.flag_letters(column)
        removed = self.flag_letters(column) if self.take("-") else 0
        if self.take(")"):
            if not _LEADING.fullmatch(self.pattern, 0, column):
                raise self.fail("global flags not at the start of the expression", column)
            self.flags = with_flags(self.flags, added, 0)
            return None, False
        if not self.take(":"):
            raise self.fail("unknown extension of a group", column)
        return self.group_body(column, with_flags(self.flags, added, removed)), True

    def flag_letters(self, column: int) -> int:
        flags = 0
        while self.next and self.next in self.flag_names:
            flags |= FLAGS[self.next]
            self.at += 1
        return flags

    # --- classes ----------------------------------------------------------------------------------------------------

    def char_class(self) -> CharSet:
        """`[...]`: literals and ranges, which ignore case where the flag says so, and categories, which have none."""
        column = self.at
        self.at += 1
        negated = self.take("^")
        pairs: list[tuple[int, int]] = []
        categories = NONE
        begin = self.at
        while not self.at_class_end(begin):
            if self.at >= len(self.pattern):
                raise self.fail("unterminated character set", column)
            start = self.at
            lo = self.class_item(negated)
            if not self.range_follows():
                hi = lo
            else:
                self.at += 1
                hi = self.class_item(negated)
                if isinstance(lo, CharSet) or isinstance(hi, CharSet):
                    lo, hi = self.range_of_sets(lo, hi, pairs, start)
            if isinstance(lo, CharSet):
                categories |= lo
                continue
            if isinstance(hi, CharSet) or hi < lo:
                raise self.fail(f"bad character range {self.pattern[start : self.at]}", start)
            pairs.append((lo, hi))
        self.at += 1
        characters = CharSet.from_ranges(pairs)
        if self.flags & I:
            self.caseless_work += sum(min(hi, 0xFFFF) - lo for lo, hi in pairs if lo < 0xFFFF)
            if self.caseless_work > _CASELESS_WORK:
                raise LimitExceeded(
                    "too many wide classes that ignore case", limit="seconds", column=column, source=self.pattern
                )
            characters = ignoring_case(characters, bool(self.flags & A))
        characters |= categories
        return ~characters if negated else characters

    def at_class_end(self, begin: int) -> bool:
        return self.next == "]" and self.at > begin

    def range_follows(self) -> bool:
        return self.next == "-" and self.at + 1 < len(self.pattern) and self.pattern[self.at + 1] != "]"

    def range_of_sets(self, lo, hi, pairs: list[tuple[int, int]], start: int):
        """`[\\w-z]`: no range."""
        raise self.fail(f"bad character range {self.pattern[start : self.at]}", start)

    def class_item(self, negated: bool) -> int | CharSet:
        """A code point, or the set of a category escape."""
        character = self.pattern[self.at : self.at + 1]
        if not character:
            raise self.fail("unterminated character set")
        if character == "\\":
            return self.class_escape(negated)
        self.at += 1
        return ord(character)

    def category(self, letter: str, negated: bool = False) -> CharSet:
        categories = self.categories
        if self.in_look:
            return categories.exact(letter)
        return categories.outer(letter) if negated else categories.inner(letter)

    # --- escapes ----------------------------------------------------------------------------------------------------

    def escape(self) -> tuple[Node, bool]:
        column = self.at
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter and letter in "dDwWsS":
            self.at += 2
            return Chars(self.category(letter)), True
        if letter == "A" or letter == "Z":
            self.at += 2
            return (syntax.TEXT_START if letter == "A" else syntax.TEXT_END), False
        if letter == "b" or letter == "B":
            self.at += 2
            word = self.categories.exact("w")
            return (syntax.word_boundary(word) if letter == "b" else self.no_boundary(word)), False
        if letter and letter in "123456789" and not self.is_octal():
            raise self.refuse("backreference", column, "What a group matched cannot be remembered while generating")
        return self.literal_escape()

    def literal_escape(self) -> tuple[Node, bool]:
        return self.literal(chr(self.character_escape(in_class=False))), True

    def class_escape(self, negated: bool) -> int | CharSet:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter and letter in "dDwWsS":
            self.at += 2
            return self.category(letter, negated)
        return self.character_escape(in_class=True)

    def hex_escape(self, digits: int) -> int:
        """The value of `\\x`, `\\u` or `\\U` with exactly this many digits."""
        column = self.at
        text = self.pattern[self.at + 2 : self.at + 2 + digits]
        if len(text) < digits or any(c not in "0123456789abcdefABCDEF" for c in text):
            raise self.fail(f"incomplete escape {self.pattern[column : column + 2 + len(text)]}", column)
        self.at += 2 + digits
        value = int(text, 16)
        if value > 0x10FFFF:
            raise self.fail(f"bad escape \\U{text}", column)
        return value


def with_flags(flags: int, added: int, removed: int) -> int:
    """Flags after `(?added-removed:`; `a` and `u` exclude each other."""
    if added & (A | U):
        flags &= ~(A | U)
    return (flags | added) & ~removed


@lru_cache(maxsize=4096)
def _literal(character: str) -> Chars:
    return Chars(CharSet.of(character))
