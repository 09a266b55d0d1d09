"""How strings are written: from string shapes and automata to rules that read the quotes and what is between; knows no schema."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet
from guided.automaton.encoding import JsonStringEncoder, embed_dfa
from guided.automaton.network import Network
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.languages import Languages
from guided.json_schema.strings import StringShape
from guided.limits import Budget

_QUOTE = 1 << ord('"')
_CHUNK = 64  # characters of a counted string that are laid out at once
_PLACES = 1024  # places of a language that are


class StringText:
    """The rules of all strings of one network."""

    def __init__(self, network: Network, encoder: JsonStringEncoder, languages: Languages) -> None:
        self.network = network
        self.encoder = encoder
        self.languages = languages
        self.end = network.state(final=True)
        self._rules: dict[Hashable, int] = {}
        self._counted: dict[tuple[int, int | None], int] = {}

    def quoted(self, shape: StringShape) -> int:
        """A rule that reads a string of the shape, quotes included."""
        known = self._rules.get(shape)
        if known is None:
            name = _only_format(shape)
            known = (
                self.network.rule(lambda: self.build(shape))
                if name is None
                else self.network.include(format_part(name))
            )
            self._rules[shape] = known
        return known

    def rest_of(self, language: CharDfa, but: frozenset[str] = frozenset()) -> int:
        """A rule that reads, after its first quote, a string of a language that is none of some words."""
        known = self._rules.get((language, but))
        if known is None:
            counted = CountedLanguage(language, 0, None, self.languages.budget)
            known = self._rules[(language, but)] = _Walk(self, counted, but).start()
        return known

    def word(self, text: str) -> int:
        """The states of one fixed string after its first quote; returns the first."""
        start, read = self.network.state(), self.network.state()
        self._word(start, text, read)
        self.network.edge(read, _QUOTE, self.end)
        return start

    def build(self, shape: StringShape) -> int:
        """The states of a string of the shape, quotes included; returns the first."""
        if shape.words is not None:
            start, opened, read = self.network.state(), self.network.state(), self.network.state()
            self.network.edge(start, _QUOTE, opened)
            for word in sorted(self.languages.matching(shape)):
                self._word(opened, word, read)
            self.network.edge(read, _QUOTE, self.end)
            return start
        if not shape.tests and not shape.excluded:
            start, opened = self.network.state(), self.network.state()
            self.network.edge(start, _QUOTE, opened)
            self.network.call(opened, self.counting(shape.min_length, shape.max_length), self.end)
            return start
        return self._build_counted(self.languages.counted(shape))

    def _build_counted(self, language: CountedLanguage) -> int:
        start = self.network.state()
        if language.is_counted or language.dfa.num_states > _CHUNK:
            opened = self.network.state()
            self.network.edge(start, _QUOTE, opened)
            self.network.call(opened, _Walk(self, language).start(), self.end)
            return start
        read = self.network.state()
        self.network.edge(read, _QUOTE, self.end)
        self.network.edge(start, _QUOTE, embed_dfa(self.network, language.dfa, self.encoder, read))
        return start

    def _word(self, source: int, text: str, target: int) -> None:
        """One string in the spellings that encoders use: as UTF-8, or with every character beyond ASCII escaped."""
        for part in text:
            following = self.network.state()
            if part.isascii() and part.isprintable() and part not in '"\\':
                self.network.edge(source, 1 << ord(part), following)
            else:
                self.encoder.char(source, CharSet.of(part), following)
            source = following
        self.network.epsilon(source, target)

    def counting(self, least: int, most: int | None) -> int:
        """A rule that reads `least` to `most` characters and the closing quote, laid out in chunks as it is reached."""
        known = self._counted.get((least, most))
        if known is None:
            known = self._counted[(least, most)] = self.network.rule(lambda: self._chunk(least, most))
        return known

    def _chunk(self, least: int, most: int | None) -> int:
        start = state = self.network.state()
        for position in range(_CHUNK):
            if position >= least:
                self.network.edge(state, _QUOTE, self.end)
            if most is not None and position == most:
                return start
            if most is None and position >= least:
                self.encoder.char(state, CharSet.any(), state)
                return start
            following = self.network.state()
            self.encoder.char(state, CharSet.any(), following)
            state = following
        rest = None if most is None else most - _CHUNK
        self.network.call(state, self.counting(max(0, least - _CHUNK), rest), self.end)
        return start


def _only_format(shape: StringShape) -> str | None:
    """The format of a shape that says nothing else."""
    if len(shape.tests) != 1 or shape != StringShape(tests=shape.tests):
        return None
    ((kind, name, positive),) = shape.tests
    return name if kind == "format" and positive else None


@cache
def format_part(name: str) -> Network:
    """The network of the quoted strings of a known format; it is the same in every network."""
    network = Network()
    text = StringText(network, JsonStringEncoder(network), Languages(Budget()))
    shape = StringShape(tests=frozenset({("format", name, True)}))
    network.root = network.rule(lambda: text.build(shape))
    network.build_all()
    return network


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a string is: the state of the automaton, characters so far, and the prefix of an excluded word, if it is one."""

    state: int
    count: int
    prefix: str | None


class _Walk:
    """A language laid out as it is reached, so many places at a time; excluded words are told apart along the tree of their prefixes."""

    def __init__(self, text: StringText, language: CountedLanguage, but: frozenset[str] = frozenset()) -> None:
        self.text = text
        self.language = language
        self.but = but
        self._following = {prefix: sorted(found) for prefix, found in following_characters(but).items()}
        self._sets: dict[tuple[str, ...], CharSet] = {}
        self._rules: dict[tuple[int, int, str | None], int] = {}
        self._is_free = not language.is_counted and language.dfa.num_states == 1 and len(language.dfa.classes) == 1

    def start(self) -> int:
        """A rule that reads the whole string, but not the opening quote."""
        return self._rule(_Place(0, 0, "" if self.but else None))

    def _rule(self, place: _Place) -> int:
        """A rule that reads the rest of the string and the closing quote."""
        if place.prefix is None and self._is_free:
            return self.text.counting(0, None)
        key = self._key(place)
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = self.text.network.rule(lambda: self._build(place))
        return known

    def _key(self, place: _Place) -> tuple[int, int, str | None]:
        return place.state, self.language.key(place.state, place.count), place.prefix

    def _build(self, first: _Place) -> int:
        """The places next to the first one; from those further away rules go on."""
        network, char = self.text.network, self.text.encoder.char
        inside = {self._key(first): network.state()}
        outside: dict[int, int] = {}  # rule -> the state that calls it
        waiting = [first]
        for place in waiting:  # grows as places are found
            source = inside[self._key(place)]
            if self.language.accepts(place.state, place.count) and place.prefix not in self.but:
                network.edge(source, _QUOTE, self.text.end)
            for characters, following in self._moves(place):
                target = inside.get(self._key(following))
                is_free = following.prefix is None and self._is_free
                if target is None and not is_free and len(inside) < _PLACES:
                    target = inside[self._key(following)] = network.state()
                    waiting.append(following)
                elif target is None:
                    rule = self._rule(following)
                    if rule not in outside:
                        outside[rule] = network.state()
                        network.call(outside[rule], rule, self.text.end)
                    target = outside[rule]
                char(source, characters, target)
        return inside[self._key(first)]

    def _moves(self, place: _Place) -> Iterator[tuple[CharSet, _Place]]:
        """The characters that may come next, with the place they lead to."""
        prefix, count = place.prefix, place.count + 1
        following = self._following.get(prefix, []) if prefix is not None else []
        for target, characters in self.language.dfa.out(place.state):
            if not self.language.can_end(target, count):
                continue
            others = characters - self._set(*following) if following else characters
            if others:
                yield others, _Place(target, count, None)
            for character in following:
                if character in characters and self._has_others(target, prefix + character):
                    yield self._set(character), _Place(target, count, prefix + character)

    def _set(self, *characters: str) -> CharSet:
        known = self._sets.get(characters)
        if known is None:
            known = self._sets[characters] = CharSet.of("".join(characters))
        return known

    def _has_others(self, state: int, prefix: str) -> bool:
        """Does the language go on from here with anything but the excluded words?"""
        if self._is_free:
            return True
        endings = {word[len(prefix) :] for word in self.but if word.startswith(prefix)}
        return self.language.has_other_endings(state, endings)


def following_characters(words: frozenset[str]) -> dict[str, set[str]]:
    """prefix -> the characters with which one of the words goes on after it."""
    following: dict[str, set[str]] = {}
    for word in words:
        for length, character in enumerate(word):
            following.setdefault(word[:length], set()).add(character)
    return following
