"""Syntax tree -> automaton over characters, by Thompson's construction; knows no concrete syntax and no bytes.

`build(node, source)` adds edges that leave `source` and returns the state where the node ends. It never adds an edge
into `source`, so branches may share it, and never one out of a given `target`: loops get a state of their own.
"""

from __future__ import annotations

from guided.automaton.char_nfa import CharNfa
from guided.automaton.charset import CharSet
from guided.limits import Budget
from guided.regex.lookaround import AssertingNfa, resolve
from guided.regex.syntax import Alternation, Chars, Look, Node, Repeat, Sequence, max_width


def compile_tree(tree: Node, budget: Budget) -> CharNfa:
    """The automaton of a tree.

    Raises:
        LimitExceeded: more states than `limits.states`, or out of time.
    """
    builder = _Builder(budget)
    nfa = builder.nfa
    nfa.accepting.add(builder.build(tree, nfa.start))
    budget.check("regex", states=nfa.num_states)
    if nfa.tests:
        return resolve(nfa, budget)
    nfa.all_live = not builder.has_dead_ends
    return nfa


class _Builder:
    def __init__(self, budget: Budget) -> None:
        self.nfa = AssertingNfa()
        self.budget = budget
        self._bodies: dict[tuple[bool, Node], int] = {}
        self._next_check = 1000
        self.has_dead_ends = False  # a class of no character, an alternation of nothing

    def build(self, node: Node, source: int, target: int | None = None) -> int:
        """From source through the node; ends in `target` if one is given."""
        match node:
            case Chars(characters):
                end = self._state() if target is None else target
                self.has_dead_ends |= not characters
                self.nfa.arc(source, characters, end)
                return end
            case Sequence(items):
                return self._sequence(items, source, target)
            case Alternation(items):
                return self._alternation(items, source, target)
            case Repeat():
                return self._finish(self._repeat(node, source), target)
            case Look():
                end = self._state() if target is None else target
                self.nfa.test(source, self._body(node), node.negative, end)
                return end

    def _state(self) -> int:
        self._check_size()
        return self.nfa.state()

    def _check_size(self) -> None:
        if self.nfa.num_states >= self._next_check:
            self.budget.check("regex", states=self.nfa.num_states)
            self._next_check = self.nfa.num_states + 1000

    def _finish(self, end: int, target: int | None) -> int:
        if target is None or end == target:
            return end
        self.nfa.epsilon(end, target)
        return target

    def _sequence(self, items: tuple[Node, ...], source: int, target: int | None) -> int:
        for item in items[:-1]:
            if type(item) is Chars:  # most items are; the rest of the loop body is `build` for them, without its calls
                state = self.nfa.state()
                self.has_dead_ends |= not item.characters
                self.nfa.arc(source, item.characters, state)
                source = state
            else:
                source = self.build(item, source)
        self._check_size()
        return self.build(items[-1], source, target) if items else self._finish(source, target)

    def _alternation(self, items: tuple[Node, ...], source: int, target: int | None) -> int:
        """All branches share source and target; branches that begin with equal sets share that edge (a prefix tree)."""
        end = self._state() if target is None else target
        self.has_dead_ends |= not items
        branches = [item.items if isinstance(item, Sequence) else (item,) for item in items]
        self._branches(branches, source, end)
        return end

    def _branches(self, branches: list[tuple[Node, ...]], source: int, end: int) -> None:
        """A prefix tree of the leading sets of characters; what follows them is built for each branch."""
        nfa = self.nfa
        children: dict[tuple[int, CharSet], int] = {}
        for branch in branches:
            state, depth = source, 0
            for item in branch:
                if type(item) is not Chars:
                    break
                key = (state, item.characters)
                following = children.get(key)
                if following is None:
                    following = children[key] = nfa.state()
                    self.has_dead_ends |= not item.characters
                    nfa.arc(state, item.characters, following)
                state = following
                depth += 1
            self._sequence(branch[depth:], state, end)

    def _repeat(self, node: Repeat, source: int) -> int:
        if _is_empty(node.item):
            return source  # nothing, however often
        copies = max(node.lo - (node.hi is None), 0)
        if copies and isinstance(node.item, Chars):
            source = self._chain(node.item.characters, source, copies, None)
        else:
            for _ in range(copies):
                source = self.build(node.item, source)
        if node.hi is None:
            return self._plus(node.item, source) if node.lo else self._star(node.item, source)
        if node.hi > node.lo:
            source = self._optional_copies(node.item, source, node.hi - node.lo)
        return source

    def _optional_copies(self, item: Node, source: int, count: int) -> int:
        end = self._state()
        if isinstance(item, Chars):
            source = self._chain(item.characters, source, count, end)
        else:
            for _ in range(count):
                self.nfa.epsilon(source, end)
                source = self.build(item, source)
        self.nfa.epsilon(source, end)
        return end

    def _chain(self, characters: CharSet, source: int, count: int, skip: int | None) -> int:
        """`count` times one character of the set; from all but the last state a jump to `skip`."""
        nfa, first = self.nfa, self.nfa.num_states
        self.budget.check("regex", states=first + count)
        self.has_dead_ends |= not characters
        nfa.arc(source, characters, first)
        jumps = () if skip is None else (skip,)
        nfa.empty[source] += jumps
        nfa.arcs += [[(characters, following)] if characters else [] for following in range(first + 1, first + count)]
        nfa.empty += [list(jumps) for _ in range(count - 1)]
        return nfa.state()

    def _star(self, item: Node, source: int) -> int:
        hub = self._state()
        self.nfa.epsilon(source, hub)
        self.build(item, hub, hub)
        return hub

    def _plus(self, item: Node, source: int) -> int:
        if isinstance(item, Chars):
            end = self.build(item, source)
            self.nfa.arc(end, item.characters, end)
            return end
        hub = self._state()
        self.nfa.epsilon(source, hub)
        end = self.build(item, hub, self._state())
        self.nfa.epsilon(end, hub)
        return end

    def _body(self, look: Look) -> int:
        """The body of a lookaround, built once however often it occurs."""
        key = (look.behind, look.body)
        body = self._bodies.get(key)
        if body is None:
            start, end = self._state(), self._state()
            self.build(look.body, start, end)
            body = self._bodies[key] = self.nfa.add_body(start, end, look.behind, max_width(look.body))
        return body


def _is_empty(node: Node) -> bool:
    """Is the node written so that it reads nothing and demands nothing?"""
    if isinstance(node, Repeat):
        return node.hi == 0 or _is_empty(node.item)
    return isinstance(node, Sequence) and all(_is_empty(item) for item in node.items)
