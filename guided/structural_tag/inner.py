"""Constraints of other kinds inside of a structural tag: each built once, however many tags have it; knows no tags."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from guided.automaton.char_dfa import CharDfa
from guided.automaton.char_nfa import concat, determinise, literal
from guided.automaton.network import Network
from guided.automaton.quoting import quoted
from guided.errors import ConstraintError, Unsatisfiable
from guided.limits import Budget
from guided.structural_tag.formats import Inner


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the network.

    Attributes:
        exits: that it may end with, beside the plain end.
    """

    number: int
    exits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Strings:
    """Strings that are written as they are."""

    language: CharDfa

    @property
    def are_all(self) -> bool:
        return self.language.complement().is_empty()

    def without(self, avoided: tuple[str, ...], budget: Budget) -> CharDfa:
        """Those that contain none of the given strings.

        Raises:
            Unsatisfiable: there are none.
        """
        language = self.language
        for string in avoided:
            language = language.difference(_containing(string, budget), budget)
        if language.is_empty():
            raise Unsatisfiable(f"no string is left that contains none of {', '.join(map(repr, avoided))}")
        return language


class InnerRules:
    """What was built so far."""

    def __init__(self, network: Network, options: Mapping[str, str], budget: Budget) -> None:
        self._network = network
        self._options = options
        self._budget = budget
        self._built: dict[str, Rule | Strings | None] = {}

    def has_text(self, inner: Inner) -> bool:
        """Does any text satisfy it? Raises Unsatisfiable where that is a mistake of the client."""
        return self._find(inner) is not None

    def of(self, inner: Inner) -> Rule | Strings:
        """What reads its texts, of which there are some."""
        found = self._find(inner)
        assert found is not None, "formats without texts were taken out"
        return found

    def call(self, rule: Rule, source: int, target: int) -> None:
        """From source through a rule to target."""
        landing = target
        if rule.exits:
            landing = self._network.state()
            self._network.epsilon(landing, target)
            for exit in rule.exits:
                self._network.resume(landing, exit, target)
        self._network.call(source, rule.number, landing)

    def _find(self, inner: Inner) -> Rule | Strings | None:
        key = json.dumps([inner.kind, inner.value, inner.options, inner.quoted])
        if key not in self._built:
            with _placed(inner):
                try:
                    self._built[key] = self._build(inner)
                except Unsatisfiable:
                    if not inner.narrowed:
                        raise
                    self._built[key] = None
        return self._built[key]

    def _build(self, inner: Inner) -> Rule | Strings:
        # A front end is imported when it is first needed, as in `guided.compiler`.
        options = {**self._options, **dict(inner.options)}
        match inner.kind:
            case "json":
                from guided import json_schema

                return Rule(json_schema.add_document(self._network, inner.value, options, self._budget))
            case "text":
                from guided import json_schema

                return Strings(json_schema.strings_of(inner.value, options, self._budget))
            case "regex":
                from guided import regex

                return self._included(regex.build_network(inner.value, self._budget), inner.quoted)
        from guided import grammar

        return self._included(grammar.build_network(inner.value, {}, self._budget), inner.quoted)

    def _included(self, part: Network, in_quotes: bool) -> Rule:
        part = quoted(part) if in_quotes else part
        exits = sorted({final - 2 for final in part.final if final >= 2})
        return Rule(self._network.include(part), tuple(exits))


@contextmanager
def _placed(inner: Inner) -> Iterator[None]:
    """Errors from inside say where in the structural tag they come from."""
    try:
        yield
    except ConstraintError as error:
        pointer = error.pointer or ""
        if inner.narrowed:
            pointer = pointer.removeprefix("/allOf/0")
        error.pointer = inner.pointer + pointer
        error.args = (error.describe(),)
        raise


def _containing(string: str, budget: Budget) -> CharDfa:
    """The texts that contain a string."""
    return determinise(concat(CharDfa.everything(), literal(string), CharDfa.everything()), budget)
