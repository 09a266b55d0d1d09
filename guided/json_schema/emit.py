"""The network of a schema: from goals to rules over bytes, each rule built when the output first reaches it.

A *value rule* reads one value that satisfies a goal, written in a style. Containers are rules too: what is left to write of an
array or object is one rule for each state of its progress, entered by a call in last position, which costs no stack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic

from guided.automaton.char_dfa import CharDfa
from guided.automaton.network import ByteSet, Network
from guided.errors import LimitExceeded
from guided.json_schema.arrays import ArrayShape
from guided.json_schema.completion import plainly_ends
from guided.json_schema.emit_apart import Apart
from guided.json_schema.emit_distinct import DistinctItems
from guided.json_schema.emit_unique import UniqueItems
from guided.json_schema.formulas import Goal
from guided.json_schema.layout import Cell
from guided.json_schema.leaves import USUAL_NUMBERS, leaves
from guided.json_schema.literals import Literals
from guided.json_schema.normal_form import NormalForm
from guided.json_schema.numbers import NumberShape
from guided.json_schema.objects import ObjectShape
from guided.json_schema.progress import (
    ArrayProgress,
    ArrayState,
    ObjectProgress,
    ObjectState,
    Progress,
    State,
    Step,
    reaches_end,
)
from guided.json_schema.reading import Shape
from guided.json_schema.strings import StringShape
from guided.json_schema.unique import has_few_sets
from guided.json_schema.whitespace import LINE, Style, Whitespace

_ANY_NAME = CharDfa.everything()
_LITERALS = {None: b"null", True: b"true", False: b"false"}


class Emitter:
    """Builds the rules of one schema."""

    def __init__(self, network: Network, normal_form: NormalForm, options: dict) -> None:
        self.network = network
        self.normal_form = normal_form
        self.budget = normal_form.budget
        self.strings, self.numbers = leaves(network, options.get("escapes") != "needed", normal_form.languages)
        self.whitespace = Whitespace(self.network, options, self.budget)
        self.any_order = options.get("property_order") == "any"
        self.apart = Apart(self)
        self.end = self.network.state(
            final=True
        )  # where rules end; has no edges, so calls to it are calls in last position
        self._values: dict[tuple[Goal, Style], int] = {}
        self._leaves: dict[Goal, int | None] = {}  # None: the value may be a container
        self._leaves_of_shapes: dict[tuple[Shape, ...], int] = {}
        self._names: dict[str, int] = {}
        self._members: dict[tuple[int, int, Style], int] = {}

    def document(self, goal: Goal) -> int:
        """A rule that reads a whole document, whose value satisfies a satisfiable goal."""
        return self.value_rule(goal, self.whitespace.root)

    def late(self, build: Callable[[], int], ahead: bool = False) -> int:
        """A rule that is built when it is first reached, within a time limit of its own. For `ahead` see `Network.rule`."""

        def timed() -> int:
            self.budget.restart()
            try:
                return build()
            except RecursionError as error:
                raise LimitExceeded("the schema is nested too deeply", limit="nesting") from error

        return self.network.rule(timed, ahead)

    # --- values -----------------------------------------------------------------------------------------------------

    def value_rule(self, goal: Goal, style: Style) -> int:
        """A rule that reads one value of a satisfiable goal; the same one for all of whose values it is plain that they are the same."""
        goal = goal.like
        if goal not in self._leaves:
            self._leaves[goal] = None if self._has_containers(goal) else self._leaf_rule(goal)
        leaf = self._leaves[goal]
        if leaf is not None:
            return leaf
        known = self._values.get((goal, style))
        if known is None:
            build = partial(self._build_goal, goal, style)
            known = self._values[(goal, style)] = self.late(build, _is_usual(style))
        return known

    def _leaf_rule(self, goal: Goal) -> int:
        """A rule that reads a value that is no container; equal ones share it, wherever they are."""
        shapes = self.shapes(goal)
        known = self._leaves_of_shapes.get(shapes)
        if known is None:
            match shapes:
                case (StringShape() as shape,):
                    known = self.strings.quoted(shape)
                case (NumberShape() as shape,) if shape in USUAL_NUMBERS:
                    known = self.numbers.rule(shape)
                case _:
                    known = self.late(lambda: self._build_value(shapes, LINE), ahead=all(map(_is_quick, shapes)))
            self._leaves_of_shapes[shapes] = known
        return known

    def shapes(self, goal: Goal) -> tuple[Shape, ...]:
        """Everything that a value may be."""
        alternatives, has_value = self.normal_form.alternatives, self.normal_form.has_value
        return tuple(shape for kind in goal.kinds for shape in alternatives(goal, kind) if has_value(shape))

    def _build_goal(self, goal: Goal, style: Style) -> int:
        return self._build_value(self.shapes(goal), style)

    def _has_containers(self, goal: Goal) -> bool:
        """May the value be an array or object, written in a style of its own?"""
        alternatives = self.normal_form.alternatives
        return bool(alternatives(goal, "array") or alternatives(goal, "object"))

    def _build_value(self, shapes: tuple[Shape, ...], style: Style) -> int:
        start = self.network.state()
        for shape in shapes:
            self._shape(start, shape, style)
        return start

    def _shape(self, start: int, shape: Shape, style: Style) -> None:
        match shape:
            case Literals():
                for value in sorted(shape.values, key=str):
                    self.network.literal(start, _LITERALS[value], self.end)
            case NumberShape():
                self.network.call(start, self.numbers.rule(shape), self.end)
            case StringShape():
                self.network.call(start, self.strings.quoted(shape), self.end)
            case ArrayShape() if shape.unique and shape.max_items not in (0, 1):
                if has_few_sets(shape, self.normal_form):
                    UniqueItems(self, shape).emit(start, style)
                else:
                    DistinctItems(self, shape, style).add(start, frozenset(), self.end)
            case ArrayShape():
                self._container(start, b"[]", _Items(self, shape), style)
            case ObjectShape():
                self._container(start, b"{}", _Properties(self, shape), style)

    # --- containers -------------------------------------------------------------------------------------------------

    def writer(self, shape: ArrayShape | ObjectShape) -> _Writer:
        """The members of a container shape."""
        return _Items(self, shape) if isinstance(shape, ArrayShape) else _Properties(self, shape)

    def _container(self, start: int, brackets: bytes, writer: _Writer[State], style: Style) -> None:
        progress = writer.progress
        opened = self.network.state()
        self.network.edge(start, 1 << brackets[0], opened)
        if progress.may_end(progress.start):
            before = self.network.state()
            self.whitespace.empty(opened, style, before)
            self.network.edge(before, 1 << brackets[1], self.end)
        if writer.goes_on(progress.start):
            for inner in self.whitespace.inner_styles(style):
                build = partial(self._members_from, writer, brackets, inner, progress.start)
                first = self.late(build, _is_usual(inner))
                before = self.network.state()
                self.whitespace.opened(opened, inner, before)
                self.network.call(before, first, self.end)

    def _members_from(self, writer: _Writer[State], brackets: bytes, inner: Style, state: State) -> int:
        """The state where one more member begins; there is one."""
        start = self.network.state()
        chosen = writer.chosen.get((inner, state))
        if chosen is not None:
            self.network.edge(start, writer.opening, chosen)
        elif writer.opening:
            # What may come is worked out once that is read: five of six ways of indentation come to nothing.
            opened = self.network.state()
            self.network.edge(start, writer.opening, opened)
            choice = self.late(
                partial(self._choice, writer, brackets, inner, state), _is_usual(inner) and writer.is_foreseen(state)
            )
            self.network.call(opened, choice, self.end)
        else:
            self._follow(start, writer, brackets, inner, writer.live(writer.progress.steps(state)))
        return start

    def _choice(self, writer: _Writer[State], brackets: bytes, inner: Style, state: State) -> int:
        """The state where one more property goes on after its first quote."""
        if isinstance(writer, _Properties) and isinstance(state, ObjectState) and writer.is_chain:
            chosen = self._chain(writer, brackets, inner, state)
            assert chosen is not None, "somebody asked before whether it goes on"
            return chosen
        start = self.network.state()
        self._follow(start, writer, brackets, inner, writer.live(writer.progress.steps(state)))
        return start

    def _chain(self, writer: _Properties, brackets: bytes, inner: Style, first: ObjectState) -> int | None:
        """`_choice` where the next property comes, or is passed over: each is laid out once, in their order."""
        states: list[ObjectState] = []
        following: ObjectState | None = first
        while following is not None and (inner, following) not in writer.chosen:
            states.append(following)
            following = writer.link(following)[1]
        starts = [self._link(writer, brackets, inner, state) for state in states]
        rest = None if following is None else writer.chosen[(inner, following)]
        for state, start in zip(reversed(states), reversed(starts), strict=True):
            if start is not None:
                if rest is not None:
                    self.network.epsilon(start, rest)
                rest = start
            writer.chosen[(inner, state)] = rest
        return rest

    def _link(self, writer: _Properties, brackets: bytes, inner: Style, state: ObjectState) -> int | None:
        """The state where the first property that is left goes on after its first quote; None: it has no value."""
        steps = writer.link(state)[0]
        if not steps:
            return None
        start = self.network.state()
        self._follow(start, writer, brackets, inner, steps)
        return start

    def _follow(
        self, source: int, writer: _Writer[State], brackets: bytes, inner: Style, steps: Iterable[Step[State]]
    ) -> None:
        """One more member, and then what is left to do after it."""
        for step in steps:
            self.network.call(
                source, writer.member(step, inner), self._written(writer, brackets, inner, step.following)
            )

    def _written(self, writer: _Writer[State], brackets: bytes, inner: Style, following: State) -> int:
        """The state after a member. It is the same from wherever the member was reached, so that a half-read name of a
        property has one configuration, however many others were passed over before it."""
        known = writer.written.get((inner, following))
        if known is None:
            known = writer.written[(inner, following)] = self.network.state()
            self.network.call(known, self.rest_rule(writer, brackets, inner, following), self.end)
        return known

    def rest_rule(self, writer: _Writer[State], brackets: bytes, inner: Style, state: State) -> int:
        """A rule that reads what is left after a member."""
        known = writer.rests.get((inner, state))
        if known is None:
            build = partial(self._build_rest, writer, brackets, inner, state)
            rest = self.late(build, _is_usual(inner) and writer.is_foreseen(state))
            known = writer.rests[(inner, state)] = rest
        return known

    def _build_rest(self, writer: _Writer[State], brackets: bytes, inner: Style, state: State) -> int:
        """A rule that reads what is left after a member: a comma and more, or the closing bracket."""
        start = self.network.state()
        if writer.progress.may_end(state):
            before = self.network.state()
            self.whitespace.closing(start, inner, before)
            self.network.edge(before, 1 << brackets[1], self.end)
        if writer.goes_on(state):
            self.whitespace.comma(start, inner, self._members_from(writer, brackets, inner, state))
        return start

    # --- property names -----------------------------------------------------------------------------------------------

    def name_rule(self, name: str) -> int:
        """A rule that reads one property name after its first quote."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self.network.rule()
            self.network.define(known, self.strings.word(name))
        return known

    def named(self, source: int, name: str, inner: Style) -> int:
        """The state before the value of a property whose name begins at source, after its first quote."""
        named, before_value = self.network.state(), self.network.state()
        self.network.call(source, self.name_rule(name), named)
        self.whitespace.colon(named, inner, before_value)
        return before_value

    def member_rule(self, name: int, goal: Goal, inner: Style) -> int:
        """A rule that reads a property after its first quote: by the rule of its name, a colon and a value.

        Built at once: who asks needs it now.
        """
        value = self.value_rule(goal, inner)
        key = (name, value, self.whitespace.plain(inner))
        known = self._members.get(key)
        if known is None:
            network = self.network
            start, named, before_value = network.state(), network.state(), network.state()
            network.call(start, name, named)
            self.whitespace.colon(named, inner, before_value)
            network.call(before_value, value, self.end)
            known = self._members[key] = network.rule()
            network.define(known, start)
        return known


class _Writer(ABC, Generic[State]):
    """The members of one container shape: the steps of its progress that lead to an end, and their rules.

    Attributes:
        opening: the byte that every member begins with, which `member` leaves out; 0: there is none.
    """

    opening: ByteSet = 0
    progress: Progress[State]

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.written: dict[tuple, int] = {}  # (style, state) -> the network's state after a member
        self.rests: dict[tuple, int] = {}  # (style, state) -> the rule that goes on there
        self.chosen: dict[tuple, int | None] = {}  # (style, state) -> where a member of a chain goes on
        self._live: dict[State, bool] = {}

    def live(self, steps: Iterator[Step[State]]) -> Iterator[Step[State]]:
        """The steps whose value exists and after which the container can be completed."""
        satisfiable: Callable[[Goal], bool] = self.emitter.normal_form.satisfiable
        return (step for step in steps if satisfiable(step.goal) and self._is_live(step.following))

    def goes_on(self, state: State) -> bool:
        """May one more member be written?"""
        return any(True for _ in self.live(self.progress.steps(state)))

    def _is_live(self, state: State) -> bool:
        known = self._live.get(state)
        if known is None:
            satisfiable = self.emitter.normal_form.satisfiable
            plainly = self.always_live() or self.plainly_live(state)
            known = self._live[state] = plainly or reaches_end(self.progress, state, satisfiable)
        return known

    def is_foreseen(self, state: State) -> bool:
        """Is the state one of few that the container may come to?"""
        return True

    @abstractmethod
    def always_live(self) -> bool:
        """Every state that live steps lead to can be completed."""

    def plainly_live(self, state: State) -> bool:
        """The state can be completed, as can be told without search."""
        return False

    @abstractmethod
    def member(self, step: Step[State], inner: Style) -> int:
        """A rule that reads the member of a step."""


class _Items(_Writer[ArrayState]):
    progress: ArrayProgress

    def __init__(self, emitter: Emitter, shape: ArrayShape) -> None:
        super().__init__(emitter)
        self.progress = ArrayProgress(shape, emitter.normal_form)

    def always_live(self) -> bool:
        return not self.progress.shape.counts  # the shape has a value, and no item changes what follows

    def member(self, step: Step[ArrayState], inner: Style) -> int:
        return self.emitter.value_rule(step.goal, inner)


class _Properties(_Writer[ObjectState]):
    opening = 1 << ord('"')
    progress: ObjectProgress

    def __init__(self, emitter: Emitter, shape: ObjectShape) -> None:
        super().__init__(emitter)
        self.progress = ObjectProgress(shape, emitter.normal_form, emitter.any_order)
        # What may come next is the first property that is left, or what may come after that was passed over.
        self.is_chain = self.progress.is_plain and not emitter.any_order
        self._links: dict[ObjectState, tuple[list[Step[ObjectState]], ObjectState | None]] = {}

    def goes_on(self, state: ObjectState) -> bool:
        if not self.is_chain:
            return super().goes_on(state)
        following: ObjectState | None = state
        while following is not None:
            steps, following = self.link(following)
            if steps:
                return True
        return False

    def link(self, state: ObjectState) -> tuple[list[Step[ObjectState]], ObjectState | None]:
        """Of a chain: the live steps that pass over nothing, and the state after the first property is passed over."""
        known = self._links.get(state)
        if known is None:
            steps = list(self.live(self.progress.first_steps(state)))
            known = self._links[state] = steps, self.progress.passed_over(state)
        return known

    def is_foreseen(self, state: ObjectState) -> bool:
        return self.progress.is_plain and (not self.emitter.any_order or state == self.progress.start)

    def always_live(self) -> bool:
        return self.progress.is_plain

    def plainly_live(self, state: ObjectState) -> bool:
        return plainly_ends(self.progress, state, self.emitter.normal_form.satisfiable)

    def member(self, step: Step[ObjectState], inner: Style) -> int:
        if isinstance(step.name, Cell):
            name = self._unknown_name(step.name)
        else:
            assert step.name is not None, "properties have names"
            name = self.emitter.name_rule(self.progress.names[step.name])
        return self.emitter.member_rule(name, step.goal, inner)

    def _unknown_name(self, cell: Cell) -> int:
        """A rule that reads a name of the cell after its first quote."""
        known = frozenset(self.progress.names)
        if not cell.tests:
            return self.emitter.strings.rest_of(_ANY_NAME, known)
        language = self.emitter.normal_form.names.satisfying(cell.tests)
        return self.emitter.strings.rest_of(language, frozenset(filter(language.contains, known)))


def _is_usual(style: Style) -> bool:
    """Do many outputs have containers of this style?"""
    return style.kind != "indented"


def _is_quick(shape: Shape) -> bool:
    """Is a value that is no container laid out in no time?"""
    return not isinstance(shape, NumberShape) or shape in USUAL_NUMBERS
