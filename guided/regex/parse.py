"""Pattern text -> syntax tree, for Python's `re` and for ECMA-262; knows no automata.

A recursive descent parser. Python's own parser is the judge of what a Python pattern is: `parse` puts each one before
`re.compile`, so a pattern that `re` refuses is refused with `re`'s message and column. The tree is built
here because its nodes need their columns (refusals point at them) and because the ECMA dialect shares all of it;
`re`'s private tree has neither, and `interegular`'s grammar lacks lookbehind, `\\b`, `\\N{...}`, nested flags and ECMA.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from guided.automaton.charset import ANY, NONE, CharSet
from guided.errors import InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.limits import Budget
from guided.regex import syntax
from guided.regex.characters import (
    ECMA_LINE_ENDS,
    AsciiCategories,
    Categories,
    EcmaCategories,
    PythonCategories,
    ignoring_case,
    unicode_property,
)
from guided.regex.syntax import Chars, Look, Node

FLAGS = {"a": re.A, "i": re.I, "L": re.L, "m": re.M, "s": re.S, "u": re.U, "x": re.X}
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_PLAIN = re.compile(r"[\w\s|\-=:;,/<>@&%!~'\"]*")  # nothing here but literals and `|`: `re` cannot object
_CASELESS_WORK = 1 << 24  # code points in the classes of a case-insensitive pattern: `re` folds them one by one


def parse(pattern: str, flags: int, dialect: str, budget: Budget) -> Node:
    """The tree of a pattern.

    Args:
        flags: `re` flags.
        dialect: "python" | "ecma".

    Raises:
        InvalidConstraint: not a pattern of the dialect.
        UnsupportedKeyword: backreferences, conditionals, atomic groups, possessive quantifiers.
        LimitExceeded: nested too deeply.
    """
    parser = (EcmaParser if dialect == "ecma" else PythonParser)(pattern, flags, budget)
    try:
        return parser.parse()
    except RecursionError as error:
        raise LimitExceeded(
            "the pattern is nested too deeply", limit="nesting", source=pattern, column=parser.at
        ) from error


class _Parser:
    """What the dialects have in common; `at` is the offset of the next character."""

    def __init__(self, pattern: str, flags: int, budget: Budget) -> None:
        self.pattern = pattern
        self.flags = flags
        self.budget = budget
        self.at = 0
        self.depth = 0
        self.in_look = 0  # inside how many lookarounds: there, sets are exact
        self.caseless_work = 0

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
            if self.flags & re.X and self.skip_blank():
                continue
            column = self.at
            bounds = self.quantifier()
            if bounds is None:
                item, repeatable = self.atom(first=not items)
                if item is not None:
                    items.append(item)
                continue
            if not items or not repeatable:
                raise self.fail("nothing to repeat" if not items else "multiple repeat", column)
            self.suffix(column)
            items[-1] = syntax.repeat(items[-1], *bounds)
            repeatable = False
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

    def atom(self, first: bool) -> tuple[Node | None, bool]:
        """The next item (None: a comment or flags), and whether a quantifier may follow it."""
        character = self.pattern[self.at]
        if character == "(":
            return self.group(first)
        if character == "[":
            return Chars(self.char_class()), True
        if character == "\\":
            return self.escape()
        self.at += 1
        if character == ".":
            return Chars(ANY if self.flags & re.S else ~self.line_ends), True
        if character == "^":
            return syntax.line_start(self.line_ends) if self.flags & re.M else syntax.TEXT_START, False
        if character == "$":
            return syntax.line_end(self.line_ends) if self.flags & re.M else self.dollar, False
        return self.literal(character), True

    def literal(self, character: str) -> Node:
        if self.flags & re.I:
            return Chars(ignoring_case(CharSet.of(character), bool(self.flags & re.A)))
        return _literal(character)

    # --- groups -----------------------------------------------------------------------------------------------------

    def group(self, first: bool) -> tuple[Node | None, bool]:
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
        return self.special_group(column, first)

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

    def scoped_flags(self, column: int, first: bool) -> tuple[Node | None, bool]:
        """`(?flags)` at the start of the pattern, or `(?flags-flags:...)`."""
        added = self.flag_letters(column)
        removed = self.flag_letters(column) if self.take("-") else 0
        if self.take(")"):
            if not first or self.depth or self.in_look:
                raise self.fail("global flags not at the start of the expression", column)
            self.flags = _with_flags(self.flags, added, 0)
            return None, False
        if not self.take(":"):
            raise self.fail("unknown extension of a group", column)
        return self.group_body(column, _with_flags(self.flags, added, removed)), True

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
        if self.flags & re.I:
            self.caseless_work += sum(hi - lo for lo, hi in pairs)
            if self.caseless_work > _CASELESS_WORK:
                raise LimitExceeded(
                    "too many wide classes that ignore case", limit="seconds", column=column, source=self.pattern
                )
            characters = ignoring_case(characters, bool(self.flags & re.A))
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


class PythonParser(_Parser):
    """The syntax of `re` (Python 3.11), as `re._parser` reads it."""

    name_opening = "P<"
    flag_names = "aiLmsux"
    line_ends = syntax.NEWLINE
    dollar = syntax.PYTHON_DOLLAR

    def parse(self) -> Node:
        try:
            tree = super().parse()
        except InvalidConstraint:
            self.judge()  # raises what `re` has to say
            raise
        if not _PLAIN.fullmatch(self.pattern):
            self.judge()
        return tree

    def judge(self) -> None:
        """Raises InvalidConstraint with the words of `re` if it does not accept the pattern."""
        try:
            re.compile(self.pattern, self.flags & ~(re.U | re.A) if self.flags & re.U else self.flags)
        except re.error as error:
            raise self.fail(error.msg, error.pos) from error
        except (ValueError, OverflowError) as error:
            raise self.fail(str(error), 0) from error

    @property
    def categories(self) -> Categories:
        return _ASCII if self.flags & re.A else _PYTHON

    def no_boundary(self, word: CharSet) -> Node:
        return syntax.no_word_boundary(word, holds_in_empty_text=re.match(r"\B", "") is not None)

    def is_quantifier(self, lo: str, has_comma: bool) -> bool:
        return bool(lo or has_comma)  # {,5} counts from 0, {,} is *

    def is_name(self, name: str) -> bool:
        return name.isidentifier()

    def special_group(self, column: int, first: bool) -> tuple[Node | None, bool]:
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
        return self.scoped_flags(column, first)

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
        if letter in _SIMPLE_ESCAPES or letter == "a" or (letter == "b" and in_class):
            self.at += 1
            return ord({**_SIMPLE_ESCAPES, "a": "\a", "b": "\b"}[letter])
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


class EcmaParser(_Parser):
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

    def special_group(self, column: int, first: bool) -> tuple[Node | None, bool]:
        if self.take("P<"):
            self.group_name(">")
            return self.group_body(column, self.flags), True
        if self.take(">"):
            raise self.refuse("atomic group", column)
        if self.take("P=") or self.take("("):
            raise self.refuse("backreference", column)
        return self.scoped_flags(column, first)

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
        if letter in _SIMPLE_ESCAPES or (letter == "b" and in_class):
            return ord({**_SIMPLE_ESCAPES, "b": "\b"}[letter])
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


_PYTHON, _ASCII, _ECMA = PythonCategories(), AsciiCategories(), EcmaCategories()


def _with_flags(flags: int, added: int, removed: int) -> int:
    """Flags after `(?added-removed:`; `a` and `u` exclude each other."""
    if added & (re.A | re.U):
        flags &= ~(re.A | re.U)
    return (flags | added) & ~removed


@lru_cache(maxsize=4096)
def _literal(character: str) -> Chars:
    return Chars(CharSet.of(character))
