"""The normal form as text for people: a prepared schema goes in, one line a value comes out; knows no bytes.

    #0 = {"name" (required): string of 1 to 40 characters; "children": #1; no others} | null
    #1 = [0 or more of #0]

Objects and arrays have a number, under which they are written once, so a recursive schema has an end here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from json import dumps

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Formula, Goal
from guided.json_schema.keywords import TYPES
from guided.json_schema.layout import Cell, ObjectLayout
from guided.json_schema.literals import Literals
from guided.json_schema.names import NameTest
from guided.json_schema.normal_form import NormalForm, is_anything
from guided.json_schema.numbers import NumberShape
from guided.json_schema.objects import Atom, ObjectShape
from guided.json_schema.prepare import Prepared
from guided.json_schema.reading import Shape
from guided.json_schema.strings import StringShape

_SHOWN = 12  # words, numbers or conditions of one value


def describe(prepared: Prepared) -> Iterator[str]:
    """A line for each object or array that the schema knows, the whole document first; written as it is asked for."""
    text = _Text(prepared.normal_form, prepared.root)
    for goal in text.waiting:  # grows as places are described
        yield f"#{text.numbers[goal]} = {text.alternatives(goal)}"


class _Text:
    def __init__(self, normal_form: NormalForm, root: Goal) -> None:
        self.normal_form = normal_form
        self.numbers = {root: 0}
        self.waiting = [root]

    # --- values -----------------------------------------------------------------------------------------------------

    def value(self, goal: Goal) -> str:
        """A value in a place: written out if it is no container, by its number if it is."""
        if is_anything(goal, self.normal_form):
            return "anything"
        if not self.normal_form.satisfiable(goal):
            return "nothing"
        if not any(self._shapes(goal, kind) for kind in ("array", "object")):
            return self.alternatives(goal)
        if goal not in self.numbers:
            self.numbers[goal] = len(self.numbers)
            self.waiting.append(goal)
        return f"#{self.numbers[goal]}"

    def alternatives(self, goal: Goal) -> str:
        """Everything that a goal allows."""
        shapes = (shape for kind in TYPES for shape in self._shapes(goal, kind))
        return " | ".join(dict.fromkeys(map(self._shape, shapes)))

    def _shapes(self, goal: Goal, kind: str) -> list[Shape]:
        return [shape for shape in self.normal_form.alternatives(goal, kind) if self.normal_form.has_value(shape)]

    def _shape(self, shape: Shape) -> str:
        match shape:
            case Literals():
                return " | ".join(dumps(value) for value in sorted(shape.values, key=str))
            case NumberShape():
                return _number(shape)
            case StringShape():
                return _string(shape)
            case ArrayShape():
                return f"[{self._array(shape)}]"
            case ObjectShape():
                return f"{{{self._object(shape)}}}"

    # --- containers -------------------------------------------------------------------------------------------------

    def _array(self, shape: ArrayShape) -> str:
        goal = self.normal_form.formulas.goal
        fixed = [self.value(goal(shape.formulas_at(position))) for position in range(min(shape.regular_from, _SHOWN))]
        parts = [", ".join(fixed)] if fixed else []
        if shape.max_items is None or shape.max_items > shape.regular_from:
            low = max(0, shape.min_items - shape.regular_from)
            high = None if shape.max_items is None else shape.max_items - shape.regular_from
            parts.append(f"{_amount(low, high)} of {self.value(goal(shape.formulas_at(shape.regular_from)))}")
        if fixed and shape.min_items < shape.regular_from:
            parts.append(f"at least {shape.min_items} of these")
        for count in shape.counts:
            parts.append(f"{_amount(count.least, count.most)} of them {self._condition(count.formula)}")
        return "; ".join([*parts, *(["no two equal"] if shape.unique else [])])

    def _object(self, shape: ObjectShape) -> str:
        layout = ObjectLayout(shape, self.normal_form)
        parts = [
            f"{dumps(name, ensure_ascii=False)}{' (required)' if name in shape.required else ''}: {value}"
            for name in layout.known
            if (value := self.value(layout.goal(name))) != "nothing"
        ]
        cells = () if layout.closed else layout.cells
        parts.extend(f"{self._names(cell)}: {self.value(cell.goal)}" for cell in cells)
        if not cells:
            parts.append("no others" if parts else "nothing")
        if shape.min_count or shape.max_count is not None:
            parts.append(f"{_amount(shape.min_count, shape.max_count)} properties")
        parts.extend(" or ".join(sorted(map(self._atom, clause))) for clause in islice(shape.clauses, _SHOWN))
        return "; ".join(parts)

    def _names(self, cell: Cell) -> str:
        if not cell.tests:
            return "other properties"
        tests = [f"{'' if answer else 'not '}{self._test(test)}" for test, answer in cell.tests]
        return f"properties {' and '.join(tests)}"

    def _test(self, test: NameTest) -> str:
        return self._condition(test) if isinstance(test, Formula) else f"matching {test}"

    def _atom(self, atom: Atom) -> str:
        name = dumps(atom.name) if atom.name is not None else "some property"
        match atom.kind:
            case "lacks":
                return f"no {name}"
            case "fewer":
                return f"fewer than {atom.bound} properties"
            case "more":
                return f"more than {atom.bound} properties"
        assert atom.formula is not None
        verb = "each" if atom.kind == "each" and atom.name is None else "with"
        return f"{verb} {name} {self._condition(atom.formula)}"

    def _condition(self, formula: Formula) -> str:
        return f"being {self.value(self.normal_form.formulas.goal([formula]))}"


def _amount(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def _string(shape: StringShape) -> str:
    if shape.words is not None:
        words = sorted(shape.words)
        more = f" | … {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
        return " | ".join(dumps(word, ensure_ascii=False) for word in words[:_SHOWN]) + more
    parts = [
        f"{'' if positive else 'not '}{'matching' if kind == 'pattern' else 'a'} {text}"
        for kind, text, positive in sorted(shape.tests)
    ]
    if shape.min_length or shape.max_length is not None:
        parts.insert(0, f"of {_amount(shape.min_length, shape.max_length)} characters")
    if shape.excluded:
        parts.append(f"none of {', '.join(dumps(word) for word in sorted(shape.excluded)[:_SHOWN])}")
    return " ".join(["string", ", ".join(parts)]) if parts else "string"


def _number(shape: NumberShape) -> str:
    if shape.values is not None:
        return " | ".join(map(_decimal, sorted(shape.values)[:_SHOWN]))
    is_integer = shape.step is not None and shape.step.denominator == 1
    parts = ["integer" if is_integer else "number"]
    if shape.low is not None:
        parts.append(f"{'>' if shape.low_open else '>='} {_decimal(shape.low)}")
    if shape.high is not None:
        parts.append(f"{'<' if shape.high_open else '<='} {_decimal(shape.high)}")
    if shape.step not in (None, 1):
        parts.append(f"multiple of {_decimal(shape.step)}")
    parts.extend(f"no multiple of {_decimal(step)}" for step in sorted(shape.off_steps))
    if shape.excluded:
        parts.append(f"not {', '.join(map(_decimal, sorted(shape.excluded)[:_SHOWN]))}")
    return " ".join(parts)


def _decimal(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))
