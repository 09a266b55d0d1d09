"""Numbers and strings that are told apart from some that are given: to states of a network; knows no schema.

What was written of a value leads along the tree of the given ones, as long as it begins one of them; what leaves the tree is none of
them, and is read by rules that know nothing of them. So a given value costs as many states as it has characters, and all that is
written beside the tree leads to the same few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from guided.automaton.charset import CharSet
from guided.automaton.network import ByteSet, Network
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.number_spelling import POINT, NumberSpelling, Prefix, decimal
from guided.json_schema.number_text import BELOW, START, LateNumber
from guided.json_schema.numbers import NumberShape
from guided.json_schema.string_text import StringText, is_free

_QUOTE = 1 << ord('"')
_MINUS = "-"

# The texts of given values -> the states after them, None: they are not written. Frozen, so that nodes of equal ones are shared.
Given = frozenset[tuple[str, int | None]]
Late = Callable[[Callable[[], int]], int]  # a function that builds states -> a rule
_NOTHING: Given = frozenset()


class NumbersApart:
    """The numbers of one shape. Exponents are not written: a number and its beginning would no longer begin with the same digits."""

    def __init__(self, network: Network, shape: NumberShape, late: Late, end: int) -> None:
        self.network = network
        self.spelling = NumberSpelling(shape, exponents=False)
        self.late = late
        self.end = end  # where calls in last position lead
        self._others = LateNumber(network, self.spelling)
        self._nodes: dict[tuple[str, Given, int], int] = {}
        self._characters: dict[tuple, str] = {}

    def add(self, source: int, given: Iterable[tuple[Fraction, int | None]], other: int) -> None:
        """From source over the numbers of the shape to the states of the given ones, and to `other`."""
        self._lay_out(source, START, "", _given_numbers(given), other)

    def has_other(self, given: Iterable[Fraction]) -> bool:
        """Is there a number that is none of the given ones?"""
        return self._leads_on(START, "", _given_numbers((value, None) for value in given))

    def _lay_out(self, source: int, prefix: Prefix, text: str, given: Given, other: int) -> None:
        """What may follow a prefix that begins some of the given numbers."""
        branches = _branches(given, len(text), "0")
        beside: dict[int, ByteSet] = {}  # rule -> characters with which no given number goes on
        for character, following in self._moves(prefix):
            beginning = branches.get(character)
            if beginning is None:
                rule = self._others.rest(following)
                beside[rule] = beside.get(rule, 0) | 1 << ord(character)
            elif self._leads_on(following, text + character, beginning):
                after = self.network.state()
                self.network.edge(source, 1 << ord(character), after)
                self.network.call(after, self._node(following, text + character, beginning, other), self.end)
        for rule, symbols in beside.items():
            after = self.network.state()
            self.network.edge(source, symbols, after)
            self.network.call(after, rule, other)

    def _node(self, prefix: Prefix, text: str, given: Given, other: int) -> int:
        """A rule that reads what is left of the numbers that begin like this, and goes on after them."""
        key = text, given, other
        known = self._nodes.get(key)
        if known is None:

            def build() -> int:
                state = self.network.state()
                target = dict(given).get(_plain(text), other)
                if self.spelling.ends(prefix) and target is not None:
                    self.network.epsilon(state, target)
                self._lay_out(state, prefix, text, given, other)
                return state

            known = self._nodes[key] = self.late(build)
        return known

    def _leads_on(self, prefix: Prefix, text: str, given: Given) -> bool:
        """Does a number begin like this that may be written?"""
        if not given:
            return True
        if self.spelling.ends(prefix) and dict(given).get(_plain(text), self.end) is not None:
            return True
        branches = _branches(given, len(text), "0")
        return any(
            self._leads_on(following, text + character, branches.get(character, _NOTHING))
            for character, following in self._moves(prefix)
        )

    def _moves(self, prefix: Prefix) -> list[tuple[str, Prefix]]:
        """As of the spelling, remembered for prefixes that go on alike; a minus sign too."""
        key = self.spelling.key(prefix)
        known = self._characters.get(key)
        if known is None:
            known = "".join(characters for characters, _ in self.spelling.moves(prefix))
            if prefix == START and self.spelling.moves(BELOW):
                known += _MINUS
            self._characters[key] = known
        return [(character, BELOW if character == _MINUS else prefix.longer(character)) for character in known]


def _given_numbers(given: Iterable[tuple[Fraction, int | None]]) -> Given:
    """Numbers with a point and without zeros at the end: endless zeros may follow there."""
    texts = {(f"{value}." if value.denominator == 1 else decimal(value), target) for value, target in given}
    return frozenset(texts | {("-0.", target) for text, target in texts if text == "0."})


def _plain(text: str) -> str:
    """What was written, in that form."""
    return text.rstrip("0") if POINT in text else text + POINT


def _branches(given: Given, place: int, padding: str = "") -> dict[str, Given]:
    """The given texts by their character in one place; those that have ended there are left out, or go on with the padding."""
    branches: dict[str, set[tuple[str, int | None]]] = {}
    for entry in given:
        character = entry[0][place] if place < len(entry[0]) else padding
        if character:
            branches.setdefault(character, set()).add(entry)
    return {character: frozenset(entries) for character, entries in branches.items()}


class StringsApart:
    """The strings of one language, after their first quote. While they begin like a given one, printable ASCII is not escaped."""

    def __init__(self, text: StringText, language: CountedLanguage, late: Late, end: int) -> None:
        self.text = text
        self.network = text.network
        self.language = language
        self.late = late
        self.end = end  # where calls in last position lead
        self._nodes: dict[tuple[int, str, Given, int], int] = {}

    def add(self, source: int, given: Iterable[tuple[str, int | None]], other: int) -> None:
        """From source over the strings and their last quote to the states of the given ones, and to `other`."""
        self._lay_out(source, 0, "", frozenset(given), other)

    def has_other(self, given: Iterable[str]) -> bool:
        """Is there a string that is none of the given ones?"""
        return self.language.can_end(0, 0) and self._leads_on(0, "", frozenset((word, None) for word in given))

    def _lay_out(self, source: int, state: int, prefix: str, given: Given, other: int) -> None:
        """What may follow a prefix that begins some of the given strings."""
        count = len(prefix)
        if self.language.accepts(state, count):
            ended = dict(given).get(prefix, other)
            if ended is not None:
                self.network.edge(source, _QUOTE, ended)
        branches = _branches(given, count)
        letters = CharSet.of(*branches)
        for target, characters in self.language.dfa.out(state):
            if not self.language.can_end(target, count + 1):
                continue
            beside = characters - letters
            if beside:
                self._go_on(source, beside, self.text.rest(self.language, target, count + 1), other)
            for letter, beginning in sorted(branches.items()):
                if letter in characters and self._leads_on(target, prefix + letter, beginning):
                    node = self._node(target, prefix + letter, beginning, other)
                    self._go_on(source, CharSet.of(letter), node, self.end)
        if is_free(self.language):
            self.network.reads_text(source)

    def _go_on(self, source: int, characters: CharSet, rule: int, target: int) -> None:
        after = self.network.state()
        self.text.character(source, characters, after)
        self.network.call(after, rule, target)

    def _node(self, state: int, prefix: str, given: Given, other: int) -> int:
        """A rule that reads what is left of the strings that begin like this, and goes on after them."""
        key = state, prefix, given, other
        known = self._nodes.get(key)
        if known is None:

            def build() -> int:
                source = self.network.state()
                self._lay_out(source, state, prefix, given, other)
                return source

            known = self._nodes[key] = self.late(build)
        return known

    def _leads_on(self, state: int, prefix: str, given: Given) -> bool:
        """Does a string begin like this that may be written? The language has one."""
        count = len(prefix)
        if not given:
            return True
        if self.language.accepts(state, count) and dict(given).get(prefix, self.end) is not None:
            return True
        branches = _branches(given, count)
        letters = CharSet.of(*branches)
        moves = [move for move in self.language.dfa.out(state) if self.language.can_end(move[0], count + 1)]
        return any(characters - letters for _, characters in moves) or any(
            letter in characters and self._leads_on(target, prefix + letter, beginning)
            for target, characters in moves
            for letter, beginning in branches.items()
        )
