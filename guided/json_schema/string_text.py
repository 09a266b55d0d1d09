"""How strings are written: from string shapes and automata to rules that read the quotes and what is between; knows no schema."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet
from guided.automaton.encoding import JsonStringEncoder, embed_dfa
from guided.automaton.network import Network
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.languages import Languages
from guided.json_schema.strings import StringShape

_QUOTE = 1 << ord('"')
_CHUNK = 64  # characters of a counted string that are laid out at once


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
        return self._rule(shape, lambda: self._build(shape))

    def quoted_language(self, language: CharDfa, but: frozenset[str] = frozenset()) -> int:
        """A rule that reads a string of a language that is none of some words, quotes included."""
        counted = CountedLanguage(language, 0, None, self.languages.budget)
        return self._rule((language, but), lambda: self._build_counted(counted, but))

    def quoted_other(self, words: frozenset[str]) -> int:
        """A rule that reads any string but the given ones, quotes included."""
        return self._rule(("other", words), lambda: self._build_other(words))

    def _build_other(self, words: frozenset[str]) -> int:
        start, opened = self.network.state(), self.network.state()
        self.network.edge(start, _QUOTE, opened)
        self.network.call(opened, _OtherThan(self, words).rule(""), self.end)
        return start

    def word(self, text: str) -> int:
        """The states of one fixed string, quotes included; returns the first."""
        start, opened, read = self.network.state(), self.network.state(), self.network.state()
        self.network.edge(start, _QUOTE, opened)
        self._word(opened, text, read)
        self.network.edge(read, _QUOTE, self.end)
        return start

    def _rule(self, key: Hashable, build: Callable[[], int]) -> int:
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = self.network.rule(build)
        return known

    def _build(self, shape: StringShape) -> int:
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

    def _build_counted(self, language: CountedLanguage, but: frozenset[str] = frozenset()) -> int:
        start = self.network.state()
        if but or language.is_counted or language.dfa.num_states > _CHUNK:
            opened = self.network.state()
            self.network.edge(start, _QUOTE, opened)
            self.network.call(opened, _Walk(self, language, but).rule(0, 0, "" if but else None), self.end)
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


class _Walk:
    """A language laid out as it is reached: one rule for each state of the automaton, count of characters and prefix.

    The prefix is kept while it is one of an excluded word, and is None once it is not.
    """

    def __init__(self, text: StringText, language: CountedLanguage, but: frozenset[str] = frozenset()) -> None:
        self.text = text
        self.language = language
        self.but = but
        self._following = following_characters(but)
        self._rules: dict[tuple[int, int, str | None], int] = {}

    def rule(self, state: int, count: int, prefix: str | None) -> int:
        """A rule that reads the rest of the string and the closing quote."""
        key = (state, self.language.key(state, count), prefix)
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = self.text.network.rule(lambda: self._build(state, count, prefix))
        return known

    def _build(self, state: int, count: int, prefix: str | None) -> int:
        start = self.text.network.state()
        if self.language.accepts(state, count) and prefix not in self.but:
            self.text.network.edge(start, _QUOTE, self.text.end)
        following = CharSet.of("".join(sorted(self._following.get(prefix, ())))) if prefix is not None else CharSet()
        for target, characters in self.language.dfa.out(state):
            if not self.language.can_end(target, count + 1):
                continue
            self._move(start, characters - following, target, count + 1, None)
            for character in sorted(self._following.get(prefix, ())) if prefix is not None else ():
                if character in characters and self._has_others(target, prefix + character):
                    self._move(start, CharSet.of(character), target, count + 1, prefix + character)
        return start

    def _move(self, start: int, characters: CharSet, target: int, count: int, prefix: str | None) -> None:
        if characters:
            after = self.text.network.state()
            self.text.encoder.char(start, characters, after)
            self.text.network.call(after, self.rule(target, count, prefix), self.text.end)

    def _has_others(self, state: int, prefix: str) -> bool:
        """Does the language go on from here with anything but the excluded words?"""
        endings = {word[len(prefix) :] for word in self.but if word.startswith(prefix)}
        return self.language.has_other_endings(state, endings)


class _OtherThan:
    """Every string that is none of some words: along the tree of their prefixes, and anything once that is left."""

    def __init__(self, text: StringText, words: frozenset[str]) -> None:
        self.text = text
        self.words = words
        self._following = following_characters(words)
        self._rules: dict[str, int] = {}

    def rule(self, prefix: str) -> int:
        """A rule that reads on after a prefix of some word, to the closing quote."""
        known = self._rules.get(prefix)
        if known is None:
            known = self._rules[prefix] = self.text.network.rule(lambda: self._build(prefix))
        return known

    def _build(self, prefix: str) -> int:
        text, network = self.text, self.text.network
        start, free = network.state(), network.state()
        if prefix not in self.words:
            network.edge(start, _QUOTE, text.end)
        following = sorted(self._following.get(prefix, ()))
        text.encoder.char(start, ~CharSet.of("".join(following)), free)
        network.call(free, text.counting(0, None), text.end)
        for character in following:
            after = network.state()
            text.encoder.char(start, CharSet.of(character), after)
            network.call(after, self.rule(prefix + character), text.end)
        return start


def following_characters(words: frozenset[str]) -> dict[str, set[str]]:
    """prefix -> the characters with which one of the words goes on after it."""
    following: dict[str, set[str]] = {}
    for word in words:
        for length, character in enumerate(word):
            following.setdefault(word[:length], set()).add(character)
    return following
