"""Is there any value of this shape at all? Knows no bytes; asks the normal form about the goals of the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.json_schema.arrays import ArrayShape
from guided.json_schema.completion import plainly_ends
from guided.json_schema.layout import ObjectLayout
from guided.json_schema.objects import ObjectShape
from guided.json_schema.progress import ArrayProgress, ObjectProgress, reaches_end
from guided.json_schema.unique import can_fill, values_of

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm


def array_has_value(shape: ArrayShape, normal_form: NormalForm) -> bool:
    """Can enough items be written?"""
    progress = ArrayProgress(shape, normal_form)
    if shape.counts:
        return reaches_end(progress, progress.start, normal_form.satisfiable)
    goal = normal_form.formulas.goal
    if shape.unique and shape.min_items > 1:
        goals = [goal(shape.formulas_at(position)) for position in range(shape.min_items)]
        return all(map(normal_form.satisfiable, goals)) and can_fill(
            goals, frozenset(), lambda goal: values_of(goal, normal_form)
        )
    positions = range(min(shape.min_items, shape.regular_from + 1))
    return all(normal_form.satisfiable(goal(shape.formulas_at(position))) for position in positions)


def object_has_value(shape: ObjectShape, normal_form: NormalForm) -> bool:
    """Can all required properties be written, and enough of them, and the clauses be met?"""
    layout = ObjectLayout(shape, normal_form)
    if not all(normal_form.satisfiable(layout.goal(name)) for name in shape.required):
        return False
    if not shape.clauses and shape.min_count <= len(shape.required):
        return True
    progress = ObjectProgress(shape, normal_form)
    if plainly_ends(progress, progress.start, normal_form.satisfiable):
        return True
    return reaches_end(progress, progress.start, normal_form.satisfiable)
