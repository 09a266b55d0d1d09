"""A quick way to the end of a half-written object, without search: one property for each clause, if none is in another's way.

From a state of an object's progress to "yes" or "perhaps not"; who needs to know searches then.
"""

from __future__ import annotations

from collections.abc import Callable

from guided.json_schema.formulas import Formula, Goal
from guided.json_schema.objects import Atom
from guided.json_schema.progress import ObjectProgress, ObjectState, bits

Judge = Callable[[Goal], bool]


def plainly_ends(progress: ObjectProgress, state: ObjectState, has_value: Judge) -> bool:
    """Can the object be completed by the required properties, one more for each clause, and the next ones for the number that is needed?

    False: not in this way.
    """
    return _Plan(progress, state, has_value).complete()


class _Plan:
    """The properties that are to be written, chosen clause by clause."""

    def __init__(self, progress: ObjectProgress, state: ObjectState, has_value: Judge) -> None:
        self.progress = progress
        self.state = state
        self.has_value = has_value
        self.layout = progress.layout
        self.chosen: dict[str, list[Formula]] = {}  # name -> more conditions on its value
        self.avoided: set[str] = set()
        self.unknown = 0
        self.bounds: list[Atom] = []  # "fewer" atoms that were relied on

    def complete(self) -> bool:
        for name in self.progress.required_names(self.state):
            self.chosen[name] = []
        for clause in self.state.clauses:
            if not any(self._meets(atom) for atom in sorted(clause, key=_ease)):
                return False
        self._fill_up()
        return self._counts_fit()

    def _fill_up(self) -> None:
        """Takes more properties into the plan, the next ones that have values, where a number of them is needed."""
        missing = self.progress.shape.min_count - self.state.count - len(self.chosen)
        for position in bits(self.state.left):
            if missing <= 0:
                return
            name = self.progress.names[position]
            if name not in self.chosen and name not in self.avoided and self.has_value(self.layout.goal(name)):
                self.chosen[name] = []
                missing -= 1

    def _counts_fit(self) -> bool:
        total = self.state.total + len(self.chosen) + self.unknown
        shape = self.progress.shape
        if (shape.max_count is not None and total > shape.max_count) or any(
            total >= atom.bound for atom in self.bounds
        ):
            return False
        return self.state.count + len(self.chosen) >= shape.min_count

    def _meets(self, atom: Atom) -> bool:
        """Takes the property that satisfies the atom into the plan, if that is possible."""
        match atom.kind:
            case "lacks":
                if atom.name in self.chosen:
                    return False
                self.avoided.add(atom.name or "")
                return True
            case "fewer":
                self.bounds.append(atom)
                return self.state.total + len(self.chosen) + self.unknown < atom.bound
            case "some" if atom.formula is not None:
                return self._known(atom, atom.formula) or self._unknown(atom, atom.formula)
        return False

    def _known(self, atom: Atom, formula: Formula) -> bool:
        """A known name under which the formula is satisfied."""
        candidates = [atom.name] if atom.name is not None else list(self.chosen)
        for name in candidates:
            if name in self.avoided or not self.progress.may_write(self.state, name):
                continue
            if atom.names is not None and not self.layout.contains(atom.names, name):
                continue
            more = [*self.chosen.get(name, ()), formula]
            if self.has_value(self.progress.normal_form.formulas.goal((*self.layout.goal(name).formulas, *more))):
                self.chosen[name] = more
                return True
        return False

    def _unknown(self, atom: Atom, formula: Formula) -> bool:
        """An unknown name under which the formula is satisfied; only where there are infinitely many."""
        if (
            atom.names is None
            or self.layout.closed
            or self.state.sealed
            or self.unknown
            or self.progress.shape.max_count is not None
        ):
            return False  # one unknown property at most meets clauses: after it there are no others
        position = self.layout.name_sets.index(atom.names)
        for cell in self.layout.cells:
            if (
                cell.memberships[position]
                and self.progress.normal_form.names.satisfying(cell.tests).max_length() is None
            ):
                goal = self.progress.normal_form.formulas.goal((*cell.goal.formulas, formula))
                if self.has_value(goal):
                    self.unknown += 1
                    return True
        return False


def _ease(atom: Atom) -> int:
    """Atoms that cost nothing first."""
    return ("lacks", "some", "fewer", "each", "more").index(atom.kind)
