"""Lark grammar text in, `RuleSet` out: imports, templates, %override, %extend and terminal algebra resolved; knows no automata.

Lark's own lexer and LALR parser read the text (`lark.load_grammar`), and Lark's own code reads literals, mangles imported
names and words syntax errors. Names are resolved here, on Lark's parse tree, and not by Lark's loader: it rewrites `*`, `+`
and `~` into left-recursive helper rules, where an automaton wants the loops themselves, and it takes 200 ms and more for a
grammar of 200 rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from lark import Token, Tree
from lark import load_grammar as lark_loader
from lark.exceptions import UnexpectedCharacters, UnexpectedInput
from lark.grammar import Rule
from lark.parser_frontends import ParsingFrontend

from guided.errors import InvalidConstraint, UnsupportedKeyword
from guided.grammar.lark_definition import Definition, Rename
from guided.grammar.lark_resolver import Resolver
from guided.grammar.lark_tree import symbols
from guided.grammar.rules import RuleSet
from guided.grammar.source import Source, check_length
from guided.limits import Budget

BUNDLED = ("common", "lark", "python", "unicode")  # the grammars inside the lark package; nothing else is ever read
_LONGEST = 200_000  # characters of a grammar; Lark's parser reads about 200,000 in a second and cannot be stopped


def read_lark(text: str, budget: Budget) -> RuleSet:
    """The rules of a Lark grammar.

    Raises:
        InvalidConstraint: not a Lark grammar, a name is undefined or defined twice, no rule `start`.
        UnsupportedKeyword: %declare, or an import from anything but the grammars that come with Lark.
        LimitExceeded: nested too deeply, or out of time.
    """
    check_length(text, _LONGEST)
    source = Source(text, budget)
    loader = _Loader(source)
    loader.load(_parse(source), None)
    return Resolver(loader.definitions, loader.ignored, source, budget).resolve()


def warm() -> None:
    """Lets Lark build the tables of its parser for grammars, and read its `common` grammar: 0.3 s, once per process."""
    _parser()
    _bundled("common")


class _IdentifiedRule(Rule):
    """A rule that is equal to itself only: Lark looks rules up at each reduction, and compares them in Python."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


@cache
def _parser() -> ParsingFrontend:
    """Lark's parser of its own grammar language."""
    parser = lark_loader._get_parser()
    lalr = parser.parser.parser
    callbacks = list(lalr.callbacks.items())
    for rule, _ in callbacks:  # the parse table holds the same objects
        rule.__class__ = _IdentifiedRule
    lalr.callbacks = dict(callbacks)
    return parser


def _parse(source: Source) -> Tree:
    """The parse tree by Lark's parser of its own grammar language."""
    parser = _parser()
    try:
        return parser.parse(source.plain + "\n", "start")
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedCharacters):
            message = "unexpected character"
        else:
            message = lark_loader._translate_parser_exception(parser.parse, error) or f"unexpected {str(error.token)!r}"
        raise source.invalid(f"not a Lark grammar: {message}", error.line, error.column) from error


@cache
def _bundled(name: str) -> Tree:
    """The parse tree of a grammar that comes with Lark."""
    _path, text = lark_loader.stdlib_loader(None, f"{name}.lark")
    return _parser().parse(text + "\n", "start")


class _Loader:
    """Collects the definitions of a grammar and of what it imports, as `lark.load_grammar.GrammarBuilder` does."""

    def __init__(self, source: Source | None) -> None:
        self.source = source  # None for an imported grammar
        self.definitions: dict[str, Definition] = {}
        self.ignored: list[Tree] = []

    def load(self, tree: Tree, rename: Rename) -> None:
        imports: dict[str, dict[str, str]] = {}
        places: dict[str, Token] = {}
        for statement in tree.children:
            if statement.data == "import":
                module, aliases = self._import_names(statement)
                imports.setdefault(module, {}).update(aliases)
                places.setdefault(module, statement.children[0].children[0])
        for module, aliases in imports.items():
            self._import(module, aliases, rename, places[module])
        for statement in tree.children:
            getattr(self, f"_on_{statement.data}")(statement, rename)

    # --- statements -------------------------------------------------------------------------------------------------

    def _on_rule(self, statement: Tree, rename: Rename, override: bool = False) -> None:
        modifiers, token, parameters, _priority, expansions = statement.children
        if modifiers.children and "?" in modifiers.children[0] and token.startswith("_"):
            raise self._invalid("inlined rules (_rule) cannot use the ?rule modifier", token)
        names = tuple(parameter.value for parameter in parameters.children)
        for position, name in enumerate(names):
            if name in names[:position]:
                raise self._invalid(f"template parameter {name!r} occurs twice", parameters.children[position])
        self._define(token, Definition(False, expansions, names, rename, self._place(token)), rename, override)

    def _on_term(self, statement: Tree, rename: Rename, override: bool = False) -> None:
        token = statement.children[0]
        self._define(token, Definition(True, statement.children[-1], (), rename, self._place(token)), rename, override)

    def _on_override(self, statement: Tree, rename: Rename) -> None:
        inner = statement.children[0]
        getattr(self, f"_on_{inner.data}")(inner, rename, override=True)

    def _on_extend(self, statement: Tree, rename: Rename) -> None:
        inner = statement.children[0]
        is_terminal = inner.data == "term"
        token = inner.children[0] if is_terminal else inner.children[1]
        known = self.definitions.get(_renamed(token, rename))
        if known is None or known.is_terminal != is_terminal or known.tree is None:
            raise self._invalid(f"%extend of {token.value!r}, which is not defined before", token)
        names = () if is_terminal else tuple(parameter.value for parameter in inner.children[2].children)
        if names != known.parameters:
            raise self._invalid(f"%extend of {token.value!r} with different template parameters", token)
        known.more.append((inner.children[-1], rename))

    def _on_ignore(self, statement: Tree, rename: Rename) -> None:
        if rename is None:  # what an imported grammar ignores is its own business
            self.ignored.append(statement.children[0])

    def _on_declare(self, statement: Tree, rename: Rename) -> None:
        for symbol in statement.children:
            token = symbol.children[0]
            if self.source is not None:
                raise UnsupportedKeyword(
                    f"%declare {token.value}: a terminal without a definition is produced by code, which cannot be run here",
                    keyword="%declare",
                    **self.source.at(token.line, token.column),
                )
            self._define(token, Definition(symbol.data == "terminal", None, (), rename, None), rename, False)

    def _on_import(self, _statement: Tree, _rename: Rename) -> None:
        """Done before all other statements."""

    # --- imports ----------------------------------------------------------------------------------------------------

    def _import_names(self, statement: Tree) -> tuple[str, dict[str, str]]:
        """(grammar, name there -> name here)."""
        path, *target = statement.children
        tokens = path.children
        if target and isinstance(target[0], Tree):
            module, aliases = tokens, {name.value: name.value for name in target[0].children}
        else:
            module, name = tokens[:-1], tokens[-1]
            aliases = {name.value: (target[0] if target else name).value}
        dotted = ".".join(token.value for token in module)
        if path.data == "import_rel" or dotted not in BUNDLED:
            shown = "." * (path.data == "import_rel") + (dotted or tokens[-1].value)
            raise UnsupportedKeyword(
                f"%import {shown}: only the grammars that come with Lark can be imported",
                keyword="%import",
                hint=f"Import from {', '.join(BUNDLED)}, or write the rules into the grammar",
                **self.source.at(tokens[0].line, tokens[0].column) if self.source else {},
            )
        return dotted, aliases

    def _import(self, module: str, aliases: dict[str, str], rename: Rename, place: Token) -> None:
        mangle = lark_loader._get_mangle(module, aliases, rename)
        imported = _Loader(None)
        imported.load(_bundled(module), mangle)
        for name in aliases:
            if _renamed_text(name, mangle) not in imported.definitions:
                raise self._invalid(f"%import {module}.{name}: there is no {name!r} in that grammar", place)
        for name, definition in imported.needed(mangle(name) for name in aliases).items():
            if name in self.definitions:
                raise self._invalid(f"%import {module}: {name!r} is already defined", place)
            self.definitions[name] = definition

    def needed(self, names: Iterable[str]) -> dict[str, Definition]:
        """The definitions of the names and of everything that they use."""
        found: dict[str, Definition] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            definition = self.definitions.get(name)
            if definition is None or name in found:
                continue
            found[name] = definition
            for tree, rename in definition.trees():
                for kind in ("nonterminal", "terminal"):
                    waiting.extend(_renamed(symbol.children[0], rename) for symbol in symbols(tree, kind))
        return found

    # --- definitions ------------------------------------------------------------------------------------------------

    def _define(self, token: Token, definition: Definition, rename: Rename, override: bool) -> None:
        name = _renamed(token, rename)
        kind = "terminal" if definition.is_terminal else "rule"
        if token.startswith("__"):
            raise self._invalid(f"names that start with a double underscore are reserved ({token.value})", token)
        if name in self.definitions and not override:
            raise self._invalid(f"{kind} {token.value!r} is defined more than once", token)
        if name not in self.definitions and override:
            raise self._invalid(f"%override of {token.value!r}, which is not defined", token)
        self.definitions[name] = definition

    def _place(self, token: Token) -> Token | None:
        return token if self.source is not None else None

    def _invalid(self, message: str, token: Token) -> InvalidConstraint:
        assert self.source is not None, f"a bundled grammar is wrong: {message}"
        return self.source.invalid(message, token.line, token.column)


def _renamed(token: Token, rename: Rename) -> str:
    return _renamed_text(token.value, rename)


def _renamed_text(name: str, rename: Rename) -> str:
    return name if rename is None else rename(name)
