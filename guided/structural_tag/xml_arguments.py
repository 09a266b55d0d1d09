"""A schema of arguments in, the tags in which some models write them out: one tag for each property, strings without quotes.

The properties stand in the order of the schema, each at most once, the required ones always. Only what a list of properties says
can be told apart in this form: other keywords of objects are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guided.errors import InvalidConstraint, UnsupportedKeyword
from guided.structural_tag.formats import Either, Exactly, Format, Inner, Repeat, Sequence, Tag

_NOTES = ("title", "description", "$schema", "$id", "$comment", "default", "examples", "deprecated")
_TABLES = ("$defs", "definitions")
_KNOWN = (*_NOTES, *_TABLES, "type", "properties", "required", "additionalProperties")
_NOT_STRINGS = ["null", "boolean", "number", "array", "object"]


@dataclass(frozen=True, slots=True)
class Style:
    """How one property is written.

    Attributes:
        begin: with {name}, and with {string} where the tag says whether the value is a string ("true" | "false").
        between: what stands between the name and the value beside whitespace.
    """

    begin: str
    end: str
    between: str = ""


STYLES = {
    "qwen_xml": Style("<parameter={name}>", "</parameter>"),
    "minimax_xml": Style('<parameter name="{name}">', "</parameter>"),
    "glm_xml": Style("<arg_key>{name}</arg_key>", "</arg_value>", "<arg_value>"),
    "deepseek_xml": Style('<｜DSML｜parameter name="{name}" string="{string}">', "</｜DSML｜parameter>"),
    "deepseek_v4_1_xml": Style('<｜DSML｜ parameter name="{name}" string="{string}">', "</｜DSML｜ parameter>"),
}


def xml_arguments(inner: Inner, style: Style) -> Format:
    """The tags of all properties of an object.

    Raises:
        InvalidConstraint: the schema is malformed.
        UnsupportedKeyword: it has a keyword beside `properties` and `required` that says something, or allows any order.
    """
    schema = {} if inner.value is True else inner.value
    _check(schema, inner)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    for name in required:
        if name not in properties:
            raise UnsupportedKeyword(
                f"{name!r} is required, and no property of the schema",
                keyword="required",
                pointer=f"{inner.pointer}/required",
            )
    space = _space(inner.pointer)
    elements: list[Format] = [space]
    for name, value in properties.items():
        tags = Sequence((Either(tuple(_property(name, value, schema, inner, style))), space))
        elements.append(tags if name in required else Repeat(tags, 0, 1))
    return Sequence(tuple(elements))


def _check(schema: Any, inner: Inner) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidConstraint("arguments need the schema of an object", pointer=inner.pointer)
    if ("property_order", "any") in inner.options:
        raise UnsupportedKeyword("any_order is not enforced in this style", keyword="any_order", pointer=inner.pointer)
    for keyword in schema:
        if keyword not in _KNOWN:
            raise UnsupportedKeyword(
                f"{keyword} is not enforced in this style", keyword=keyword, pointer=f"{inner.pointer}/{keyword}"
            )
    if schema.get("type", "object") != "object":
        raise UnsupportedKeyword("arguments are an object", keyword="type", pointer=f"{inner.pointer}/type")
    if not isinstance(schema.get("properties", {}), Mapping):
        raise InvalidConstraint("must be an object", pointer=f"{inner.pointer}/properties")
    if not isinstance(schema.get("required", []), list):
        raise InvalidConstraint("must be a list", pointer=f"{inner.pointer}/required")


def _space(pointer: str) -> Inner:
    return Inner("regex", r"[ \n]{0,2}", pointer)


def _property(name: str, value: Any, schema: Mapping[str, Any], inner: Inner, style: Style) -> Iterator[Format]:
    """A tag for values that are strings and one for the others; which of them there are shows when they are built."""
    pointer = f"{inner.pointer}/properties/{name.replace('~', '~0').replace('/', '~1')}"
    tables = {table: schema[table] for table in _TABLES if table in schema}
    for kind, types, string in (("text", ["string"], "true"), ("json", _NOT_STRINGS, "false")):
        narrowed = {"allOf": [value, {"type": types}], **tables}
        content: Format = Inner(kind, narrowed, pointer, inner.options, narrowed=True)
        if kind == "json":
            content = Sequence((_space(pointer), content, _space(pointer)))
        if style.between:
            content = Sequence((_space(pointer), Exactly(style.between), content))
        yield Tag(style.begin.format(name=name, string=string), content, (style.end,))
