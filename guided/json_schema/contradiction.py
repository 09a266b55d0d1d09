"""Why a goal has no value: from an unsatisfiable goal to a sentence and a pointer; knows no bytes."""

from __future__ import annotations

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.formulas import Formula, Goal
from guided.json_schema.keywords import TYPES
from guided.json_schema.layout import ObjectLayout
from guided.json_schema.normal_form import NormalForm
from guided.json_schema.objects import ObjectShape


def find_contradiction(goal: Goal, normal_form: NormalForm) -> tuple[str, str]:
    """(message, pointer): the innermost place whose conditions contradict each other."""
    seen: set[Goal] = set()
    pointer, path = "", "the value"
    while goal not in seen:
        seen.add(goal)
        pointer = _pointer(goal, pointer)
        inner = _unsatisfiable_part(goal, normal_form)
        if inner is None:
            break
        path, goal = inner
    else:
        return (
            f"no value satisfies the schema: {path} would have to contain another value like it, without end",
            pointer,
        )
    empty = next((place for formula in goal.formulas for place in _empty_enums(formula)), None)
    if empty is not None:
        return f"no value satisfies the schema: the enum of {path} lists no value", f"{empty}/enum"
    return f"no value satisfies the schema: the conditions on {path} contradict each other", pointer


def _unsatisfiable_part(goal: Goal, normal_form: NormalForm) -> tuple[str, Goal] | None:
    """The first required property or item that has no value, where each alternative has one."""
    found = None
    for kind in TYPES:
        for shape in normal_form.alternatives(goal, kind):
            part = _part_of(shape, normal_form)
            if part is None:
                return None
            found = found or part
    return found


def _part_of(shape, normal_form: NormalForm) -> tuple[str, Goal] | None:
    if isinstance(shape, ObjectShape):
        layout = ObjectLayout(shape, normal_form)
        for name in shape.required:
            if not normal_form.satisfiable(layout.goal(name)):
                return f"the property {name!r}", layout.goal(name)
    if isinstance(shape, ArrayShape):
        for position in range(min(shape.min_items, shape.regular_from + 1)):
            goal = normal_form.formulas.goal(shape.formulas_at(position))
            if not normal_form.satisfiable(goal):
                return f"item {position}", goal
    return None


def _pointer(goal: Goal, default: str) -> str:
    """The place of the last formula of a goal that has one."""
    pointers = [pointer for formula in goal.formulas for pointer in _pointers(formula)]
    return pointers[-1] if pointers else default


def _pointers(formula: Formula) -> list[str]:
    if formula.kind in ("schema", "not"):
        return [formula.operands[0].pointer]
    return [pointer for part in formula.operands if isinstance(part, Formula) for pointer in _pointers(part)]


def _empty_enums(formula: Formula) -> list[str]:
    """Pointers of schemas that have to hold and whose `enum` is empty."""
    if formula.kind == "schema":
        node = formula.operands[0]
        return [node.pointer] if isinstance(node.schema, dict) and node.schema.get("enum") == [] else []
    return [place for part in formula.operands for place in _empty_enums(part)] if formula.kind == "and" else []
