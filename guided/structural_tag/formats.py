"""What a structural tag is made of, as values; knows neither how it is written nor how it is enforced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AnyText:
    """Any text, without the strings of `avoided`."""

    avoided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exactly:
    """One text, word for word."""

    text: str


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A special token of the vocabulary, by name; not its letters."""

    name: str


@dataclass(frozen=True, slots=True)
class Inner:
    """A constraint of another kind.

    Attributes:
        kind: "json" | "text" (the strings that satisfy a schema, without quotes) | "regex" | "grammar".
        value: the schema, pattern or grammar.
        pointer: where it stands in the structural tag.
        options: of `Constraint.json_schema`, beside those of the whole tag.
        narrowed: the schema at `pointer` is the first of its `allOf`; that nothing satisfies it is no mistake.
        quoted: as it stands between the quotes of a JSON string; only for "regex" and "grammar".
    """

    kind: str
    value: Any
    pointer: str
    options: tuple[tuple[str, str], ...] = ()
    narrowed: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the elements; without elements nothing at all."""

    elements: tuple[Format, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The content at least `least` and at most `most` times; `most` None: any number of times."""

    content: Format
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Tag:
    """`begin`, the content, and one of the `ends`; an empty end lets the content end by itself."""

    begin: str | SpecialToken
    content: Format
    ends: tuple[str | SpecialToken, ...]


@dataclass(frozen=True, slots=True)
class Separated:
    """Tags with a separator between them and nothing else.

    Attributes:
        at_least_one: without it there may be none.
        only_one: no tag follows the first.
    """

    tags: tuple[Tag, ...]
    separator: str
    at_least_one: bool
    only_one: bool


@dataclass(frozen=True, slots=True)
class Triggered:
    """Free text, in which each trigger begins a tag.

    Attributes:
        triggers: each a beginning of the `begin` of its tags.
        at_least_one: the output begins with a tag, not with text.
        only_one: nothing follows the first tag.
        avoided: strings that the free text does not contain.
    """

    triggers: tuple[str, ...]
    tags: tuple[Tag, ...]
    at_least_one: bool
    only_one: bool
    avoided: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Free text, in which each pattern is followed by its content; with `loop` by more free text after that."""

    rules: tuple[tuple[str, Format], ...]
    loop: bool
    avoided: tuple[str, ...]


Format = (
    AnyText | Exactly | SpecialToken | Inner | Sequence | Either | Repeat | Tag | Separated | Triggered | Dispatched
)
