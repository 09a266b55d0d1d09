"""Walks over Lark's parse trees without recursion, however deep they are nested; knows node names, not what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Tree


def fold(tree: Tree, combine: Callable[[Tree, list[Any]], Any]) -> Any:
    """`combine(node, results of its children)` from the leaves up; tokens are their own result. Alias names are left out."""
    order, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(child for child in parts(node) if isinstance(child, Tree))
    results: dict[int, Any] = {}
    for node in reversed(order):
        children = [results[id(child)] if isinstance(child, Tree) else child for child in parts(node)]
        results[id(node)] = combine(node, children)
    return results[id(tree)]


def parts(node: Tree) -> list[Any]:
    """The children that say something about the language."""
    return node.children[:1] if node.data == "alias" else node.children


def symbols(tree: Tree, kind: str) -> list[Tree]:
    """The nodes of one kind, "terminal" or "nonterminal", that the tree uses."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if node.data == kind:
            found.append(node)
        waiting.extend(child for child in parts(node) if isinstance(child, Tree))
    return found
