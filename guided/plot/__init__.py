"""The automaton as a picture: a constraint's character edges in, SVG text out; knows no vocabulary."""

from __future__ import annotations

import json

from guided.automaton.lazy_dfa import LazyDfa
from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.explain.escapes import EscapeFreeView
from guided.plot.drawing import draw
from guided.plot.fold import fold
from guided.plot.graph import Graph, read_graph

__all__ = ["Graph", "draw", "fold", "plot", "read_graph", "title_of"]


def plot(
    dfa: LazyDfa, title: str, *, max_states: int = 60, direction: str = "auto", json_escapes: bool = True
) -> tuple[str, Graph]:
    """(SVG text, the graph that it shows) of an automaton; grows it as far as the picture needs.

    Args:
        max_states: more are not drawn; the picture says so.
        direction: "right", "down", or "auto" for whichever looks less stretched.
        json_escapes: False: escapes that only spell a character of a JSON string in another way are not drawn.
    """
    view = CharacterView(dfa) if json_escapes else EscapeFreeView(dfa)
    graph = read_graph(view)
    fold(graph)
    graph.cut(max_states)
    return draw(graph, title, direction), graph


def title_of(constraint: Constraint) -> str:
    """The constraint in one line."""
    match constraint.kind:
        case "regex":
            return constraint.value
        case "choice":
            return "one of: " + ", ".join(constraint.value)
        case "json" | "structural_tag":
            return json.dumps(constraint.value, ensure_ascii=False)
    lines = [line.strip() for line in constraint.value.splitlines()]
    return next((line for line in lines if line and not line.startswith(("#", "//"))), "grammar")
