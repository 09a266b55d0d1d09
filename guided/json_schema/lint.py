"""What experience teaches about schemas for language models: a prepared schema goes in, warnings with pointers come out; knows no bytes.

Nothing here makes a schema wrong: each warning names a place where a model that keeps to the schema is likely to do badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guided.constraint import Constraint
from guided.json_schema.formats import KNOWN
from guided.json_schema.keywords import EXPECTED, TYPES
from guided.json_schema.literals import Literals
from guided.json_schema.normal_form import NormalForm
from guided.json_schema.numbers import NumberShape
from guided.json_schema.prepare import Prepared, prepare
from guided.json_schema.reading import Shape
from guided.json_schema.references import ANNOTATIONS, Node, escape
from guided.json_schema.strings import StringShape
from guided.limits import Budget


@dataclass(frozen=True, slots=True)
class LintWarning:
    """One piece of advice.

    Attributes:
        code: stable, for machines: "unknown-keyword", "annotation", "format-annotation", "enum-of-one", "no-unknown", "optional",
            "late-reasoning".
        pointer: JSON pointer to the place in the schema ("" is the root).
        message: one or two sentences for people.
    """

    code: str
    pointer: str
    message: str


# What a model writes where it does not know; an enum that has one of these has a way to say so.
_UNKNOWN = re.compile(
    r"(unknown|none|null|n/?a|other|unclear|undefined|undetermined|unsure|uncertain|missing|"
    r"(not|un)[ _-]?(known|specified|applicable|available|given|stated|sure|mentioned|provided|determined|found))?",
    re.IGNORECASE,
)
_REASONING = re.compile(
    r"(.*[_-])?(reason(ing|s)?|rationale|explanation|thoughts?|thinking|analysis|justification|chain_?of_?thought|"
    r"scratchpad|deliberation)",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"((final|is|has|the)[_-].*|(.*[_-])?(answer|result|conclusion|decision|verdict|label|category|class|classification|"
    r"score|rating|grade|sentiment|prediction|choice|severity|priority|output))",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNENFORCED = {"contentEncoding", "contentMediaType", "contentSchema"}
_CONDITION = re.compile(r"/(not|if)(/|$)")  # a place that is tested and never generated
_SHOWN = 5  # names in one message


def lint(schema: Any, **options: str) -> list[LintWarning]:
    """Warnings in the order of the schema's text.

    Args:
        schema, options: as `Constraint.json_schema` takes them.

    Raises:
        ConstraintError: the schema is refused.
    """
    constraint = Constraint.json_schema(schema, **options)
    return warnings_of(prepare(constraint.value, constraint.options, Budget()), constraint.options)


def warnings_of(prepared: Prepared, options: Mapping[str, str]) -> list[LintWarning]:
    """As `lint`, of a schema that has been read. In any order of properties none leads another."""
    checks = [_unknown_keywords, _annotations, _enums_of_one, _no_unknown, _optional]
    if options.get("property_order", "schema") == "schema":
        checks.append(_late_reasoning)
    found: dict[LintWarning, None] = {}
    for node in sorted(prepared.nodes, key=lambda node: node.number):
        for check in checks:
            found.update(dict.fromkeys(check(node, prepared.normal_form)))
    return list(found)


def _unknown_keywords(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    for keyword in node.schema:
        if keyword not in EXPECTED and keyword not in ANNOTATIONS and not keyword.startswith("x-"):
            yield _warning(
                "unknown-keyword", node, [keyword], f"{keyword!r} is no keyword of JSON Schema: it is not enforced."
            )


def _annotations(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    name = node.schema.get("format")
    if name is not None and name not in KNOWN:
        message = (
            f"The format {name!r} is none of the standard's: it is an annotation and not enforced. A pattern would be."
        )
        yield _warning("format-annotation", node, ["format"], message)
    for keyword in _UNENFORCED & set(node.schema):
        yield _warning(
            "annotation", node, [keyword], f"{keyword} is an annotation in the standard: it is not enforced."
        )


def _enums_of_one(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    if len(node.schema.get("enum", ())) == 1:
        message = (
            "An enum of one leaves no choice: write const, or leave the property out and add it to the answer yourself."
        )
        yield _warning("enum-of-one", node, ["enum"], message)


def _no_unknown(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    properties = node.schema.get("properties", {})
    if _CONDITION.search(node.pointer):
        return
    for name in node.schema.get("required", ()):
        if name in properties and not _may_be_unknown(node.child("properties", name), normal_form):
            message = (
                f"{name!r} is required and has no way to say that it is not known, so a model must make something up. "
                'Allow null, or a member such as "unknown".'
            )
            yield _warning("no-unknown", node, ["properties", name], message)


def _may_be_unknown(node: Node, normal_form: NormalForm) -> bool:
    """Can a value say that nothing is known, or is there nothing to know, since there is one value only?"""
    goal = normal_form.formulas.goal([normal_form.formulas.schema(node)])
    shapes = [shape for kind in TYPES for shape in normal_form.alternatives(goal, kind)]
    return (len(shapes) == 1 and _is_single(shapes[0])) or any(map(_says_unknown, shapes))


def _is_single(shape: Shape) -> bool:
    match shape:
        case StringShape():
            return shape.words is not None and len(shape.words) == 1
        case NumberShape() | Literals():
            return shape.values is not None and len(shape.values) == 1
    return False


def _says_unknown(shape: Shape) -> bool:
    match shape:
        case Literals():
            return None in shape.values
        case NumberShape():
            return False
        case StringShape(words=None):
            return not shape.tests and (shape.max_length is None or shape.max_length >= len("none"))
        case StringShape():
            return any(_UNKNOWN.fullmatch(word) for word in shape.words or ())
    return True  # an empty array or object, or what its own properties say


def _optional(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    required = set(node.schema.get("required", ()))
    names = [name for name in node.schema.get("properties", {}) if name not in required]
    if names and not _CONDITION.search(node.pointer):
        message = (
            f"Small models skip optional properties ({_listed(names)}). To have them, require them and allow null."
        )
        yield _warning("optional", node, ["properties"], message)


def _late_reasoning(node: Node, normal_form: NormalForm) -> Iterator[LintWarning]:
    answers: list[str] = []
    for name in node.schema.get("properties", {}):
        words = _CAMEL.sub("_", name)
        if _REASONING.fullmatch(words) and answers:
            message = (
                f"{name!r} comes after {_listed(answers)}: the answer is written before the reasoning that should lead to it. "
                "List the reasoning first."
            )
            yield _warning("late-reasoning", node, ["properties", name], message)
        elif _ANSWER.fullmatch(words):
            answers.append(name)


def _warning(code: str, node: Node, path: list[str], message: str) -> LintWarning:
    return LintWarning(code, "/".join([node.pointer, *map(escape, path)]), message)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
