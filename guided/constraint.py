"""What the caller asked for, as one frozen value: kind, canonical text, digest. Standard library only; compiles nothing.

The canonical text is JSON: the same constraint written in two ways (object or JSON text, spaces, an option given at its
default) has one text and so one digest, which is the name of its index in every cache. Order of properties is kept: it
is the order of generation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from guided.errors import InvalidConstraint, LimitExceeded, json_type

MOST_CHARACTERS = 200  # of a marker: its automaton costs more than its square
MOST_AVOIDED = 4_000  # characters of all strings to keep out
FORMAT_VERSION = 1  # of the canonical text and of everything that is compiled from it

Kind = Literal["json", "regex", "choice", "grammar", "structural_tag"]
WHITESPACE = ("json_dumps", "compact", "any")
ADDITIONAL_PROPERTIES = ("declared", "allow")
PROPERTY_ORDER = ("schema", "any")
ESCAPES = ("any", "needed")
GRAMMAR_SYNTAX = ("lark", "gbnf")


@dataclass(frozen=True)
class Constraint:
    """One constraint; build it with `json_schema`, `regex`, `choice`, `grammar` or `structural_tag`, then `after` and `avoiding`.

    Attributes:
        kind: "json" | "regex" | "choice" | "grammar" | "structural_tag".
        canonical_text: JSON text of {"kind", "value", "options"}; `Constraint.from_canonical` reads it back.
    """

    kind: Kind
    canonical_text: str

    @classmethod
    def json_schema(
        cls,
        schema: Any,
        *,
        whitespace: str = "json_dumps",
        whitespace_pattern: str | None = None,
        additional_properties: str = "declared",
        property_order: str = "schema",
        escapes: str = "any",
    ) -> Constraint:
        """A JSON Schema: dict, bool, JSON text, or a pydantic model class.

        Args:
            whitespace: "json_dumps" (compact or indented as `json.dumps` writes, bounded), "compact", "any" (bounded).
            whitespace_pattern: a regex for the whitespace between tokens of the document, instead of `whitespace`.
            additional_properties: "declared": objects that list `properties` get only these where the schema is silent;
                "allow": the letter of the standard.
            property_order: "schema" or "any".
            escapes: "any": the model chooses between `é` and `\\u00e9`; "needed": only what JSON must escape is escaped.

        Raises:
            InvalidConstraint: not JSON, not an object or boolean, or an option that does not exist.
        """
        options = _json_options(whitespace, whitespace_pattern, additional_properties, property_order, escapes)
        return cls._make("json", _schema_value(schema), options)

    @classmethod
    def regex(cls, pattern: str) -> Constraint:
        """A Python regular expression; the whole output matches it, as in `re.fullmatch`."""
        return cls._make("regex", _text("regex", pattern))

    @classmethod
    def choice(cls, choices: Iterable[str]) -> Constraint:
        """One of the given strings.

        Raises:
            InvalidConstraint: the list is empty, or an element is not a string.
        """
        if isinstance(choices, str) or not isinstance(choices, Iterable):
            raise InvalidConstraint(f"choices must be a list of strings, not {json_type(choices)}")
        values = list(choices)
        if not values:
            raise InvalidConstraint("the list of choices is empty")
        for position, value in enumerate(values):
            _text("a choice", value, pointer=f"/{position}")
        return cls._make("choice", list(dict.fromkeys(values)))

    @classmethod
    def grammar(cls, text: str, *, syntax: str | None = None) -> Constraint:
        """A context-free grammar in Lark or GBNF syntax; without `syntax` the form of the file decides."""
        options = {} if syntax is None else {"syntax": _one_of("grammar_syntax", syntax, GRAMMAR_SYNTAX)}
        return cls._make("grammar", _text("grammar", text), options)

    @classmethod
    def structural_tag(
        cls,
        tag: Any,
        *,
        whitespace: str = "json_dumps",
        whitespace_pattern: str | None = None,
        additional_properties: str = "declared",
        property_order: str = "schema",
        escapes: str = "any",
    ) -> Constraint:
        """Free text and constraints of other kinds between markers: dict or JSON text, in either form of vLLM 0.32.

        Args:
            whitespace, whitespace_pattern, additional_properties, property_order, escapes: of `json_schema`, for each schema in it.

        Raises:
            InvalidConstraint: not JSON, not an object, or an option that does not exist.
        """
        options = _json_options(whitespace, whitespace_pattern, additional_properties, property_order, escapes)
        value = _from_text(tag, "structural tag") if isinstance(tag, (str, bytes)) else tag
        if not isinstance(value, dict):
            raise InvalidConstraint(f"a structural tag is an object, not {type(value).__name__}", pointer="")
        return cls._make("structural_tag", value, options)

    def after(self, marker: str, *, opening: str | None = None) -> Constraint:
        """The constraint holds after the first `marker` of an output; what comes before is any text.

        Args:
            opening: what the text begins with, where there is any: an output that does not begin with it has no marker either, and
                the constraint holds from the start. None: there is always some text, if only an empty one.

        Raises:
            InvalidConstraint: a marker is not a string, or empty, or the constraint has one already.
            LimitExceeded: one is longer than 200 characters.
        """
        options = {"after": marker} if opening is None else {"after": marker, "opening": opening}
        for name, text in options.items():
            if not _text(name, text):
                raise InvalidConstraint("the marker is empty")
            if len(text) > MOST_CHARACTERS:
                raise LimitExceeded(f"the marker has more than {MOST_CHARACTERS} characters", limit="characters")
        if "after" in self.options:
            raise InvalidConstraint("the constraint comes after a marker already")
        return self._make(self.kind, self.value, {**self.options, **options})

    def avoiding(self, strings: Iterable[str]) -> Constraint:
        """As this one, without the outputs that contain one of the strings.

        Raises:
            InvalidConstraint: one of them is not a string, or empty.
            LimitExceeded: together they are longer than 4,000 characters.
        """
        if isinstance(strings, str):
            raise InvalidConstraint("the strings to keep out must be a list of strings")
        avoided = sorted(
            {*self.options.get("avoid", ()), *(_text("a string to keep out", string) for string in strings)}
        )
        if "" in avoided:
            raise InvalidConstraint("an empty string cannot be kept out")
        if sum(map(len, avoided)) > MOST_AVOIDED:
            raise LimitExceeded(f"strings of more than {MOST_AVOIDED:,} characters to keep out", limit="characters")
        return self._make(self.kind, self.value, {**self.options, "avoid": avoided}) if avoided else self

    def in_one_layout(self) -> Constraint:
        """A schema with one way to lay out each document, where it says nothing of whitespace; any other constraint as it is.

        For pictures and explanations: every layout is one more copy of the whole automaton.
        """
        if self.kind != "json" or self.options["whitespace"] != "json_dumps" or "whitespace_pattern" in self.options:
            return self
        return self._make(self.kind, self.value, {**self.options, "whitespace": "compact"})

    @classmethod
    def from_canonical(cls, text: str) -> Constraint:
        """The constraint whose `canonical_text` is `text`."""
        return cls(json.loads(text)["kind"], text)

    @classmethod
    def _make(cls, kind: Kind, value: Any, options: dict[str, Any] | None = None) -> Constraint:
        try:
            text = json.dumps(
                {"kind": kind, "value": value, "options": options or {}},
                ensure_ascii=False,
                allow_nan=False,
                separators=(",", ":"),
            )
            text.encode()
        except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair, UTF-8 cannot
            raise InvalidConstraint("the constraint contains a lone surrogate") from error
        except RecursionError as error:
            raise _nested_too_deeply(*_deepest(value)) from error
        except (ValueError, TypeError) as error:
            raise InvalidConstraint(f"the constraint cannot be written as JSON: {error}") from error
        return cls(kind, text)

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """{"kind", "value", "options"}; not to be changed."""
        return json.loads(self.canonical_text)

    @property
    def value(self) -> Any:
        """The schema, pattern, list of choices or grammar text."""
        return self.parsed["value"]

    @property
    def options(self) -> dict[str, Any]:
        return self.parsed["options"]

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of format version and canonical text: equal across processes and machines."""
        return hashlib.sha256(f"{FORMAT_VERSION}\0{self.canonical_text}".encode()).hexdigest()


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidConstraint(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _text(name: str, value: Any, pointer: str | None = None) -> str:
    if not isinstance(value, str):
        raise InvalidConstraint(f"{name} must be a string, not {json_type(value)}", pointer=pointer)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(f"{name} contains a lone surrogate", column=error.start, pointer=pointer) from error
    return value


def _json_options(
    whitespace: str, whitespace_pattern: str | None, additional_properties: str, property_order: str, escapes: str
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "whitespace": _one_of("whitespace", whitespace, WHITESPACE),
        "additional_properties": _one_of("additional_properties", additional_properties, ADDITIONAL_PROPERTIES),
        "property_order": _one_of("property_order", property_order, PROPERTY_ORDER),
    }
    # Named only where they are used: digests from before they came still hold.
    if whitespace_pattern is not None:
        options["whitespace_pattern"] = _text("whitespace_pattern", whitespace_pattern)
    if _one_of("escapes", escapes, ESCAPES) != "any":
        options["escapes"] = escapes
    return options


def _schema_value(schema: Any) -> Any:
    """The schema as JSON values, from a dict, a bool, JSON text or a pydantic model class."""
    if hasattr(schema, "model_json_schema"):
        try:
            return schema.model_json_schema()
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # pydantic's own are RuntimeErrors
            raise InvalidConstraint(f"the model has no JSON Schema: {error}") from error
    if isinstance(schema, (str, bytes)):
        schema = _from_text(schema, "schema")
    if not isinstance(schema, (dict, bool)):
        raise InvalidConstraint(f"a JSON Schema is an object or a boolean, not {json_type(schema)}", pointer="")
    return schema


class TwiceNamed(ValueError):
    """A name is twice in one JSON object, of which only the last would count."""


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for `object_pairs_hook`. Raises TwiceNamed."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise TwiceNamed(f"the name {name[:80]!r} is twice in one object")
    return found


def _from_text(text: str | bytes, what: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=named_once)
    except RecursionError as error:
        raise _nested_too_deeply(*_deepest_of_text(text if isinstance(text, str) else text.decode())) from error
    except ValueError as error:
        raise InvalidConstraint(f"the {what} is not JSON: {error}") from error


# --- nesting that Python's JSON cannot read or write ------------------------------------------------------------------


def _nested_too_deeply(depth: int, path: list[str | int]) -> LimitExceeded:
    pointer = "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in path)
    message = (
        f"the schema is nested {depth:,} levels deep, more than can be read; the pointer leads to level {len(path)}"
    )
    return LimitExceeded(message, limit="nesting", pointer=pointer)


def _deepest(value: Any) -> tuple[int, list[str | int]]:
    """How many levels deep a value is nested, and the beginning of the path to its deepest place; without recursion."""
    best: _Link = None
    deepest, waiting = 0, [(value, 0, best)]
    while waiting:
        place, depth, link = waiting.pop()
        if depth > deepest:
            deepest, best = depth, link
        if isinstance(place, dict):
            waiting.extend((member, depth + 1, (name, link)) for name, member in place.items())
        elif isinstance(place, list):
            waiting.extend((member, depth + 1, (position, link)) for position, member in enumerate(place))
    path: list[str | int] = []
    while best is not None:
        path.append(best[0])
        best = best[1]
    return deepest, path[::-1][:_SHOWN_LEVELS]


def _deepest_of_text(text: str) -> tuple[int, list[str | int]]:
    """`_deepest` of JSON text, read token by token."""
    path: list[str | int] = []  # the name or position of the value that is read, on each level
    best: list[str | int] = []
    deepest, name = 0, ""
    for match in _TOKENS.finditer(text):
        token = match.group()
        if token in "{[":
            path.append(0 if token == "[" else "")
            if len(path) > deepest:
                deepest, best = len(path), path[:_SHOWN_LEVELS]
        elif token in "}]":
            del path[-1:]
        elif token == "," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif token == ":" and path:
            path[-1] = name
        else:
            name = token[1:-1]
    return deepest, best


_Link = tuple[str | int, Any] | None  # name or position, and the link of the value around it
_SHOWN_LEVELS = 100
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]')
