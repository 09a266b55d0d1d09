"""Which keywords there are and what values they may have; knows no instance.

In goes a document, out come its schemas or a refusal: `reachable` walks everything that the root depends on, once, and refuses
values of the wrong type, references that lead nowhere and keywords that cannot be enforced, each with its pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from guided.errors import ConstraintError, InvalidConstraint, UnsupportedKeyword
from guided.json_schema.references import SUBSCHEMAS, Document, Node, escape, subschema_paths
from guided.limits import Budget
from guided.regex.parse import parse

TYPES: tuple[str, ...] = ("null", "boolean", "number", "string", "array", "object")


@lru_cache(maxsize=256)
def kinds_of(types: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Those of TYPES that a `type` allows, which has been checked."""
    names = (types,) if isinstance(types, str) else TYPES if types is None else types
    return tuple(kind for kind in TYPES if kind in names or (kind == "number" and "integer" in names))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value == int(value) and value >= 0


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_named_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(member, (dict, bool)) for member in value.values())


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and (name in TYPES or name == "integer") for name in names)


_TEXT = (lambda value: isinstance(value, str), "a string")
_NUMBER = (_is_number, "a number")
_COUNT = (_is_count, "a whole number that is not negative")
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_SCHEMA = (_is_schema, "a schema (an object or a boolean)")
_SCHEMA_LIST = (_is_schemas, "a list of schemas that is not empty")
_SCHEMA_MAP = (_is_named_schemas, "an object whose members are schemas")
_NAMES = (_is_names, "a list of strings")
_DEFINITIONS = (lambda value: isinstance(value, dict), "an object")

Check = tuple[Callable[[Any], bool], str]

EXPECTED: dict[str, Check] = {
    "type": (_is_type, "one of null, boolean, integer, number, string, array, object, or a list of these"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "const": (lambda value: True, ""),
    "pattern": _TEXT,
    "format": _TEXT,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": (
        lambda value: _is_number(value) or isinstance(value, bool),
        "a number (or, as in Draft 4, a boolean)",
    ),
    "exclusiveMaximum": (
        lambda value: _is_number(value) or isinstance(value, bool),
        "a number (or, as in Draft 4, a boolean)",
    ),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number greater than 0"),
    "items": (lambda value: _is_schema(value) or (isinstance(value, list) and all(map(_is_schema, value))), "a schema"),
    "prefixItems": _SCHEMA_LIST,
    "additionalItems": _SCHEMA,
    "unevaluatedItems": _SCHEMA,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _FLAG,
    "properties": _SCHEMA_MAP,
    "patternProperties": _SCHEMA_MAP,
    "additionalProperties": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": _NAMES,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "an object whose members are lists of strings",
    ),
    "dependentSchemas": _SCHEMA_MAP,
    "dependencies": (
        lambda value: (
            isinstance(value, dict) and all(_is_schema(member) or _is_names(member) for member in value.values())
        ),
        "an object whose members are schemas or lists of strings",
    ),
    "allOf": _SCHEMA_LIST,
    "anyOf": _SCHEMA_LIST,
    "oneOf": _SCHEMA_LIST,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "$ref": _TEXT,
    "$dynamicRef": _TEXT,
    "$recursiveRef": _TEXT,
    "$schema": _TEXT,
    "$id": _TEXT,
    "$anchor": _TEXT,
    "$dynamicAnchor": _TEXT,
    "$defs": _DEFINITIONS,
    "definitions": _DEFINITIONS,
}

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def reachable(document: Document, budget: Budget) -> Iterator[Node]:
    """The schema objects that the meaning of the root depends on, through references too: each once, and checked before the next.

    Raises:
        InvalidConstraint: a keyword has a value that it cannot have, or a reference leads nowhere.
        UnsupportedKeyword: something that is understood but cannot be enforced.
    """
    seen = {document.root}
    worklist = [document.root]
    while worklist:
        node = worklist.pop()
        if not isinstance(node.schema, dict):
            continue
        if len(seen) & 255 == 0:
            budget.check("reading the schema")
        _check_node(node, budget)
        for target in targets(node):
            if target not in seen:
                seen.add(target)
                worklist.append(target)
        yield node


def undeclared_names(nodes: Iterable[Node]) -> dict[str, int]:
    """Names that neither `properties` nor a fixed value has, but another keyword -> their place in the order of the document."""
    declared: set[str] = set()
    mentioned: dict[str, None] = {}
    for node in sorted(nodes, key=lambda node: node.number):
        declared.update(node.schema.get("properties", ()))
        for keyword in ("const", "enum"):
            if keyword in node.schema:
                declared.update(_names_in(node.schema[keyword]))
        for keyword in ("required", "dependencies", "dependentRequired", "dependentSchemas"):
            if keyword in node.schema:
                mentioned.update(dict.fromkeys(node.schema[keyword]))
    return {name: place for place, name in enumerate(mentioned) if name not in declared}


def _names_in(value: Any) -> Iterator[str]:
    """The names of all properties of a fixed value."""
    waiting = [value]
    while waiting:
        place = waiting.pop()
        if isinstance(place, dict):
            yield from place
            waiting.extend(place.values())
        elif isinstance(place, list):
            waiting.extend(member for member in place if isinstance(member, (dict, list)))


def targets(node: Node) -> list[Node]:
    """The nodes that the meaning of one depends on directly."""
    if not isinstance(node.schema, dict):
        return []
    found = [node.reference(keyword) for keyword in REFERENCES if keyword in node.schema]
    paths = (path for path in subschema_paths(node.schema) if path[0] not in ("$defs", "definitions"))
    return [*found, *(node.child(*path) for path in paths)]


def innermost_first(root: Node) -> list[Node]:
    """All nodes that the root depends on, each after those that it depends on itself, cycles aside; without recursion."""
    seen, found = {root}, []
    stack = [(root, iter(targets(root)))]
    while stack:
        node, waiting = stack[-1]
        following = next((target for target in waiting if target not in seen), None)
        if following is None:
            found.append(node)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(targets(following))))
    return found


def _check_node(node: Node, budget: Budget) -> None:
    """Refuses what is wrong with one schema object."""
    for keyword, value in node.schema.items():
        expected = EXPECTED.get(keyword)
        if expected is not None and not expected[0](value):
            raise InvalidConstraint(
                f"{keyword} must be {expected[1]}, not {_short(value)}", pointer=f"{node.pointer}/{keyword}"
            )
    _check_patterns(node, budget)
    _check_count(node)


def _check_count(node: Node) -> None:
    """Unknown names may repeat, so one of them at most counts towards `minProperties`."""
    schema = node.schema
    if "minProperties" not in schema:
        return
    listed = {*schema.get("properties", ()), *schema.get("required", ())}
    least = schema["minProperties"]
    if (
        max(1, len(listed) + 1) < least <= schema.get("maxProperties", least)
    ):  # otherwise there is no such object at all
        raise UnsupportedKeyword(
            "minProperties cannot be enforced beyond the properties that the schema lists and one more",
            keyword="minProperties",
            pointer=f"{node.pointer}/minProperties",
        )


def _check_patterns(node: Node, budget: Budget) -> None:
    """Refuses patterns that are no regular expressions, or none that can be enforced."""
    patterns = [("/pattern", node.schema["pattern"])] if "pattern" in node.schema else []
    patterns.extend((f"/patternProperties/{escape(text)}", text) for text in node.schema.get("patternProperties", ()))
    for place, text in patterns:
        try:
            parse(text, 0, "ecma", budget)
        except ConstraintError as error:
            error.pointer = node.pointer + place
            error.args = (error.describe(),)
            raise


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


assert set(SUBSCHEMAS) <= set(EXPECTED), "each keyword that holds schemas is checked"
