"""What an answer looks like on average: a prepared schema goes in, a value that fits it comes out; knows no bytes.

The value is for measuring, not for reading: every listed property is written, free texts are a sentence, arrays have three items.
"The barest" value leaves out what may be left out instead. Conditions that hold between the members of an object (clauses,
counts of `contains`) are not looked at, so that now and then the value is not quite valid; its length is what is asked for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from guided.automaton.charset import CharSet
from guided.errors import LimitExceeded
from guided.json_schema.arrays import ArrayShape
from guided.json_schema.counted import CountedLanguage
from guided.json_schema.formulas import Goal
from guided.json_schema.layout import ObjectLayout
from guided.json_schema.literals import Literals
from guided.json_schema.normal_form import NormalForm, is_anything
from guided.json_schema.numbers import NumberShape
from guided.json_schema.objects import ObjectShape
from guided.json_schema.prepare import Prepared
from guided.json_schema.reading import Shape
from guided.json_schema.strings import StringShape

_SENTENCE = "A sentence of the length that such texts have when nothing else is asked for. "
_SENTENCE_LENGTH = 60  # characters of a text without an upper bound
_ITEMS = 3
_KEYS = ("first key", "second key")
_MOST_VALUES = 5_000  # then what may be left out is
_DEEPEST = 12  # values inside of values, optional ones
_PATTERN_LENGTH = 12  # characters of a text with a pattern, where it may be so long
_PATTERN_LIMIT = 4_000
_EXAMPLES = {
    "date": "2024-02-29",
    "time": "12:34:56Z",
    "date-time": "2024-02-29T12:34:56Z",
    "duration": "P3DT12H",
    "email": "somebody@example.com",
    "hostname": "www.example.com",
    "ipv4": "192.168.100.1",
    "ipv6": "2001:db8::8a2e:370:7334",
    "uri": "https://www.example.com/a/path?with=query",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_RICH = ("object", "array", "string", "number", "boolean", "null")
_BARE = ("null", "boolean", "number", "string", "array", "object")


def typical_value(prepared: Prepared, bare: bool = False) -> Any:
    """A value of average size, or the barest that can be made up at a glance.

    Raises:
        LimitExceeded: none is found within the depth that recursion is followed.
    """
    return _Writer(prepared.normal_form, bare).value(prepared.root, ())


class _Writer:
    def __init__(self, normal_form: NormalForm, bare: bool) -> None:
        self.normal_form = normal_form
        self.languages = normal_form.languages
        self.bare = bare
        self._left = _MOST_VALUES

    def value(self, goal: Goal, path: tuple[Goal, ...]) -> Any:
        """A value of a goal; `path`: the goals of the containers around it."""
        if is_anything(goal, self.normal_form):
            return 0 if self.bare else _SENTENCE[:_SENTENCE_LENGTH]
        self._left -= 1
        recursive = self._goes_on(goal, path)
        for kind in _BARE if self.bare or recursive else _RICH:
            for shape in self.normal_form.alternatives(goal, kind):
                if self.normal_form.has_value(shape):
                    return self._of_shape(shape, (*path, goal), self.bare or recursive)
        raise LimitExceeded("no typical value was found", limit="nesting")

    def _of_shape(self, shape: Shape, path: tuple[Goal, ...], bare: bool) -> Any:
        if len(path) > 4 * _DEEPEST:
            raise LimitExceeded("no typical value was found", limit="nesting")
        match shape:
            case Literals():
                return min(shape.values, key=str)
            case NumberShape():
                return _number(shape, bare)
            case StringShape():
                return self._text(shape, bare)
            case ArrayShape():
                return self._array(shape, path, bare)
            case ObjectShape():
                return self._object(shape, path, bare)

    def _text(self, shape: StringShape, bare: bool) -> str:
        if shape.words is not None:
            words = sorted(self.languages.matching(shape), key=len)
            return words[0 if bare else len(words) // 2]
        for kind, text, positive in shape.tests:
            example = _EXAMPLES.get(text) if kind == "format" and positive else None
            if example is not None and not bare and self.languages.shape(shape).contains(example):
                return example
        if shape.tests or shape.excluded:
            return _spelled(self.languages.counted(shape), 0 if bare else _PATTERN_LENGTH)
        wanted = 0 if bare else _SENTENCE_LENGTH
        length = max(shape.min_length, wanted if shape.max_length is None else min(wanted, shape.max_length))
        return (_SENTENCE * (length // len(_SENTENCE) + 1))[:length]

    def _array(self, shape: ArrayShape, path: tuple[Goal, ...], bare: bool) -> list[Any]:
        wanted = max([0 if bare else _ITEMS, *(count.least for count in shape.counts)])
        count = max(shape.min_items, wanted if shape.max_items is None else min(wanted, shape.max_items))
        items = []
        for position in range(count):
            goal = self.normal_form.formulas.goal(shape.formulas_at(position))
            if position >= shape.min_items and not self._is_worth_writing(goal, path):
                break
            items.append(self.value(goal, path))
        return items

    def _object(self, shape: ObjectShape, path: tuple[Goal, ...], bare: bool) -> dict[str, Any]:
        layout = ObjectLayout(shape, self.normal_form)
        most = len(layout.known) + len(_KEYS) if shape.max_count is None else shape.max_count
        members: dict[str, Any] = {}
        for name in layout.known:
            goal = layout.goal(name)
            optional = name not in shape.required
            if optional and (bare or len(members) >= most or not self._is_worth_writing(goal, path)):
                continue
            members[name] = self.value(goal, path)
        if layout.closed or (len(members) >= shape.min_count and (layout.known or bare)):
            return members
        for cell in layout.cells:
            names = self.normal_form.names.satisfying(cell.tests) if cell.tests else None
            keys = _KEYS if names is None else tuple(names.words(len(_KEYS)))
            for key in keys[: max(0, most - len(members))]:
                if self._is_worth_writing(cell.goal, path):
                    members[key] = self.value(cell.goal, path)
        return members

    def _is_worth_writing(self, goal: Goal, path: tuple[Goal, ...]) -> bool:
        """An optional part is left out where it would go on for ever, or has no value."""
        return not self._goes_on(goal, path) and self.normal_form.satisfiable(goal)

    def _goes_on(self, goal: Goal, path: tuple[Goal, ...]) -> bool:
        """A recursive schema is followed twice, a large one as far as there is room."""
        return path.count(goal) > 1 or len(path) > _DEEPEST or self._left < 0


def _number(shape: NumberShape, bare: bool) -> int | float:
    candidates = [Fraction(0)] if bare else [Fraction(123), Fraction(25, 2), Fraction(1, 2), Fraction(0)]
    values = sorted(shape.values or (), key=lambda value: len(str(value)))
    candidates += [*values[: 1 if bare else None][-1:], *filter(None, (shape.low, shape.high, shape.step))]
    chosen = next((value for value in candidates if value in shape), None)
    if chosen is None:
        chosen = shape.some_member()
    return int(chosen) if chosen.denominator == 1 else float(chosen)


def _spelled(language: CountedLanguage, wanted: int) -> str:
    """A string of the language of about the wanted length: along the automaton, past as many ends as that takes."""
    state, text, last = 0, "", None
    while len(text) < _PATTERN_LIMIT:
        if language.accepts(state, len(text)):
            last = text
            if len(text) >= wanted:
                break
        moves = [move for move in language.dfa.out(state) if language.can_end(move[0], len(text) + 1)]
        if not moves:
            break
        state, characters = moves[len(text) % len(moves)]
        text += _letter(characters)
    return last if last is not None else next(language.dfa.words(1))


def _letter(characters: CharSet) -> str:
    readable = characters & CharSet.range("a", "z") or characters & CharSet.range(" ", "~") or characters
    return chr(readable.bounds[0])
