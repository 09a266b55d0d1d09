"""Strongly connected components of a directed graph, callees first; knows nothing of what the nodes are."""

from __future__ import annotations

from collections.abc import Sequence


def strong_components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The components in an order in which every edge leads to the same or an earlier one (Tarjan, 1972, without recursion)."""
    search = _Search(successors)
    for root in range(len(successors)):
        if search.index[root] < 0:
            search.visit(root)
    return search.components


def is_cyclic(component: Sequence[int], successors: Sequence[Sequence[int]]) -> bool:
    """Does an edge stay inside the component?"""
    return len(component) > 1 or component[0] in successors[component[0]]


class _Search:
    """The depth-first search; `index` is the order of visits, `low` the earliest node on the stack that a subtree reaches."""

    def __init__(self, successors: Sequence[Sequence[int]]) -> None:
        self.successors = successors
        self.index = [-1] * len(successors)
        self.components: list[list[int]] = []
        self._low = [0] * len(successors)
        self._on_stack = [False] * len(successors)
        self._stack: list[int] = []
        self._visits = 0

    def visit(self, root: int) -> None:
        self._enter(root)
        path = [(root, iter(self.successors[root]))]
        while path:
            node, rest = path[-1]
            for following in rest:
                if self.index[following] < 0:
                    self._enter(following)
                    path.append((following, iter(self.successors[following])))
                    break
                if self._on_stack[following]:
                    self._low[node] = min(self._low[node], self.index[following])
            else:
                path.pop()
                self._leave(node, path[-1][0] if path else node)

    def _enter(self, node: int) -> None:
        self.index[node] = self._low[node] = self._visits
        self._visits += 1
        self._stack.append(node)
        self._on_stack[node] = True

    def _leave(self, node: int, parent: int) -> None:
        self._low[parent] = min(self._low[parent], self._low[node])
        if self._low[node] != self.index[node]:
            return
        component: list[int] = []
        while not component or component[-1] != node:
            component.append(self._stack.pop())
            self._on_stack[component[-1]] = False
        self.components.append(component)
