"""Lark's terminal definitions in, Python regular expressions out, joined exactly as Lark joins them; knows no rules.

Order matters: Lark's dynamic lexer takes what `re.match` finds, so alternatives of a terminal are tried in Lark's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lark import Token, Tree
from lark import load_grammar as lark_loader
from lark.exceptions import GrammarError
from lark.lexer import Pattern as LarkPattern
from lark.lexer import PatternRE, PatternStr

from guided.errors import InvalidConstraint, LimitExceeded
from guided.grammar.lark_definition import Definition, Rename
from guided.grammar.lark_tree import fold, symbols
from guided.grammar.rules import Literal, Pattern, Terminal

_PATTERN_LENGTH = 100_000  # terminals that use each other twice double in length with each step


def terminal_of(pattern: LarkPattern, name: str = "") -> Terminal:
    """The terminal that matches what a Lark pattern matches."""
    if isinstance(pattern, PatternStr) and pattern.flags <= {"i"}:
        return Literal(pattern.value, "i" in pattern.flags)
    return Pattern(pattern.to_regexp(), name)


def literal_pattern(token: Token) -> LarkPattern:
    """The pattern of a string or regex literal.

    Raises:
        InvalidConstraint: an empty literal, a bad escape, a lone surrogate, a line break where none may be. Without a place.
    """
    try:
        pattern = lark_loader._literal_to_pattern(token)
    except (GrammarError, UnicodeError, ValueError) as error:
        raise InvalidConstraint(f"bad literal {token.value}: {error.args[0]}") from error
    if isinstance(pattern, PatternStr) and any("\ud800" <= character <= "\udfff" for character in pattern.value):
        raise InvalidConstraint(f"bad literal {token.value}: a lone surrogate is no character")
    return pattern


def range_pattern(first: Token, last: Token) -> LarkPattern:
    """The pattern of `"a".."z"`."""
    low, high = first.value[1:-1], last.value[1:-1]
    for text in (low, high):
        if len(lark_loader.eval_escaping(text)) != 1 or first.value[-1] == "i" or last.value[-1] == "i":
            raise InvalidConstraint(f"a range is between two single characters, not {first.value}..{last.value}")
    return PatternRE(f"[{low}-{high}]")


class TerminalPatterns:
    """The pattern of each terminal definition, with the terminals that it refers to put in."""

    def __init__(
        self, definitions: Mapping[str, Definition], refuse: Callable[[str, Token], InvalidConstraint]
    ) -> None:
        self._definitions = definitions
        self._refuse = refuse  # (message, token) -> the error with its place
        self._known: dict[str, LarkPattern] = {}

    def pattern(self, name: str) -> LarkPattern:
        """The pattern of the terminal of this name, which is defined."""
        waiting = [name]
        open_names: set[str] = set()
        while waiting:
            current = waiting[-1]
            if current in self._known:
                waiting.pop()
                continue
            missing = [used for used in self._uses(current) if used not in self._known]
            if not missing:
                self._known[current] = self._build(current)
            elif current in open_names:
                raise self._recursion(current)
            open_names.add(current)
            waiting.extend(missing)
        return self._known[name]

    def tree_pattern(self, tree: Tree, rename: Rename) -> LarkPattern:
        """The pattern of an expression over terminals, as in %ignore."""
        for name in self._tree_uses(tree, rename):
            self.pattern(name)
        return fold(tree, partial(self._combine, rename))

    def _uses(self, name: str) -> list[str]:
        definition = self._definitions[name]
        return [used for tree, rename in definition.trees() for used in self._tree_uses(tree, rename)]

    def _tree_uses(self, tree: Tree, rename: Rename) -> list[str]:
        for node in symbols(tree, "nonterminal"):
            raise self._refuse(f"rules are not allowed inside terminals ({node.children[0]})", node.children[0])
        used = []
        for node in symbols(tree, "terminal"):
            token = node.children[0]
            name = token.value if rename is None else rename(token.value)
            definition = self._definitions.get(name)
            if definition is None or definition.tree is None:
                raise self._refuse(f"terminal {token.value!r} is used but not defined", token)
            used.append(name)
        return used

    def _build(self, name: str) -> LarkPattern:
        pattern = self._joined(self._definitions[name].trees())
        if len(pattern.value) > _PATTERN_LENGTH:
            raise LimitExceeded(
                f"the grammar is too complex: the regular expression of terminal {name!r} has "
                f"{len(pattern.value):,} characters, the limit is {_PATTERN_LENGTH:,}",
                limit="states",
            )
        if pattern.value == "":
            token = self._definitions[name].token
            raise (
                self._refuse(f"terminal {name!r} is empty", token)
                if token
                else InvalidConstraint(f"terminal {name!r} is empty")
            )
        return pattern

    def _joined(self, trees: list[tuple[Tree, Rename]]) -> LarkPattern:
        """One tree as it is; with %extend, what was added beside the alternatives of the definition."""
        if len(trees) > 1:
            base, rename = trees[-1]
            trees = [*trees[:-1], *((alternative, rename) for alternative in base.children)]
        built = [fold(tree, partial(self._combine, rename)) for tree, rename in trees]
        return built[0] if len(built) == 1 else _alternatives(built)

    def _combine(self, rename: Rename, node: Tree, children: list[Any]) -> Any:
        """As `lark.load_grammar.TerminalTreeToPattern`."""
        match node.data:
            case "literal":
                return literal_pattern(children[0])
            case "range":
                return range_pattern(*children)
            case "terminal":
                token = node.children[0]
                return self._known[token.value if rename is None else rename(token.value)]
            case "value":
                return children[0]
            case "expansion":
                if len(children) == 1:
                    return children[0]
                return PatternRE("".join(child.to_regexp() for child in children)) if children else PatternStr("")
            case "expansions":
                return children[0] if len(children) == 1 else _alternatives(children)
            case "maybe":
                return _repeated(children[0], "?")
            case "expr":
                return _repeated(children[0], _repetition(children[1:]))
            case _:
                raise self._refuse(f"{node.data.replace('_', ' ')} is not allowed in a terminal", first_token(node))

    def _recursion(self, name: str) -> InvalidConstraint:
        message = f"recursion in terminal {name!r} (only rules may be recursive)"
        token = self._definitions[name].token
        return self._refuse(message, token) if token else InvalidConstraint(message)


def _alternatives(options: list[LarkPattern]) -> LarkPattern:
    """Longest possible match first, since `re` takes the first alternative that matches."""
    options = sorted(options, key=lambda pattern: (-pattern.max_width, -pattern.min_width, -len(pattern.value)))
    return PatternRE(f"(?:{'|'.join(option.to_regexp() for option in options)})")


def _repeated(inner: LarkPattern, operator: str) -> LarkPattern:
    return PatternRE(f"(?:{inner.to_regexp()}){operator}", inner.flags)


def _repetition(operator: list[Token]) -> str:
    """`*`, `+`, `?` as they are; `~n` and `~n..m` as `{n}` and `{n,m}`."""
    if operator[0] != "~":
        return operator[0].value
    low, high = repetition_bounds(operator)
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def repetition_bounds(operator: list[Token]) -> tuple[int, int]:
    """(n, m) of `~n..m`, (n, n) of `~n`.

    Raises:
        InvalidConstraint: not 0 <= n <= m. Without a place.
    """
    low, high = int(operator[1]), int(operator[-1])
    if not 0 <= low <= high:
        raise InvalidConstraint(f"bad repetition ~{low}..{high}")
    return low, high


def first_token(node: Tree) -> Token:
    """The leftmost token of a tree that has one."""
    return next(node.scan_values(lambda value: isinstance(value, Token)))
