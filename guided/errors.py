"""The error tree of the library: every refusal says what is wrong, where, and by which code; knows nothing of HTTP.

ConstraintError                    base, never raised itself
├── InvalidConstraint              not a regex / schema / grammar / list of choices at all
├── UnsupportedKeyword             well formed, but names something that cannot be enforced
├── Unsatisfiable                  nothing satisfies it
└── LimitExceeded                  a limit of `guided.limits.Limits` was reached; names the limit
"""

from __future__ import annotations

from typing import Self


class ConstraintError(ValueError):
    """A constraint was refused for what it says.

    Attributes:
        code: machine-readable, stable: "invalid_constraint", "unsupported_keyword", "unsatisfiable",
            "constraint_too_complex".
        message: one sentence for people, never empty.
        pointer: JSON pointer into a schema (RFC 6901, "" is the root), or None.
        column: 0-based offset into the regex or grammar line, or None.
        line: 1-based line of a grammar, or None.
        hint: what to do instead, or None.
    """

    code = "invalid_constraint"

    def __init__(
        self,
        message: str,
        *,
        pointer: str | None = None,
        column: int | None = None,
        line: int | None = None,
        hint: str | None = None,
        source: str | None = None,
    ) -> None:
        self.message = message
        self.pointer = pointer
        self.column = column
        self.line = line
        self.hint = hint
        self.source = source
        super().__init__(self.describe())

    def at(self, *, line: int, column: int, source: str) -> Self:
        """The same refusal with a place, where it had none."""
        if self.column is None and self.pointer is None:
            self.line, self.column, self.source = line, column, source
            self.args = (self.describe(),)
        return self

    def copy(self) -> Self:
        """Another error that says the same: several who wait for one compilation may each change their own."""
        other = type(self).__new__(type(self), *self.args)
        other.__dict__.update(self.__dict__)
        return other

    def describe(self) -> str:
        """The message with its place: a JSON pointer, or the offending line with a caret under the column."""
        text = self.message
        if self.pointer is not None:
            text += f" (at {self.pointer or 'the root'})"
        if self.column is not None:
            text += f" (line {self.line}, column {self.column + 1})" if self.line else f" (column {self.column + 1})"
        if self.hint:
            text += f". {self.hint}"
        if self.source is not None and self.column is not None:
            text += "\n" + _caret(self.source, self.line, self.column)
        return text


class InvalidConstraint(ConstraintError):
    """The text is not what it claims to be: a syntax error, a wrong type, an empty list."""


class UnsupportedKeyword(ConstraintError):
    """Understood, but not enforceable while generating left to right; `keyword` names it."""

    code = "unsupported_keyword"

    def __init__(self, message: str, *, keyword: str, **place) -> None:
        self.keyword = keyword
        super().__init__(message, **place)


class Unsatisfiable(ConstraintError):
    """No string satisfies the constraint."""

    code = "unsatisfiable"


class LimitExceeded(ConstraintError):
    """Compilation reached a limit; `limit` is the name of the field of `Limits`, or "choices": there are too many."""

    code = "constraint_too_complex"

    def __init__(self, message: str, *, limit: str, **place) -> None:
        self.limit = limit
        super().__init__(message, **place)


_JSON_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a number"),
    (dict, "an object"),
    ((list, tuple), "an array"),
    (type(None), "null"),
)


def json_type(value: object) -> str:
    """What JSON calls a value, with its article; of what JSON does not have, Python's name."""
    return next((name for types, name in _JSON_TYPES if isinstance(value, types)), type(value).__name__)


_CONTEXT = 60  # characters shown on each side of the caret


def _caret(source: str, line: int | None, column: int) -> str:
    """The offending line, cut to what a terminal shows, with a caret under the column."""
    lines = source.split("\n") if line else [source]
    text = lines[line - 1] if line and line <= len(lines) else lines[0]
    begin = max(0, column - _CONTEXT)
    shown = "".join(c if c.isprintable() else "�" for c in text[begin : column + _CONTEXT])
    return f"  {shown}\n  {' ' * (column - begin)}^"
