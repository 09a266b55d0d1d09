"""In: a client's JSON Schema; out: the schema that is really checked, with its validator, or a refusal with a JSON pointer.

`jsonschema` ignores what it does not know. Here that is refused: unknown keywords and formats, references that lead nowhere or
elsewhere. Objects that list their properties and say no more are closed, as this project's own engine reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import regex
from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.validators import extend, validator_for

from server.errors import RequestRefused

PATTERN_SECONDS = 0.5
ONE = ("additionalProperties", "unevaluatedProperties", "items", "contains", "propertyNames", "unevaluatedItems")
ONE_IN_PLACE = ("not", "if", "then", "else")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAPS = ("properties", "$defs", "definitions", "dependentSchemas")
# They say of one object in several places what its members may be: what is listed in one is not all.
NOT_CLOSED = ("allOf", "not", "if", "then", "else", "dependentSchemas")
UNCHECKED = ("patternProperties", "$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor", "dependencies")
ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$defs",
    }
    | {"definitions", "then", "else", "minContains", "maxContains"}
)
FORMATS = FormatChecker()


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or ("T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None)


def checked(schema: Any, field: str, *, closed: bool) -> Any:
    """The schema that answers are checked by. Takes as long as the schema wants.

    Args:
        field: the request field it came in, for the refusals.
        closed: objects that list `properties` get only these where the schema is silent.

    Raises:
        RequestRefused: no schema, or one with something in it that would not be checked.
    """
    standard = validator_for(schema, default=Draft202012Validator)
    try:
        standard.check_schema(schema)
        return _Reader(schema, field, standard, closed).read(schema, "")
    except SchemaError as error:
        pointer = "".join(f"/{_escaped(step)}" for step in error.absolute_path)
        raise RequestRefused(f"{field}: {error.message}", "invalid_constraint", f"{field}#{pointer}") from error
    except RecursionError as error:
        raise RequestRefused(f"{field} is nested too deeply", "constraint_too_complex", field) from error


def problem(prepared: Any, answer: Any) -> str | None:
    """Why the answer does not satisfy a schema that `checked` returned, and where; None where it does. Takes as long as both want."""
    standard = validator_for(prepared, default=Draft202012Validator)
    try:
        extend(standard, {"pattern": _pattern})(prepared, format_checker=FORMATS).validate(answer)
    except ValidationError as error:
        return f"{error.json_path}: {error.message}"[:500]
    except (TimeoutError, RecursionError):
        return "the answer takes too long to check"
    return None


class _Reader:
    """One pass over a schema: refuses what would not be checked, and closes objects."""

    def __init__(self, root: Any, field: str, standard: Any, closed: bool) -> None:
        self.root, self.field, self.closed = root, field, closed
        self.known = standard.VALIDATORS.keys() | ANNOTATIONS
        self.knows_unevaluated = "unevaluatedProperties" in standard.VALIDATORS

    def read(self, schema: Any, pointer: str) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        self._refuse(schema, pointer)
        prepared = dict(schema)
        for key in (*ONE, *ONE_IN_PLACE):
            if key in schema:
                prepared[key] = self.read(schema[key], f"{pointer}/{key}")
        for key in LISTS:
            if isinstance(schema.get(key), list):
                prepared[key] = [self.read(item, f"{pointer}/{key}/{i}") for i, item in enumerate(schema[key])]
        for key in MAPS:
            if isinstance(schema.get(key), Mapping):
                prepared[key] = {n: self.read(s, f"{pointer}/{key}/{_escaped(n)}") for n, s in schema[key].items()}
        if (
            self.closed
            and "properties" in schema
            and not {"additionalProperties", "unevaluatedProperties"} & schema.keys()
        ):
            beside = sorted({"anyOf", "oneOf", "$ref"} & schema.keys())
            if beside and not self.knows_unevaluated:
                raise self._unsupported(
                    f"{pointer}/{beside[0]}", "beside properties needs JSON Schema 2019-09 or later"
                )
            prepared["unevaluatedProperties" if beside else "additionalProperties"] = False
        return prepared

    def _refuse(self, schema: Mapping[str, Any], pointer: str) -> None:
        for key in schema:
            place = f"{pointer}/{_escaped(key)}"
            if key in UNCHECKED or key not in self.known:
                raise self._unsupported(place, "is not checked on Bedrock")
            if self.closed and key in NOT_CLOSED:
                raise self._unsupported(place, 'needs guided_options {"additional_properties": "allow"} on Bedrock')
        if "$ref" in schema and not self._leads_somewhere(schema["$ref"]):
            raise self._unsupported(f"{pointer}/$ref", "is no reference to one of the schema's own definitions")
        if "format" in schema and schema["format"] not in FORMATS.checkers:
            raise self._unsupported(f"{pointer}/format", f"{schema['format']!r} is not checked on Bedrock")
        if "pattern" in schema:
            try:
                regex.compile(schema["pattern"])
            except regex.error as error:
                where = f"{self.field}#{pointer}/pattern"
                raise RequestRefused(
                    f"{self.field}: {pointer}/pattern: {error}", "invalid_constraint", where
                ) from error

    def _leads_somewhere(self, reference: Any) -> bool:
        kind, _, name = str(reference).removeprefix("#/").partition("/")
        definitions = (
            self.root.get(kind) if isinstance(self.root, Mapping) and kind in ("$defs", "definitions") else None
        )
        unescaped = name.replace("~1", "/").replace("~0", "~")
        return str(reference).startswith("#/") and isinstance(definitions, Mapping) and unescaped in definitions

    def _unsupported(self, pointer: str, reason: str) -> RequestRefused:
        return RequestRefused(f"{self.field}: {pointer} {reason}", "unsupported_keyword", f"{self.field}#{pointer}")


def _escaped(step: object) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Any:
    """`pattern`, but bounded in time: a client's expression must not hold up other requests. Raises TimeoutError."""
    if isinstance(instance, str) and not regex.search(pattern, instance, timeout=PATTERN_SECONDS):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")
