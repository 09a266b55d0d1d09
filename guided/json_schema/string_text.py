"""How strings are written: from string shapes and automata to rules that read the quotes and what is between; knows no schema."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet
from guided.automaton.encoding import SPELT_ONCE, SPELT_OTHERWISE, JsonStringEncoder, embed_dfa
from guided.automaton.network import BYTES, CALL, Network, byte_set
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.languages import Languages
from guided.json_schema.strings import StringShape
from guided.limits import Budget

_QUOTE = 1 << ord('"')
_PLAIN = frozenset(chr(code) for code in range(0x20, 0x7F) if SPELT_ONCE >> code & 1)
_CHUNK = 64  # characters of a counted string that are laid out at once
_PLACES = 1024  # places of a language that are
Plan = tuple[int, int]  # byte set of the characters that one byte writes, or -1; rule that reads the others, or -1


class StringText:
    """The rules of all strings of one network."""

    def __init__(self, network: Network, encoder: JsonStringEncoder, languages: Languages) -> None:
        self.network = network
        self.encoder = encoder
        self.languages = languages
        self.end = network.state(final=True)
        self._rules: dict[Hashable, int] = {}
        self._counted: dict[tuple[int, int | None], int] = {}
        self._walks: dict[CountedLanguage, _Walk] = {}

    def take_over(self, other: StringText, first: int) -> None:
        """Has the rules of other strings, whose network has been included: its rules count from `first` here."""
        self.encoder.take_over(other.encoder, first)
        self._rules |= {key: first + rule for key, rule in other._rules.items()}
        self._counted |= {key: first + rule for key, rule in other._counted.items()}

    def quoted(self, shape: StringShape) -> int:
        """A rule that reads a string of the shape, quotes included."""
        known = self._rules.get(shape)
        if known is None:
            name = _only_format(shape)
            known = (
                self.network.rule(lambda: self.build(shape), ahead=not shape.tests)
                if name is None
                else self.network.include(format_part(name, self.encoder.unicode_escapes))
            )
            self._rules[shape] = known
        return known

    def rest_of(self, language: CharDfa, but: frozenset[str] = frozenset()) -> int:
        """A rule that reads, after its first quote, a string of a language that is none of some words."""
        known = self._rules.get((language, but))
        if known is None:
            counted = CountedLanguage(language, 0, None, self.languages.budget)
            plain = is_free(counted) and all(map(_is_plain, but))
            known = _AnyBut(self, but).start() if plain else _Walk(self, counted, but).start()
            self._rules[(language, but)] = known
        return known

    def rest(self, language: CountedLanguage, state: int, count: int) -> int:
        """A rule that reads what is left of a string of a language that led to a state in so many characters, and the last quote."""
        known = self._walks.get(language)
        if known is None:
            known = self._walks[language] = _Walk(self, language)
        return known.rest(state, count)

    def character(self, source: int, characters: CharSet, target: int) -> None:
        """From source to target over one character of a set. Those that encoders write in one way are written in that way."""
        once = characters - SPELT_OTHERWISE
        if once:
            self.network.edge(source, byte_set(once), target)
        if len(once) < len(characters):
            self.encoder.char(source, characters & SPELT_OTHERWISE, target)

    def word(self, text: str) -> int:
        """The states of one fixed string after its first quote; returns the first."""
        start = self.network.state()
        if _is_plain(text):
            self.network.literal(start, text.encode() + b'"', self.end)
            return start
        read = self.network.state()
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
            known = self._counted[(least, most)] = self.network.rule(lambda: self._chunk(least, most), ahead=True)
        return known

    def _chunk(self, least: int, most: int | None) -> int:
        """Up to `_CHUNK` characters, of which from the `least`-th on any may be the last; with no bound they go round there."""
        network = self.network
        goes_round = most is None and least < _CHUNK
        count = least if goes_round else _CHUNK if most is None else min(most, _CHUNK)
        single, rule = self.encoder.plan(CharSet.any())
        places = np.arange(count + goes_round, dtype=np.int32)  # where a character may be read
        ends = np.arange(least, count + (goes_round or count == most), dtype=np.int32)
        base = len(network.final)
        following = base + np.minimum(places + 1, count)
        edges = [
            (places, BYTES, network.byte_set_id(single), following),
            (places, CALL, rule, following),
            (ends, BYTES, network.byte_set_id(_QUOTE), np.full_like(ends, self.end)),
        ]
        source, target = (np.concatenate([edge[part] for edge in edges]) for part in (0, 3))
        kind, label = (np.repeat([edge[part] for edge in edges], [len(edge[0]) for edge in edges]) for part in (1, 2))
        network.extend(np.zeros(count + 1, dtype=bool), source, kind, label, target)
        if goes_round:
            network.reads_text(base + count)
        elif count != most:
            rest = None if most is None else most - _CHUNK
            network.call(base + count, self.counting(max(0, least - _CHUNK), rest), self.end)
        return base


def _only_format(shape: StringShape) -> str | None:
    """The format of a shape that says nothing else."""
    if len(shape.tests) != 1 or shape != StringShape(tests=shape.tests):
        return None
    ((kind, name, positive),) = shape.tests
    return name if kind == "format" and positive else None


@cache
def format_part(name: str, unicode_escapes: bool) -> Network:
    """The network of the quoted strings of a known format; it is the same in every network."""
    network = Network()
    text = StringText(network, JsonStringEncoder(network, unicode_escapes), Languages(Budget()))
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
        self._rules: dict[tuple[int, int, str | None], int] = {}
        self._known_arcs: dict[int, list[tuple[Plan, int, CharSet]]] = {}
        self._is_free = is_free(language)

    def start(self) -> int:
        """A rule that reads the whole string, but not the opening quote."""
        return self._rule(_Place(0, 0, "" if self.but else None))

    def rest(self, state: int, count: int) -> int:
        """See `StringText.rest`."""
        return self._rule(_Place(state, count, None))

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
        """The places next to the first one; from those further away rules go on. Returns the state of the first."""
        network, quote = self.text.network, self.text.network.byte_set_id(_QUOTE)
        inside = {self._key(first): 0}
        outside: dict[int, int] = {}  # rule -> the state that calls it
        waiting = [first]
        inner: list[int] = []  # source, kind, label, target of edges among these places, counted from the first
        outer: list[int] = []  # of edges that lead elsewhere
        for source, place in enumerate(waiting):  # grows as places are found
            if self.language.accepts(place.state, place.count) and place.prefix not in self.but:
                outer += (source, BYTES, quote, self.text.end)
            for (symbols, rule), following in self._moves(place):
                key = self._key(following)
                edges, target = inner, inside.get(key)
                is_free = following.prefix is None and self._is_free
                if target is None and not is_free and len(waiting) < _PLACES:
                    target = inside[key] = len(waiting)
                    waiting.append(following)
                elif target is None:
                    edges, target = outer, self._outside(self._rule(following), outside)
                if symbols >= 0:
                    edges += (source, BYTES, symbols, target)
                if rule >= 0:
                    edges += (source, CALL, rule, target)
        base = len(network.final)
        table = np.array(inner + outer, dtype=np.int32).reshape(-1, 4)
        table[: len(inner) // 4, 3] += base
        network.extend(np.zeros(len(waiting), dtype=bool), *table.T)
        for number in range(len(waiting) if self._is_free else 0):
            network.reads_text(base + number)
        return base

    def _outside(self, rule: int, known: dict[int, int]) -> int:
        """A state that goes on by a rule."""
        if rule not in known:
            known[rule] = self.text.network.state()
            self.text.network.call(known[rule], rule, self.text.end)
        return known[rule]

    def _moves(self, place: _Place) -> Iterator[tuple[Plan, _Place]]:
        """How the characters that may come next are written, with the place that they lead to."""
        prefix, count = place.prefix, place.count + 1
        following = [] if prefix is None else [(letter, prefix + letter) for letter in self._following.get(prefix, ())]
        letters = [letter for letter, _ in following]
        for plan, target, characters in self._arcs(place.state):
            if not self.language.can_end(target, count):
                continue
            if not letters:
                yield plan, _Place(target, count, None)
                continue
            others = characters - CharSet.of(*letters)
            if others:
                yield self._plan(others), _Place(target, count, None)
            for letter, longer in following:
                if letter in characters and self._has_others(target, longer):
                    yield self._plan(CharSet.of(letter)), _Place(target, count, longer)

    def _arcs(self, state: int) -> list[tuple[Plan, int, CharSet]]:
        """(how they are written, where they lead to, the characters) of a state of the language."""
        known = self._known_arcs.get(state)
        if known is None:
            out = self.language.dfa.out(state)
            known = self._known_arcs[state] = [(self._plan(moved), target, moved) for target, moved in out]
        return known

    def _plan(self, characters: CharSet) -> Plan:
        single, rule = self.text.encoder.plan(characters)
        return self.text.network.byte_set_id(single) if single else -1, rule

    def _has_others(self, state: int, prefix: str) -> bool:
        """Does the language go on from here with anything but the excluded words?"""
        if self._is_free:
            return True
        endings = {word[len(prefix) :] for word in self.but if word.startswith(prefix)}
        return self.language.has_other_endings(state, endings)


def is_free(language: CountedLanguage) -> bool:
    """Is every string in the language?"""
    return not language.is_counted and language.dfa.num_states == 1 and len(language.dfa.classes) == 1


def _is_plain(text: str) -> bool:
    """Has the text one spelling only, for every encoder?"""
    return _PLAIN.issuperset(text)


class _AnyBut:
    """Any string but some words of plain characters, which are told apart along the tree of their prefixes.

    As `_Walk` of all strings does, for the names of nearly every object that may have others. Plain characters are not escaped here.
    """

    def __init__(self, text: StringText, words: frozenset[str]) -> None:
        self.text = text
        self.words = words
        self._following = {prefix: "".join(sorted(found)) for prefix, found in following_characters(words).items()}
        self._rules: dict[str, int] = {}  # prefix -> the rule that goes on after it
        self._known_labels: dict[str, tuple[list[int], int]] = {}

    def start(self) -> int:
        """A rule that reads the whole string, but not the opening quote."""
        return self._rule("") if self.words else self.text.counting(0, None)

    def _rule(self, prefix: str) -> int:
        known = self._rules.get(prefix)
        if known is None:
            known = self._rules[prefix] = self.text.network.rule(lambda: self._build(prefix), ahead=True)
        return known

    def _build(self, first: str) -> int:
        """The states of a prefix and of those that begin with it, as many as are laid out at once; returns the first."""
        network, end = self.text.network, self.text.end
        escapes = self.text.encoder.plan(SPELT_OTHERWISE)[1]
        quote = network.byte_set_id(_QUOTE)
        inner: list[int] = []  # source, kind, label, target of edges among these states, counted from the first of them
        outer: list[int] = [0, CALL, self.text.counting(0, None), end]  # of edges that lead elsewhere
        free = 0  # the state where none of the words is left
        waiting, count = [(first, 1)], 2
        for prefix, source in waiting:  # grows as prefixes are found
            following = self._following.get(prefix, "")
            labels, others = self._labels(following)
            for character, label in zip(following, labels, strict=True):
                inner += (source, BYTES, label, count)
                if len(waiting) < _PLACES:
                    waiting.append((prefix + character, count))
                else:
                    outer += (count, CALL, self._rule(prefix + character), end)
                count += 1
            inner += (source, BYTES, others, free, source, CALL, escapes, free)
            if prefix not in self.words:
                outer += (source, BYTES, quote, end)
        base = len(network.final)
        edges = np.array(inner + outer, dtype=np.int32).reshape(-1, 4)
        edges[: len(inner) // 4, 3] += base
        network.extend(np.zeros(count, dtype=bool), *edges.T)
        for _, source in waiting:
            network.reads_text(base + source)
        return base + 1

    def _labels(self, characters: str) -> tuple[list[int], int]:
        """The labels of edges over each of some characters, and over all others that one byte writes."""
        known = self._known_labels.get(characters)
        if known is None:
            label, others = self.text.network.byte_set_id, SPELT_ONCE | self.text.encoder.plan(SPELT_OTHERWISE)[0]
            bits = [1 << ord(character) for character in characters]
            known = self._known_labels[characters] = [label(bit) for bit in bits], label(others & ~sum(bits))
        return known


def following_characters(words: frozenset[str]) -> dict[str, set[str]]:
    """prefix -> the characters with which one of the words goes on after it."""
    following: dict[str, set[str]] = {}
    for word in words:
        for length in range(len(word) - 1, -1, -1):
            known = following.get(word[:length])
            if known is not None:  # and so have all shorter ones
                known.add(word[length])
                break
            following[word[:length]] = {word[length]}
    return following
