"""GBNF text in, `RuleSet` out: the grammar format of llama.cpp and the EBNF of xgrammar (`root ::= ...`); knows no automata.

A rule ends where the next `name ::=` begins, so line breaks and the place of `|` mean nothing; both projects' files read the
same. Escapes are those of both. What only one of them has and cannot be enforced here (lookahead `(=...)`, tokens by number,
negated tokens) is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from guided.errors import InvalidConstraint, UnsupportedKeyword
from guided.grammar.rules import (
    CharacterClass,
    Choice,
    Expression,
    Literal,
    Place,
    Reference,
    Repeat,
    RuleSet,
    SpecialToken,
    Terminal,
    choice,
    sequence,
)
from guided.grammar.source import place_of, too_deep
from guided.limits import Budget

START = "root"
LONGEST = 400_000  # characters of a grammar
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

_TOKEN = re.compile(
    r"""(?P<space> \s+ | \#[^\n]* )
      | (?P<define> ::= )
      | (?P<literal> "(?:\\.|[^"\\])*" )
      | (?P<charset> \[(?:\\.|[^\]\\])*\] )
      | (?P<name> [A-Za-z0-9_-]+ (?: \.[A-Za-z0-9_-]+ )* )
      | (?P<special> !?<(?: "[^"\n]+" | [^<>"\s]+ )> )
      | (?P<lookahead> \([=!] )
      | (?P<count> \{\s*\d+\s*(?:,\s*\d*\s*)?\} )
      | (?P<sign> [()|*+?.] )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^xuU0-9A-Za-z]|[nrtabfve0])|[^\\]", re.DOTALL
)
_NAMED = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "0": 0}
_BRACKETED = re.compile(r"!?<\[[\d,\- ]*\]>")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


@dataclass(slots=True)
class _Group:
    """An open parenthesis, or a whole rule: the alternatives so far, the last one growing."""

    alternatives: list[list[Expression]] = field(default_factory=lambda: [[]])

    def expression(self) -> Expression:
        return choice(sequence(parts) for parts in self.alternatives)


def read_gbnf(text: str, budget: Budget) -> RuleSet:
    """The rules of a grammar in GBNF or EBNF.

    Raises:
        InvalidConstraint: a syntax error, a name that is undefined or defined twice, no rule `root`.
        UnsupportedKeyword: lookahead, negated tokens, tokens by number.
        LimitExceeded: nested too deeply, or out of time.
    """
    return _Reader(text, budget).read()


class _Reader:
    def __init__(self, text: str, budget: Budget) -> None:
        self._text = text
        self._budget = budget
        self._tokens = self._tokenise()
        starts = zip(self._tokens, self._tokens[1:], strict=False)
        self._defined = {name.text for name, sign in starts if name.kind == "name" and sign.kind == "define"}
        self._used: dict[str, int] = {}  # name -> offset of its first use
        self._token_places: dict[Terminal, Place] = {}  # of special tokens

    def read(self) -> RuleSet:
        rules: dict[str, Expression] = {}
        places: dict[str, Place] = {}
        position = 0
        while position < len(self._tokens):
            name = self._tokens[position]
            if name.kind != "name" or not self._is_kind(position + 1, "define"):
                raise self._invalid("expected a rule (`name ::= ...`)", name.offset)
            if name.text in rules:
                raise self._invalid(f"rule {name.text!r} is defined more than once", name.offset)
            places[name.text] = Place(*place_of(self._text, name.offset))
            rules[name.text], position = self._body(position + 2)
            self._budget.check("reading the grammar")
        for used, offset in self._used.items():
            if used not in rules:
                raise self._invalid(f"rule {used!r} is used but not defined", offset)
        if START not in rules:
            raise InvalidConstraint(
                "the grammar has no rule named 'root'",
                hint="GBNF grammars begin at `root ::=`, Lark grammars at `start:`",
            )
        return RuleSet(START, rules, (), places, self._token_places, source=self._text)

    # --- rules ------------------------------------------------------------------------------------------------------

    def _body(self, position: int) -> tuple[Expression, int]:
        """The expression from a position to the next rule, and the position there."""
        groups = [_Group()]
        opened: list[int] = []
        repeatable = False  # an operator may follow
        while position < len(self._tokens) and not self._is_kind(position + 1, "define"):
            token = self._tokens[position]
            position += 1
            parts = groups[-1].alternatives[-1]
            if token.kind == "count" or token.text in ("*", "+", "?"):
                if not repeatable:
                    raise self._invalid(f"{token.text!r} has nothing to repeat", token.offset)
                parts[-1] = Repeat(parts[-1], *self._bounds(token))
            elif token.text == "(":
                groups.append(_Group())
                opened.append(token.offset)
                if len(opened) > self._budget.limits.nesting:
                    raise too_deep(self._text, token.offset, self._budget)
            elif token.text == "|":
                groups[-1].alternatives.append([])
            elif token.text == ")":
                if not opened:
                    raise self._invalid("closing parenthesis without an opening one", token.offset)
                opened.pop()
                inner = groups.pop().expression()
                groups[-1].alternatives[-1].append(inner)
            else:
                parts.extend(self._element(token))
            repeatable = token.text not in ("(", "|")
        if opened:
            raise self._invalid("parenthesis is never closed", opened[-1])
        return groups[0].expression(), position

    def _element(self, token: _Token) -> list[Expression]:
        match token.kind:
            case "literal":
                return [Literal("".join(map(chr, self._characters(token))))]
            case "charset":
                return [self._class(token)]
            case "name":
                return self._reference(token)
            case "special":
                return [self._special(token)]
            case "sign":
                return [CharacterClass(_complement(()))]
            case "lookahead":
                raise UnsupportedKeyword(
                    "lookahead assertions are not supported", keyword=token.text, **self._at(token.offset)
                )
            case _:
                raise self._invalid(f"unexpected {token.text!r}", token.offset)

    def _reference(self, token: _Token) -> list[Expression]:
        """A rule; where a name with dots is no rule, each dot is `.`, any character."""
        names = [token.text] if token.text in self._defined else token.text.split(".")
        found: list[Expression] = []
        offset = token.offset
        for name in names:
            if found:
                found.append(CharacterClass(_complement(())))
            self._used.setdefault(name, offset)
            found.append(Reference(name))
            offset += len(name) + 1
        return found

    def _special(self, token: _Token) -> SpecialToken:
        if token.text.startswith("!") or _BRACKETED.fullmatch(token.text):
            raise UnsupportedKeyword(
                f"{token.text}: special tokens are given by name, neither by number nor negated",
                keyword=token.text,
                **self._at(token.offset),
            )
        special = SpecialToken(token.text[2:-2] if token.text.startswith('<"') else token.text)
        self._token_places.setdefault(special, Place(*place_of(self._text, token.offset)))
        return special

    def _bounds(self, token: _Token) -> tuple[int, int | None]:
        if token.kind != "count":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token.text]
        low, comma, high = token.text[1:-1].replace(" ", "").partition(",")
        bounds = int(low), (int(high) if high.strip() else None) if comma else int(low)
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise self._invalid(f"bad repetition {token.text}", token.offset)
        return bounds

    # --- characters -------------------------------------------------------------------------------------------------

    def _class(self, token: _Token) -> Expression:
        negated = token.text.startswith("[^")
        pieces = self._pieces(_Token(token.kind, token.text[1 + negated : -1], token.offset + 1 + negated))
        ranges: list[tuple[int, int]] = []
        position = 0
        while position < len(pieces):
            low = high = pieces[position][0]
            if position + 2 < len(pieces) and pieces[position + 1][1]:  # a dash that was not escaped
                high = pieces[position + 2][0]
                position += 2
            if high < low:
                raise self._invalid(f"range {chr(low)}-{chr(high)} runs backwards", token.offset)
            ranges.append((low, high))
            position += 1
        merged = _merged(ranges)
        chosen = _complement(merged) if negated else merged
        return CharacterClass(chosen) if chosen else Choice(())

    def _characters(self, token: _Token) -> list[int]:
        """The code points of a literal."""
        return [point for point, _ in self._pieces(_Token(token.kind, token.text[1:-1], token.offset + 1))]

    def _pieces(self, token: _Token) -> list[tuple[int, bool]]:
        """(code point, it is a bare dash) of each character or escape."""
        found, position = [], 0
        while position < len(token.text):
            piece = _ESCAPE.match(token.text, position)
            if piece is None:
                raise self._invalid(f"unknown escape {token.text[position : position + 2]}", token.offset + position)
            written = piece.group()
            point = _code_point(written)
            if point > _LAST or _SURROGATES[0] <= point <= _SURROGATES[1]:
                raise self._invalid(f"{written} is no character", token.offset + position)
            found.append((point, written == "-"))
            position = piece.end()
        return found

    # --- tokens and places ------------------------------------------------------------------------------------------

    def _tokenise(self) -> list[_Token]:
        tokens, position = [], 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self._invalid(self._unreadable(position), position)
            assert match.lastgroup is not None, "every alternative has a name"
            if match.lastgroup != "space":
                tokens.append(_Token(match.lastgroup, match.group(), position))
            position = match.end()
        return tokens

    def _unreadable(self, position: int) -> str:
        unclosed = {'"': "literal is never closed", "[": "character class is never closed", "{": "bad repetition"}
        return unclosed.get(self._text[position], f"unexpected character {self._text[position]!r}")

    def _is_kind(self, position: int, kind: str) -> bool:
        return position < len(self._tokens) and self._tokens[position].kind == kind

    def _at(self, offset: int) -> dict:
        line, column = place_of(self._text, offset)
        return {"line": line, "column": column, "source": self._text}

    def _invalid(self, message: str, offset: int) -> InvalidConstraint:
        return InvalidConstraint(f"not a GBNF grammar: {message}", **self._at(offset))


def _code_point(written: str) -> int:
    if len(written) == 1:
        return ord(written)
    if written[1] in "xuU":
        return int(written[2:], 16)
    return _NAMED.get(written[1], ord(written[1]))


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, without overlaps."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Every other code point, surrogates left out."""
    outside, following = [], 0
    for low, high in _merged([*ranges, _SURROGATES]):
        if following < low:
            outside.append((following, low - 1))
        following = high + 1
    if following <= _LAST:
        outside.append((following, _LAST))
    return tuple(outside)
