"""The syntax of Python's `re`: its escapes, groups and flags, with `re.compile` as the judge; knows no automata.

Each pattern is put before `re.compile`, so one that `re` refuses is refused with `re`'s own message and column.
"""

from __future__ import annotations

import re
import unicodedata

from guided.automaton.charset import CharSet
from guided.errors import InvalidConstraint
from guided.limits import Budget
from guided.regex import syntax
from guided.regex.characters import AsciiCategories, Categories, PythonCategories
from guided.regex.parser import SIMPLE_ESCAPES, A, Parser
from guided.regex.syntax import Look, Node

_UNICODE, _ASCII = PythonCategories(), AsciiCategories()
_LITERALS = re.compile(r"[^\\.^$*+?{\[()]*")  # literals and `|`: `re` has no objection


class PythonParser(Parser):
    """The syntax of `re` (Python 3.11), as `re._parser` reads it."""

    name_opening = "P<"
    flag_names = "aiLmsux"
    line_ends = syntax.NEWLINE
    dollar = syntax.PYTHON_DOLLAR

    def __init__(self, pattern: str, flags: int, budget: Budget) -> None:
        super().__init__(pattern, flags, budget)
        self.given_flags = flags

    def parse(self) -> Node:
        try:
            tree = super().parse()
        except InvalidConstraint as error:
            self.judge(error.column or 0)  # raises what `re` has to say
            raise
        if not _LITERALS.fullmatch(self.pattern):
            self.judge(0)
        return tree

    def judge(self, column: int) -> None:
        """Raises InvalidConstraint with the words of `re` if it does not accept the pattern; `column` where it names none."""
        try:
            re.compile(self.pattern, self.given_flags)
        except re.error as error:
            raise self.fail(error.msg, column if error.pos is None else error.pos) from error
        except (ValueError, OverflowError) as error:
            raise self.fail(str(error), column) from error

    @property
    def categories(self) -> Categories:
        return _ASCII if self.flags & A else _UNICODE

    def no_boundary(self, word: CharSet) -> Node:
        return syntax.no_word_boundary(word, holds_in_empty_text=re.match(r"\B", "") is not None)

    def look(self, column: int, behind: bool, negative: bool) -> Look:
        look = super().look(column, behind, negative)
        if behind and syntax.min_width(look.body) != syntax.max_width(look.body):
            raise self.fail("look-behind requires fixed-width pattern", column)
        return look

    def is_quantifier(self, lo: str, has_comma: bool) -> bool:
        return bool(lo or has_comma)  # {,5} counts from 0, {,} is *

    def is_name(self, name: str) -> bool:
        return name.isidentifier()

    def special_group(self, column: int) -> tuple[Node | None, bool]:
        if self.take("#"):
            end = self.pattern.find(")", self.at)
            if end < 0:
                raise self.fail("missing ), unterminated comment", column)
            self.at = end + 1
            return None, True
        if self.take("P="):
            raise self.refuse("backreference", column)
        if self.take("("):
            raise self.refuse("conditional group", column)
        if self.take(">"):
            raise self.refuse("atomic group", column, "Use (?:...), if giving back characters does no harm")
        return self.scoped_flags(column)

    def is_octal(self) -> bool:
        """`\\123`: three octal digits are a character, fewer a reference to a group."""
        digits = self.pattern[self.at + 1 : self.at + 4]
        return len(digits) == 3 and all(c in "01234567" for c in digits)

    def character_escape(self, in_class: bool) -> int:
        column = self.at
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter and letter in "xuU":
            return self.hex_escape({"x": 2, "u": 4, "U": 8}[letter])
        if letter == "N":
            return self.named_character()
        self.at += 1
        if (
            letter
            and letter in "01234567"
            and (letter == "0" or in_class or self.pattern[self.at : self.at + 3].isdigit())
        ):
            value = int(self.take_while("01234567", 3), 8)
            if value > 0o377:
                raise self.fail("octal escape value outside of range 0-0o377", column)
            return value
        if letter in SIMPLE_ESCAPES or letter == "a" or (letter == "b" and in_class):
            self.at += 1
            return ord({**SIMPLE_ESCAPES, "a": "\a", "b": "\b"}[letter])
        if not letter or (letter.isascii() and letter.isalnum()):
            raise self.fail(f"bad escape \\{letter}", column)
        self.at += 1
        return ord(letter)

    def named_character(self) -> int:
        column = self.at
        end = self.pattern.find("}", self.at)
        name = self.pattern[self.at + 3 : end] if self.pattern[self.at + 2 : self.at + 3] == "{" else ""
        try:
            character = unicodedata.lookup(name)
        except KeyError:
            character = ""
        if len(character) != 1:
            raise self.fail(f"undefined character name {name!r}", column)
        self.at = end + 1
        return ord(character)
