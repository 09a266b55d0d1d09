"""Arrays and objects half written: what may come next, what is then left to do, and whether there is a way to the end.

From shapes to steps: a state says how far the container is, a step is one more item or property with the goal of its value. A
disjunction whose members speak of different properties is carried along until one of them is met, so that negations of
object schemas need no case for each property. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from guided.json_schema.arrays import ArrayShape, Count
from guided.json_schema.formulas import Formula, Goal
from guided.json_schema.layout import Cell, ObjectLayout
from guided.json_schema.objects import Atom, Clause, ObjectShape

if TYPE_CHECKING:
    from guided.json_schema.normal_form import NormalForm

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class ArrayState:
    """position: items written, capped where more make no difference; counts: matches so far per `Count`, capped too."""

    position: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ObjectState:
    """How far an object is. Unknown names may repeat, and a parser keeps the last value of a repeated name.

    Attributes:
        left: bit i = known name i may still be written.
        count: known properties so far, and one if there are unknown ones; capped.
        clauses: still to be met.
        repeats: unknown properties after the first, where there is an upper bound.
        seen: an unknown property was written (told apart only where properties are counted).
        sealed: no more unknown ones, since the last of them met a clause that a repetition might undo.
    """

    left: int
    count: int
    clauses: tuple[Clause, ...]
    repeats: int = 0
    seen: bool = False
    sealed: bool = False
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)  # states are looked up over and over

    @property
    def total(self) -> int:
        """Properties written, repeated names counted each time."""
        return self.count + self.repeats

    def after(self, left: int, count: int, clauses: tuple[Clause, ...]) -> ObjectState:
        """The state with other values of these; `dataclasses.replace` takes ten times as long, for each property of each state."""
        return ObjectState(left, count, clauses, self.repeats, self.seen, self.sealed)

    def __hash__(self) -> int:
        if self._hash is None:
            # Python takes an int modulo 2^61 - 1, for which runs of ones of any length have 61 hashes between them. Modulo this prime
            # the powers of two are all different, and it is one digit of Python's, by which it divides thousands of bits soonest.
            values = self.left % 0x3FFFFFDD, self.count, self.clauses, self.repeats, self.seen, self.sealed
            object.__setattr__(self, "_hash", hash(values))
        assert self._hash is not None
        return self._hash


@dataclass(frozen=True, slots=True)
class Step(Generic[State]):
    """One more item or property.

    Attributes:
        name: position of the known name, or the cell of unknown names, or None in an array.
        goal: what the value satisfies.
        following: the state after it.
    """

    name: int | Cell | None
    goal: Goal
    following: State


class Progress(Protocol[State]):
    """How a container is written, member by member."""

    start: State

    def may_end(self, state: State) -> bool:
        """Is the container complete?"""

    def steps(self, state: State) -> Iterator[Step[State]]:
        """What the next member may be; goals may turn out to have no value."""


class ArrayProgress:
    """The steps of one array shape."""

    def __init__(self, shape: ArrayShape, normal_form: NormalForm) -> None:
        self.shape = shape
        self.normal_form = normal_form
        self.start = ArrayState(0, (0,) * len(shape.counts))
        self._last_position = max(shape.regular_from, shape.min_items) if shape.max_items is None else shape.max_items

    def may_end(self, state: ArrayState) -> bool:
        enough = all(done >= count.least for count, done in zip(self.shape.counts, state.counts, strict=True))
        return enough and state.position >= self.shape.min_items

    def steps(self, state: ArrayState) -> Iterator[Step[ArrayState]]:
        """What the next item may be; goals may turn out to have no value."""
        shape, position = self.shape, state.position
        if shape.max_items is not None and position >= shape.max_items:
            return
        formulas = shape.formulas_at(position)
        following = min(position + 1, self._last_position)
        choices = [self._choices(count, done, position) for count, done in zip(shape.counts, state.counts, strict=True)]
        for choice in product(*choices):
            extra = [formula for _, formula in choice if formula is not None]
            goal = self.normal_form.formulas.goal([*formulas, *extra])
            yield Step(None, goal, ArrayState(following, tuple(done for done, _ in choice)))

    def _choices(self, count: Count, done: int, position: int) -> list[tuple[int, Formula | None]]:
        """(matches after the item, condition on the item): the item counts, or it does not."""
        if position < count.first or (count.most is None and done >= count.least):
            return [(done, None)]
        if count.most is None:
            return [(done + 1, count.formula), (done, None)]
        fails = (done, self.normal_form.formulas.negation(count.formula))
        return [fails] if done >= count.most else [(done + 1, count.formula), fails]


class ObjectProgress:
    """The steps of one object shape, in schema order or in any order."""

    def __init__(self, shape: ObjectShape, normal_form: NormalForm, any_order: bool = False) -> None:
        self.shape = shape
        self.normal_form = normal_form
        self.any_order = any_order
        self.layout = ObjectLayout(shape, normal_form)
        self.names = self.layout.known
        self.positions = {name: position for position, name in enumerate(self.names)}
        self.required = sum(1 << position for position, name in enumerate(self.names) if name in shape.required)
        bounds = [atom.bound for clause in shape.clauses for atom in clause if atom.kind in ("fewer", "more")]
        self._most_count = (
            max([shape.min_count, *(bound + 1 for bound in bounds)]) if shape.max_count is None else shape.max_count
        )
        self._counts = shape.min_count > 0 or shape.max_count is not None or bool(bounds)
        self.start = ObjectState((1 << len(self.names)) - 1, 0, shape.clauses)

    def required_names(self, state: ObjectState) -> list[str]:
        """Required names that are still to be written."""
        return [self.names[position] for position in bits(self.required & state.left)]

    def may_write(self, state: ObjectState, name: str) -> bool:
        """Is the name one that may still be written?"""
        return bool(state.left >> self.positions[name] & 1)

    @property
    def is_plain(self) -> bool:
        """Nothing is counted and nothing carried along."""
        return (
            not self.shape.clauses and self.shape.max_count is None and self.shape.min_count <= len(self.shape.required)
        )

    def may_end(self, state: ObjectState) -> bool:
        if state.left & self.required or state.count < self.shape.min_count:
            return False
        return all(any(self._holds_at_end(atom, state) for atom in clause) for clause in state.clauses)

    @staticmethod
    def _holds_at_end(atom: Atom, state: ObjectState) -> bool:
        match atom.kind:
            case "fewer":
                return state.total < atom.bound
            case "more":
                return state.count > atom.bound
        return atom.kind in ("lacks", "each")

    def steps(self, state: ObjectState) -> Iterator[Step[ObjectState]]:
        """What the next property may be; goals may turn out to have no value."""
        if self.shape.max_count is not None and state.total >= self.shape.max_count:
            return
        yield from self.known_steps(state)
        yield from self.unknown_steps(state)

    def first_steps(self, state: ObjectState) -> Iterator[Step[ObjectState]]:
        """In schema order and of a plain shape: the steps that do not pass over a property."""
        if state.left:
            bit = state.left & -state.left
            following = state.after(state.left ^ bit, min(state.count + 1, self._most_count), state.clauses)
            return self._named_steps(bit.bit_length() - 1, following)
        return self.unknown_steps(state)

    def passed_over(self, state: ObjectState) -> ObjectState | None:
        """In schema order and of a plain shape: the state without the first property that is left, if it may be missing."""
        bit = state.left & -state.left
        return None if not bit or bit & self.required else state.after(state.left ^ bit, state.count, state.clauses)

    def known_steps(self, state: ObjectState) -> Iterator[Step[ObjectState]]:
        clauses, left, count = state.clauses, state.left, min(state.count + 1, self._most_count)
        for position in bits(left):
            bit = 1 << position
            yield from self._named_steps(position, state.after(left ^ bit, count, clauses))
            if not self.any_order:  # the name is passed over
                if bit & self.required:
                    return
                left ^= bit
                clauses = self._passed_over(clauses, self.names[position])

    def unknown_steps(self, state: ObjectState) -> Iterator[Step[ObjectState]]:
        if self.layout.closed or state.sealed or (state.left & self.required and not self.any_order):
            return
        clauses, left = state.clauses, state.left
        if not self.any_order:
            for position in bits(left):
                clauses = self._passed_over(clauses, self.names[position])
            left = 0
        first = not (self._counts and state.seen)
        count = min(state.count + 1, self._most_count) if first else state.count
        repeats = state.repeats + (not first and self.shape.max_count is not None)
        for cell in self.layout.cells:
            inside = dict(zip(self.layout.name_sets, cell.memberships, strict=True))
            concerns = lambda atom, inside=inside: atom.names is not None and inside[atom.names]  # noqa: E731
            for remaining, extra, met in self._clause_choices(clauses, (count, count + repeats), concerns, None):
                goal = self.normal_form.formulas.goal((*cell.goal.formulas, *extra))
                yield Step(cell, goal, ObjectState(left, count, remaining, repeats, self._counts, met))

    def _named_steps(self, position: int, following: ObjectState) -> Iterator[Step[ObjectState]]:
        name = self.names[position]
        base = self.layout.goal(name)
        if not following.clauses:
            yield Step(position, base, following)
            return

        def concerns(atom: Atom) -> bool:
            return (
                atom.name == name
                if atom.name is not None
                else atom.names is not None and self.layout.contains(atom.names, name)
            )

        counts = (following.count, following.total)
        for remaining, extra, _ in self._clause_choices(following.clauses, counts, concerns, name):
            goal = self.normal_form.formulas.goal((*base.formulas, *extra))
            yield Step(position, goal, following.after(following.left, following.count, remaining))

    # --- clauses ----------------------------------------------------------------------------------------------------

    def _clause_choices(
        self, clauses: tuple[Clause, ...], counts: tuple[int, int], concerns: Callable[[Atom], bool], name: str | None
    ) -> Iterator[tuple[tuple[Clause, ...], list[Formula], bool]]:
        """(clauses that remain, conditions on the value, the value meets a clause): each clause is met here, or it is not."""
        for choice in product(*(self._choices(clause, counts, concerns, name) for clause in clauses)):
            remaining = tuple(dict.fromkeys(clause for clause, _ in choice if clause is not None))
            met = any(clause is None and formulas for clause, formulas in choice)
            yield remaining, [formula for _, formulas in choice for formula in formulas], met

    @staticmethod
    def _choices(
        clause: Clause, counts: tuple[int, int], concerns: Callable[[Atom], bool], name: str | None
    ) -> list[tuple[Clause | None, tuple[Formula, ...]]]:
        """(what remains of one clause, or None if it is met; conditions on the value). counts: distinct names, all names."""
        distinct, total = counts
        if any(atom.kind == "more" and distinct > atom.bound for atom in clause):
            return [(None, ())]
        touched = [atom for atom in clause if atom.kind in ("some", "each") and concerns(atom)]
        met: list[tuple[Clause | None, tuple[Formula, ...]]] = [
            (None, (atom.formula,)) for atom in touched if atom.kind == "some" and atom.formula is not None
        ]
        kept = frozenset(
            atom
            for atom in clause
            if not (atom.name == name is not None and atom.kind in ("lacks", "some"))
            and not (atom.kind == "fewer" and total >= atom.bound)
            and not (atom.kind == "each" and atom in touched)
        )
        if kept:
            met.append((kept, ()))
        for atom in touched:
            if atom.kind == "each" and atom.formula is not None and atom.formula.kind != "false":
                met.append((kept | {atom}, (atom.formula,)))
        return met

    @staticmethod
    def _passed_over(clauses: tuple[Clause, ...], name: str) -> tuple[Clause, ...]:
        """The clauses once it is known that there is no property of this name."""
        if not clauses:
            return clauses
        open_clauses = (clause for clause in clauses if not any(a.kind == "lacks" and a.name == name for a in clause))
        return tuple(
            dict.fromkeys(
                frozenset(a for a in clause if not (a.kind == "some" and a.name == name)) for clause in open_clauses
            )
        )


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones of a mask, in ascending order."""
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1


def reaches_end(progress, state, has_value: Callable[[Goal], bool]) -> bool:
    """Is there a way from the state to the end of the container? Depth first, most promising step first."""
    seen, worklist = {state}, [state]
    while worklist:
        state = worklist.pop()
        if progress.may_end(state):
            return True
        for step in progress.steps(state):
            if step.following not in seen and has_value(step.goal):
                seen.add(step.following)
                worklist.append(step.following)
        progress.normal_form.budget.check("looking for contradictions", states=len(seen))
    return False
