"""An automaton's character view in, texts of its language out: the shortest one and varied ones; knows no vocabulary."""

from __future__ import annotations

import random
from collections.abc import Iterator

from guided.automaton.charset import CharSet
from guided.explain.characters import CharacterView

_READABLE = (CharSet.range("a", "z"), CharSet.range("0", "9"), CharSet.range(" ", "~"))  # preferred, in this order
_MAX_VISITED = 20_000  # states that one search for an end looks at


def shortest_text(view: CharacterView, state: int | None = None) -> str | None:
    """A text of fewest characters from a state (the start by default) to an accepting one; special tokens as `<|name|>`.

    None where the search would visit too many states. Breadth first, so it works for automata that never close, too.

    Raises:
        LimitExceeded: the automaton outgrew its limits.
    """
    origin = view.start if state is None else state
    came_from: dict[int, tuple[int, str]] = {origin: (origin, "")}
    queue = [origin]
    for current in queue:
        if view.is_accepting(current):
            return _text_of(came_from, origin, current)
        if len(queue) > _MAX_VISITED:
            break
        for symbol, target in _symbols(view, current):
            if target not in came_from:
                came_from[target] = (current, symbol)
                queue.append(target)
    return None


def _text_of(came_from: dict[int, tuple[int, str]], origin: int, state: int) -> str:
    symbols = []
    while state != origin:
        state, symbol = came_from[state]
        symbols.append(symbol)
    return "".join(reversed(symbols))


def _symbols(view: CharacterView, state: int) -> Iterator[tuple[str, int]]:
    """One readable character per edge, with the state after it."""
    moves = view.moves(state)
    yield from ((typical_character(characters), target) for characters, target in moves.characters)
    yield from moves.special


def random_text(view: CharacterView, source: random.Random, typical_length: int = 40) -> str | None:
    """A text of the language: a random walk that takes the first chance to end after `typical_length` characters.

    From there it goes the shortest way, so every text is complete. None where that way was not found.

    Raises:
        LimitExceeded: the automaton outgrew its limits.
    """
    state, text = view.start, ""
    while len(text) < typical_length:
        moves = view.moves(state)
        choices: list[tuple[CharSet | str, int]] = [*moves.characters, *moves.special]
        if not choices or (view.is_accepting(state) and source.random() < 0.3):
            return text
        symbol, state = source.choice(choices)
        text += symbol if isinstance(symbol, str) else _random_character(symbol, source)
    rest = shortest_text(view, state)
    return None if rest is None else text + rest


def typical_character(characters: CharSet) -> str:
    """The most readable member of a set."""
    for preferred in _READABLE:
        if common := characters & preferred:
            return chr(common.bounds[0])
    return chr(characters.bounds[0])


def _random_character(characters: CharSet, source: random.Random) -> str:
    readable = [part for preferred in _READABLE if (part := characters & preferred)]
    pool = source.choice(readable) if readable else characters
    lo, hi = source.choice(pool.ranges)
    return chr(source.randint(lo, hi))
