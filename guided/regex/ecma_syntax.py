"""The syntax of ECMA-262 regular expressions, the dialect of JSON Schema; knows no automata."""

from __future__ import annotations

from guided.automaton.charset import CharSet
from guided.regex import syntax
from guided.regex.characters import ECMA_LINE_ENDS, Categories, EcmaCategories, WideEcmaCategories, unicode_property
from guided.regex.parser import SIMPLE_ESCAPES, Parser
from guided.regex.syntax import Chars, Node

_ECMA, _WIDE = EcmaCategories(), WideEcmaCategories()


class EcmaParser(Parser):
    """ECMA-262 in Unicode mode, with the leniency of its Annex B where Unicode mode would refuse.

    `\\A`, `\\Z`, `(?P<name>...)` and leading `(?i)` mean what they mean in Python: in ECMA's Unicode mode they are errors,
    so there is no other reading.
    """

    name_opening = "<"
    flag_names = "ims"
    line_ends = ECMA_LINE_ENDS
    dollar = syntax.TEXT_END

    @property
    def categories(self) -> Categories:
        return _ECMA

    def no_boundary(self, word: CharSet) -> Node:
        return syntax.no_word_boundary(word, holds_in_empty_text=True)

    def is_quantifier(self, lo: str, has_comma: bool) -> bool:
        return bool(lo)

    def is_name(self, name: str) -> bool:
        return name.replace("$", "_").isidentifier()

    def special_group(self, column: int) -> tuple[Node | None, bool]:
        if self.take("P<"):
            self.group_name(">")
            return self.group_body(column, self.flags), True
        if self.take(">"):
            raise self.refuse("atomic group", column)
        if self.take("P=") or self.take("("):
            raise self.refuse("backreference", column)
        return self.scoped_flags(column)

    def is_octal(self) -> bool:
        return False

    def at_class_end(self, begin: int) -> bool:
        return self.next == "]"  # [] is nothing, [^] is any character

    def range_of_sets(self, lo, hi, pairs: list[tuple[int, int]], start: int):
        """`[\\w-z]` under Annex B: the set, a hyphen, and the other end."""
        pairs.append((ord("-"), ord("-")))
        sets = [part if isinstance(part, CharSet) else CharSet.of(part) for part in (lo, hi)]
        both = sets[0] | sets[1]
        return both, both

    def literal_escape(self) -> tuple[Node, bool]:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter == "k":
            raise self.refuse("backreference", self.at)
        if letter in ("p", "P"):
            return Chars(self.property_escape()), True
        return super().literal_escape()

    def class_escape(self, negated: bool) -> int | CharSet:
        if self.pattern[self.at + 1 : self.at + 2] in ("p", "P"):
            return self.property_escape()
        return super().class_escape(negated)

    def property_escape(self) -> CharSet:
        column = self.at
        close = self.pattern.find("}", self.at)
        if self.pattern[self.at + 2 : self.at + 3] != "{" or close < 0:
            raise self.fail("incomplete escape " + self.pattern[self.at : self.at + 2], column)
        name = self.pattern[self.at + 3 : close]
        characters = unicode_property(name)
        if characters is None:
            raise self.fail(f"unknown Unicode property {name!r}", column)
        complement = self.pattern[self.at + 1] == "P"
        self.at = close + 1
        return ~characters if complement else characters

    def character_escape(self, in_class: bool) -> int:
        column = self.at
        letter = self.pattern[self.at + 1 : self.at + 2]
        following = self.pattern[self.at + 2 : self.at + 3]
        if letter == "u":
            return self.unicode_escape()
        if letter == "x":
            return self.hex_escape(2)
        if letter == "c" and following.isascii() and following.isalpha():
            self.at += 3
            return ord(following) & 31
        self.at += 2
        if letter in SIMPLE_ESCAPES or (letter == "b" and in_class):
            return ord({**SIMPLE_ESCAPES, "b": "\b"}[letter])
        if letter == "0" and not following.isdigit():
            return 0
        if not letter or (letter.isascii() and letter.isalnum()):
            raise self.fail(f"bad escape \\{letter}", column)
        return ord(letter)

    def unicode_escape(self) -> int:
        """`\\u{...}`, `\\uXXXX`, or two of these that are a surrogate pair."""
        column = self.at
        if self.pattern[self.at + 2 : self.at + 3] == "{":
            close = self.pattern.find("}", self.at)
            digits = self.pattern[self.at + 3 : close] if close >= 0 else ""
            if not digits or any(c not in "0123456789abcdefABCDEF" for c in digits) or int(digits, 16) > 0x10FFFF:
                raise self.fail("bad escape \\u{...}", column)
            self.at = close + 1
            return int(digits, 16)
        value = self.hex_escape(4)
        if 0xD800 <= value < 0xDC00 and self.pattern.startswith("\\u", self.at):
            begin = self.at
            low = self.hex_escape(4) if self.pattern[self.at + 2 : self.at + 3] != "{" else 0
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00)
            self.at = begin
        return value


class WideEcmaParser(EcmaParser):
    """The same syntax; what matches under ECMA's reading of `\\d \\w \\s` or under Python's."""

    @property
    def categories(self) -> Categories:
        return _WIDE
