"""Definitions of a Lark grammar in, `RuleSet` out: every name looked up, templates instantiated; knows no statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lark import Token, Tree

from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.grammar.lark_definition import Definition, Rename
from guided.grammar.lark_terminals import (
    TerminalPatterns,
    first_token,
    literal_pattern,
    range_pattern,
    repetition_bounds,
    terminal_of,
)
from guided.grammar.lark_tree import fold
from guided.grammar.rules import Expression, Place, Reference, Repeat, RuleSet, SpecialToken, Terminal, choice, sequence
from guided.grammar.source import Source
from guided.limits import Budget

START = "start"
_TEMPLATE_INSTANCES = 10_000  # a template that uses itself with ever new arguments has no end


class Resolver:
    """Builds the rules one definition at a time; template instances join the queue where they are used."""

    def __init__(
        self, definitions: Mapping[str, Definition], ignored: list[Tree], source: Source, budget: Budget
    ) -> None:
        self._definitions = definitions
        self._ignored = ignored
        self._source = source
        self._budget = budget
        self._patterns = TerminalPatterns(definitions, self._refuse)
        self._terminals: dict[str, Terminal] = {}
        self._literals: dict[tuple[str, ...], Terminal] = {}  # as written -> terminal; grammars repeat their literals
        self._terminal_places: dict[Terminal, Place] = {}
        self._instances: dict[tuple[str, tuple[Expression, ...]], str] = {}
        self._queue: list[tuple[str, Definition, dict[str, Expression]]] = []

    def resolve(self) -> RuleSet:
        """All rules; those that nothing uses too, so that their mistakes are found."""
        for name, definition in self._definitions.items():
            if definition.is_terminal:
                self._check_terminal(name, definition)
            elif not definition.parameters and definition.tree is not None:
                self._queue.append((name, definition, {}))
        start = self._definitions.get(START)
        if start is None or start.is_terminal or start.parameters:
            raise InvalidConstraint(
                "the grammar has no rule named 'start'",
                hint="Lark grammars begin at `start:`, GBNF grammars at `root ::=`",
            )
        rules, places = {}, {}
        for name, definition, arguments in self._queue:  # grows while it is walked
            self._budget.check("resolving the grammar")
            rules[name] = self._rule(definition, arguments)
            if definition.token is not None:
                places[name] = Place(definition.token.line, definition.token.column - 1)
        ignore = tuple(self._ignore(tree) for tree in self._ignored)
        return RuleSet(START, rules, ignore, places, self._terminal_places, self._source.text, longest_match=True)

    def _rule(self, definition: Definition, arguments: dict[str, Expression]) -> Expression:
        def converted(tree: Tree, rename: Rename) -> Expression:
            return fold(tree, lambda node, children: self._combine(node, children, rename, arguments, definition))

        return choice(converted(tree, rename) for tree, rename in definition.trees())

    # --- one node of a rule -----------------------------------------------------------------------------------------

    def _combine(
        self, node: Tree, children: list[Any], rename: Rename, arguments: dict[str, Expression], owner: Definition
    ) -> Any:
        match node.data:
            case "value":
                return children[0]
            case "nonterminal" | "terminal":
                return self._symbol(children[0], rename, arguments)
            case "literal" | "range":
                return self._literal(node, children, owner)
            case "template_usage":
                return self._instance(node.children[0].children[0], children[0], tuple(children[1:]))
            case "expr":
                return Repeat(children[0], *self._bounds(children[1:]))
            case "maybe":
                return Repeat(children[0], 0, 1)
            case "alias":
                self._check_alias(node, owner)
                return children[0]
            case "expansion":
                return sequence(children)
            case "expansions":
                return choice(children)
        raise AssertionError(f"unknown node {node.data}")

    def _symbol(self, token: Token, rename: Rename, arguments: dict[str, Expression]) -> Expression:
        if rename is None and token.value in self._source.special:
            special = SpecialToken(self._source.special[token.value])
            self._note_place(special, token)
            return special
        name = token.value if rename is None else rename(token.value)
        if name in arguments:
            return arguments[name]
        definition = self._definitions.get(name)
        if definition is None:
            raise self._refuse(
                f"{'rule' if token.type == 'RULE' else 'terminal'} {name!r} is used but not defined", token
            )
        if definition.tree is None:
            raise UnsupportedKeyword(
                f"{name} is produced by code that comes with the grammar (%declare), which cannot be run here",
                keyword="%declare",
                **self._source.at(token.line, token.column),
            )
        return self._terminal(name) if definition.is_terminal else Reference(name)

    def _terminal(self, name: str) -> Terminal:
        known = self._terminals.get(name)
        if known is None:
            token = self._definitions[name].token
            try:
                known = self._terminals[name] = terminal_of(self._patterns.pattern(name), name)
            except ConstraintError as error:
                if token is not None:
                    error.at(**self._source.at(token.line, token.column))
                raise
            self._note_place(known, token)
        return known

    def _note_place(self, terminal: Terminal, token: Token | None) -> None:
        """`token`: where it stands; None in an import."""
        if token is not None:
            self._terminal_places.setdefault(terminal, Place(token.line, token.column - 1))

    def _check_terminal(self, name: str, definition: Definition) -> None:
        if definition.tree is not None and definition.token is not None:
            self._terminal(name)

    def _literal(self, node: Tree, tokens: list[Token], owner: Definition) -> Terminal:
        key = tuple(tokens)
        terminal = self._literals.get(key)
        if terminal is None:
            try:
                pattern = literal_pattern(tokens[0]) if node.data == "literal" else range_pattern(*tokens)
            except InvalidConstraint as error:
                raise self._refuse(error.message, tokens[0]) from error
            terminal = self._literals[key] = terminal_of(pattern)
        self._note_place(terminal, None if owner.token is None else tokens[0])
        return terminal

    def _bounds(self, operator: list[Token]) -> tuple[int, int | None]:
        match operator[0].value:
            case "*":
                return 0, None
            case "+":
                return 1, None
            case "?":
                return 0, 1
        try:
            return repetition_bounds(operator)
        except InvalidConstraint as error:
            raise self._refuse(error.message, operator[1]) from error

    def _check_alias(self, node: Tree, owner: Definition) -> None:
        if owner.token is not None and owner.token.startswith("_"):
            alias = node.children[1].children[0]
            raise self._refuse(
                f"rule {owner.token.value!r} starts with an underscore, so it cannot have aliases", alias
            )

    # --- templates --------------------------------------------------------------------------------------------------

    def _instance(self, token: Token, template: Expression, arguments: tuple[Expression, ...]) -> Reference:
        """The rule that a template with these arguments stands for."""
        used = template.name if isinstance(template, Reference) else ""
        definition = self._definitions.get(used)
        if definition is None or len(definition.parameters) != len(arguments):
            expected = 0 if definition is None else len(definition.parameters)
            raise self._refuse(f"{token.value!r} takes {expected} template arguments, not {len(arguments)}", token)
        key = (used, arguments)
        name = self._instances.get(key)
        if name is None:
            if len(self._instances) >= _TEMPLATE_INSTANCES:
                raise LimitExceeded(
                    f"template {used!r} has more than {_TEMPLATE_INSTANCES:,} different uses",
                    limit="states",
                    **self._source.at(token.line, token.column),
                )
            name = self._instances[key] = f"{used}{{{len(self._instances)}}}"
            self._queue.append((name, definition, dict(zip(definition.parameters, arguments, strict=True))))
        return Reference(name)

    # --- ignored terminals and errors -------------------------------------------------------------------------------

    def _ignore(self, tree: Tree) -> Terminal:
        terminal = terminal_of(self._patterns.tree_pattern(tree, None))
        self._note_place(terminal, first_token(tree))
        return terminal

    def _refuse(self, message: str, token: Token) -> InvalidConstraint:
        return self._source.invalid(message, token.line, token.column)
