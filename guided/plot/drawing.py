"""A graph in, SVG text out: circles, curves and labels at the places that the layout gives them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from xml.sax.saxutils import escape

from guided.explain.labels import cells
from guided.plot.expression import Expression
from guided.plot.graph import Graph
from guided.plot.layout import Box, Layout, arrange

_RADIUS = 15.0
_CELL, _LINE = 7.6, 17.0  # of a 12.5 px monospaced font
_PAD = 5.0  # around a label
_LOOP = 20.0  # how far a loop reaches beyond its circle
_MARGIN, _HEADER = 28.0, 58.0
_ENTRY = 30.0  # the arrow into the start state
_LANDSCAPE = 1.7  # width : height that reads best
_WIDE_IS_FINE = 0.9  # logarithm of a ratio
_STEEPEST = 1.0  # radians from the axis at which an edge leaves a circle
_TITLE_CELLS = 100

_STYLE = """
  .ground { fill: #ffffff }
  .state { fill: #eef2f8; stroke: #3b4a63; stroke-width: 1.5 }
  .accepting { fill: #dff3e4; stroke: #1d7a43 }
  .inner { fill: none; stroke: #1d7a43; stroke-width: 1.2 }
  .open { fill: #ffffff; stroke: #8a93a3; stroke-dasharray: 3 3 }
  .edge { fill: none; stroke: #8592a8; stroke-width: 1.4 }
  .paper { fill: #ffffff; fill-opacity: 0.94 }
  text { font-family: 'DejaVu Sans Mono', 'SF Mono', Menlo, Consolas, monospace; font-size: 12.5px; fill: #16202e }
  .number { font-size: 11px; fill: #3b4a63; text-anchor: middle }
  .label { text-anchor: middle }
  .class { fill: #8b2fa8 }
  .title { font-size: 14px; font-weight: bold }
  .note { font-size: 11.5px; fill: #5b6675 }
  .tip { fill: #8592a8 }
  @media (prefers-color-scheme: dark) {
    .ground, .open, .paper { fill: #15191f }
    .state { fill: #232b36; stroke: #9fb0c8 }
    .accepting { fill: #173625; stroke: #58c48a }
    .inner { stroke: #58c48a; fill: none }
    .open { stroke: #77808d }
    .edge { stroke: #6f7d92 }
    .tip { fill: #6f7d92 }
    text { fill: #e4e9f0 }
    .number { fill: #b9c6d8 }
    .class { fill: #d59cf0 }
    .note { fill: #9aa5b4 }
  }
"""


def draw(graph: Graph, title: str, direction: str = "auto") -> str:
    """The picture of a graph; `direction` is "right", "down" or "auto"."""
    if direction != "auto":
        return _Picture(graph, direction == "right").svg(title)
    pictures = [_Picture(graph, to_the_right) for to_the_right in (True, False)]
    return min(pictures, key=_Picture.strangeness).svg(title)


class _Picture:
    """One arrangement of a graph, drawn to the right or downwards."""

    def __init__(self, graph: Graph, to_the_right: bool) -> None:
        self.graph = graph
        self.to_the_right = to_the_right
        self.number = {state: index for index, state in enumerate(_breadth_first(graph))}
        self.edges = [
            (source, target, label)
            for source in self.number
            for target, label in graph.edges[source].items()
            if source != target
        ]
        links = [
            (self.number[source], self.number[target], self._label_box(label)) for source, target, label in self.edges
        ]
        self.layout: Layout = arrange([self._state_box(state) for state in self.number], links, 0)
        along, across = self.layout.size
        self.width = (along + _ENTRY if to_the_right else across) + 2 * _MARGIN
        self.height = (across if to_the_right else along + _ENTRY) + _MARGIN + _HEADER

    def strangeness(self) -> float:
        """How far the shape is from a page's; text runs to the right, so a picture that does may be rather wide."""
        return abs(math.log(self.width / self.height / _LANDSCAPE)) - (_WIDE_IS_FINE if self.to_the_right else 0)

    # --- sizes ----------------------------------------------------------------------------------------------------

    def _label_box(self, label: Expression) -> Box:
        width, height = _extents(label)
        if self.to_the_right:
            return Box(width / 2, height / 2, height / 2)
        return Box(height / 2, width / 2, width / 2)

    def _state_box(self, state: int) -> Box:
        """A circle, with its loop above it or, where the picture goes down, to its right."""
        loop = self.graph.edges[state].get(state)
        if loop is None:
            return Box(_RADIUS, _RADIUS, _RADIUS)
        width, height = _extents(loop)
        if self.to_the_right:
            return Box(max(_RADIUS, width / 2), _RADIUS + _LOOP + height, _RADIUS)
        return Box(max(_RADIUS, height / 2), _RADIUS, _RADIUS + _LOOP + width)

    def _at(self, place: tuple[float, float]) -> tuple[float, float]:
        along, across = place
        if self.to_the_right:
            return along + _MARGIN + _ENTRY, across + _HEADER
        return across + _MARGIN, along + _HEADER + _ENTRY

    # --- drawing --------------------------------------------------------------------------------------------------

    def svg(self, title: str) -> str:
        note = describe(self.graph)
        shown = title if cells(title) <= _TITLE_CELLS else title[: _TITLE_CELLS - 1] + "…"
        width = max(self.width, cells(shown) * 8.6 + 2 * _MARGIN, cells(note) * 7.1 + 2 * _MARGIN)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {width:.0f} {self.height:.0f}" role="img">',
            f"<title>{_xml(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path class="tip" d="M0,0.6 L8,4 L0,7.4 z"/></marker></defs>',
            f'<rect class="ground" width="{width:.0f}" height="{self.height:.0f}"/>',
            f'<text class="title" x="{_MARGIN}" y="24">{_xml(shown)}</text>',
            f'<text class="note" x="{_MARGIN}" y="42">{_xml(note)}</text>',
            *self._curves(),
            *self._states(),
            *self._labels(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _curves(self) -> Iterable[str]:
        start = self._at(self.layout.boxes[0])
        tip = _shifted(start, -_RADIUS, self.to_the_right)
        (x, y), (u, v) = _shifted(tip, 4 - _ENTRY, self.to_the_right), tip
        yield f'<path class="edge" d="M{x:.1f},{y:.1f} L{u:.1f},{v:.1f}" marker-end="url(#arrow)"/>'
        for path in self.layout.paths:
            yield _path([self._at(point) for point in path], self.to_the_right)
        for state, index in self.number.items():
            if state in self.graph.edges[state]:
                yield self._loop(self._at(self.layout.boxes[index]))

    def _loop(self, centre: tuple[float, float]) -> str:
        dx, dy = _RADIUS * math.sin(0.6), _RADIUS * math.cos(0.6)
        reach = _RADIUS + _LOOP * 1.3
        offsets = [(-dx, -dy), (-22, -reach), (22, -reach), (dx, -dy)]  # above; to the right: turned by a quarter
        if not self.to_the_right:
            offsets = [(-v, u) for u, v in offsets]
        begin, *rest = [f"{centre[0] + u:.1f},{centre[1] + v:.1f}" for u, v in offsets]
        curve = f"M{begin} C{' '.join(rest)}"
        return f'<path class="edge" d="{curve}" marker-end="url(#arrow)"/>'

    def _states(self) -> Iterable[str]:
        for state, index in self.number.items():
            x, y = self._at(self.layout.boxes[index])
            accepting = state in self.graph.accepting
            is_open = state in self.graph.open
            kind = "state open" if is_open else "state accepting" if accepting else "state"
            yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>'
            if accepting and not is_open:
                yield f'<circle class="inner" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS - 3.5}"/>'
            yield f'<text class="number" x="{x:.1f}" y="{y + 4:.1f}">{"⋯" if is_open else index}</text>'

    def _labels(self) -> Iterable[str]:
        for (_, _, label), place in zip(self.edges, self.layout.labels, strict=True):
            yield _label(label, self._at(place))
        for state, index in self.number.items():
            loop = self.graph.edges[state].get(state)
            if loop is not None:
                x, y = self._at(self.layout.boxes[index])
                width, height = _extents(loop)
                away = _RADIUS + _LOOP
                yield _label(loop, (x, y - away - height / 2) if self.to_the_right else (x + away + width / 2, y))


def describe(graph: Graph) -> str:
    """How much of the automaton the picture shows."""
    drawn = len(graph.edges) - len(graph.open)
    count = f"{graph.num_states:,}{'' if graph.is_whole else '+'}"
    if graph.num_cut or graph.open:
        return f"the first {drawn:,} states; the automaton has {count}: dashed circles stand for the rest"
    if drawn < graph.num_states:
        return (
            f"{count} states, {drawn:,} drawn: runs of states are one edge. A double circle: the output may end here."
        )
    return f"{count} states. A double circle: the output may end here."


def _breadth_first(graph: Graph) -> list[int]:
    order = {graph.start: None}
    queue = [graph.start]
    for state in queue:
        for target in graph.edges[state]:
            if target not in order:
                order[target] = None
                queue.append(target)
    return queue


def _extents(label: Expression) -> tuple[float, float]:
    """(width, height) of a label."""
    lines = label.lines()
    widest = max(sum(cells(text) for text, _ in line) for line in lines)
    return widest * _CELL + 2 * _PAD, len(lines) * _LINE + 2


def _label(label: Expression, centre: tuple[float, float]) -> str:
    x, y = centre
    width, height = _extents(label)
    top = y - height / 2
    lines = []
    for index, line in enumerate(label.lines()):
        runs = "".join(
            f"<tspan>{_xml(_visible(text))}</tspan>"
            if literal
            else f'<tspan class="class">{_xml(_visible(text))}</tspan>'
            for text, literal in line
        )
        lines.append(f'<text class="label" x="{x:.1f}" y="{top + (index + 0.78) * _LINE:.1f}">{runs}</text>')
    paper = (
        f'<rect class="paper" x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"/>'
    )
    return f"<g><title>{_xml(label.full_text())}</title>{paper}{''.join(lines)}</g>"


def _visible(text: str) -> str:
    return text.replace(" ", "␣")


def _xml(text: str) -> str:
    """Escaped, without what XML 1.0 does not allow."""
    return escape("".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "�" for c in text))


def _shifted(point: tuple[float, float], by: float, to_the_right: bool) -> tuple[float, float]:
    return (point[0] + by, point[1]) if to_the_right else (point[0], point[1] + by)


def _path(points: list[tuple[float, float]], to_the_right: bool) -> str:
    """A smooth curve from circle to circle through the points; in between it runs along the layers."""
    along = 0 if to_the_right else 1
    points = [(p[along], p[1 - along]) for p in points]
    first, first_slope = _leaving(points[0], points[1])
    last, last_slope = _leaving(points[-1], points[-2])
    points = [first, *points[1:-1], last]
    steps = ["M" + _coordinates(first, along)]
    for index, ((x, y), (u, v)) in enumerate(itertools.pairwise(points)):
        reach = (u - x) / 2
        slopes = (first_slope if not index else 0.0), (last_slope if index == len(points) - 2 else 0.0)
        controls = (x + reach, y + slopes[0] * reach / 2), (u - reach, v - slopes[1] * reach / 2)
        steps.append("C" + " ".join(_coordinates(point, along) for point in (*controls, (u, v))))
    return f'<path class="edge" d="{" ".join(steps)}" marker-end="url(#arrow)"/>'


def _leaving(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[tuple[float, float], float]:
    """(point on the circle, slope there) of an edge to the next point: edges to different places leave at different angles."""
    (x, y), (u, v) = centre, towards
    side = 1 if u > x else -1
    angle = max(-_STEEPEST, min(_STEEPEST, math.atan2(v - y, abs(u - x))))
    return (x + side * _RADIUS * math.cos(angle), y + _RADIUS * math.sin(angle)), side * math.tan(angle)


def _coordinates(point: tuple[float, float], along: int) -> str:
    return f"{point[along]:.1f},{point[1 - along]:.1f}"
