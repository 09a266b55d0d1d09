"""A text and an automaton in; whether it matches, and if not, where it stops and what could come there. Knows no vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from guided.automaton.charset import CharSet
from guided.automaton.machine import DEAD
from guided.explain.characters import CharacterView
from guided.explain.labels import set_label, text_label

_FORCED = 40  # characters of a forced continuation that are followed


@dataclass(frozen=True, slots=True)
class Stop:
    """How far a text came.

    Attributes:
        matches: the whole text is in the language.
        is_prefix: something of the language begins with the whole text.
        byte: offset of the first byte that is refused, or the length where none is.
        character: whole characters before that byte.
        character_byte: offset of the byte at which the refused character begins.
        state: of the automaton after these characters.
    """

    matches: bool
    is_prefix: bool
    byte: int
    character: int
    character_byte: int
    state: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """One way to go on: a set of characters, then what is forced after them.

    Attributes:
        characters: that may come next; None for a special token.
        label: for people: a class such as `[0-9]`, a forced text, or `<|name|>`.
        forced: the text that must come if it is this way (one character at least), "" where there is a choice at once.
    """

    characters: CharSet | None
    label: str
    forced: str


def find_stop(view: CharacterView, data: bytes) -> Stop:
    """Runs a text through the automaton.

    Raises:
        LimitExceeded: the automaton outgrew its limits.
    """
    state = boundary = view.start
    character = character_byte = 0
    for offset, byte in enumerate(data):
        if offset and byte & 0xC0 != 0x80:  # a character begins here
            boundary, character, character_byte = state, character + 1, offset
        state = view.dfa.step(state, byte)
        if state == DEAD:
            return Stop(False, False, offset, character, character_byte, boundary)
    if _ends_inside_character(data):
        return Stop(False, True, len(data), character, character_byte, boundary)
    matches = view.is_accepting(state)
    return Stop(matches, True, len(data), character + bool(data), len(data), state)


def _ends_inside_character(data: bytes) -> bool:
    """Is the last character of a text, valid so far, cut?"""
    for back, byte in enumerate(reversed(data[-4:]), 1):
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back < needed
    return False


def continuations(view: CharacterView, state: int) -> list[Continuation]:
    """Every way to go on from a state, by where it leads.

    Raises:
        LimitExceeded: the automaton outgrew its limits.
    """
    moves = view.moves(state)
    found = []
    for characters, target in moves.characters:
        forced = chr(characters.bounds[0]) + _forced(view, target) if len(characters) == 1 else ""
        found.append(Continuation(characters, text_label(forced) or set_label(characters), forced))
    return found + [Continuation(None, name, "") for name, _ in moves.special]


def _forced(view: CharacterView, state: int) -> str:
    """The text that must follow a state, as far as nothing else may."""
    text = ""
    while len(text) < _FORCED and not view.is_accepting(state):
        moves = view.moves(state)
        if moves.special or len(moves.characters) != 1 or len(moves.characters[0][0]) != 1:
            break
        characters, state = moves.characters[0]
        text += chr(characters.bounds[0])
    return text
