"""Boxes and edges in, coordinates out: a layered drawing. Knows neither labels nor SVG.

The four steps of Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981:
cycles are broken, states get layers, crossings are reduced by barycentres, coordinates are settled. A label is a box of its own
in a layer between its two states, so that nothing is drawn over anything. Coordinates come from repeated weighted
least squares under minimum distances, which for one layer is an isotonic regression (pool adjacent violators).
"""

from __future__ import annotations

import itertools
from bisect import bisect, insort
from dataclasses import dataclass

_GAP = 14.0  # between two boxes of a layer
_LAYER_GAP = 20.0
_ORDER_ROUNDS = 16
_PLACE_ROUNDS = 24
_STRAIGHT = (1.0, 3.0, 8.0)  # pull of an edge between two states, a state and a passage, two passages


@dataclass(frozen=True, slots=True)
class Box:
    """Extents from the centre: `along` the layers on either side, `before` and `after` across them."""

    along: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Coordinates (along, across) from 0.

    Attributes:
        boxes: centre of each box.
        paths: per edge the points from source to target, ends included.
        labels: per edge the centre of its label.
        size: extents of the whole.
    """

    boxes: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    labels: list[tuple[float, float]]
    size: tuple[float, float]


_PASSAGE = Box(0.0, 1.0, 1.0)


def arrange(boxes: list[Box], edges: list[tuple[int, int, Box]], start: int) -> Layout:
    """Places boxes and edges (source, target, box of the label; no loops), `start` in the first layer."""
    back = _back_edges(len(boxes), edges, start)
    directed = [(v, u) if i in back else (u, v) for i, (u, v, _) in enumerate(edges)]
    rank = _ranks(len(boxes), directed)
    vertices = list(boxes)  # states first, then passages and labels
    layer_of = list(rank)
    chains: list[list[int]] = []
    middles: list[int] = []
    for (u, v), (_, _, label) in zip(directed, edges, strict=True):
        inner = list(range(rank[u] + 1, rank[v]))
        middle = inner[len(inner) // 2]
        chain = [u]
        for layer in inner:
            chain.append(len(vertices))
            vertices.append(label if layer == middle else _PASSAGE)
            layer_of.append(layer)
        chains.append([*chain, v])
        middles.append(chain[1 + middle - inner[0]])
    layers = _ordered(len(boxes), layer_of, chains)
    across = _placed(vertices, layers, chains, len(boxes))
    along, length = _along(vertices, layers)
    point = [(along[layer_of[v]], across[v]) for v in range(len(vertices))]
    paths = [[point[v] for v in (chain[::-1] if i in back else chain)] for i, chain in enumerate(chains)]
    breadth = max(across[v] + vertices[v].after for v in range(len(vertices)))
    return Layout(point[: len(boxes)], paths, [point[v] for v in middles], (length, breadth))


# --- layers -----------------------------------------------------------------------------------------------------------


def _back_edges(count: int, edges: list[tuple[int, int, Box]], start: int) -> set[int]:
    """Edges that close a cycle in a depth-first search; turning them round leaves none."""
    out: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for index, (u, v, _) in enumerate(edges):
        out[u].append((index, v))
    back, state = set(), [0] * count  # 0 = new, 1 = on the path, 2 = done
    for root in [start, *range(count)]:
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(out[root]))]
        while stack:
            current, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                state[current] = 2
                stack.pop()
            elif state[step[1]] == 1:
                back.add(step[0])
            elif state[step[1]] == 0:
                state[step[1]] = 1
                stack.append((step[1], iter(out[step[1]])))
    return back


def _ranks(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Longest path from a source, doubled so that labels have layers of their own."""
    out: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for u, v in edges:
        out[u].append(v)
        waiting[v] += 1
    rank = [0] * count
    ready = [v for v in range(count) if not waiting[v]]
    for u in ready:
        for v in out[u]:
            rank[v] = max(rank[v], rank[u] + 2)
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    assert len(ready) == count, "the edges have no cycle"
    return rank


# --- order within the layers ------------------------------------------------------------------------------------------


def _ordered(num_boxes: int, layer_of: list[int], chains: list[list[int]]) -> list[list[int]]:
    """The vertices of each layer, ordered so that few edges cross."""
    above, below = _neighbours(len(layer_of), chains)
    layers: list[list[int]] = [[] for _ in range(max(layer_of) + 1)]
    seen = [False] * len(layer_of)
    for root in range(num_boxes):  # depth first: what belongs together starts together
        stack = [root]
        while stack:
            vertex = stack.pop()
            if not seen[vertex]:
                seen[vertex] = True
                layers[layer_of[vertex]].append(vertex)
                stack += reversed(below[vertex])
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below)
    for round_ in range(_ORDER_ROUNDS):
        down = round_ % 2 == 0
        for index in range(len(layers)) if down else range(len(layers) - 1, -1, -1):
            _sort_by_barycentre(layers, index, above if down else below, index - 1 if down else index + 1)
        found = _crossings(layers, below)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    return best


def _neighbours(count: int, chains: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for u, v in itertools.pairwise(chain):
            below[u].append(v)
            above[v].append(u)
    return above, below


def _sort_by_barycentre(layers: list[list[int]], index: int, neighbours: list[list[int]], fixed: int) -> None:
    if not 0 <= fixed < len(layers):
        return
    position = {vertex: place for place, vertex in enumerate(layers[fixed])}
    width = len(layers[index])
    own = {vertex: place / max(width, 1) * len(position) for place, vertex in enumerate(layers[index])}

    def barycentre(vertex: int) -> float:
        places = [position[other] for other in neighbours[vertex]]
        return sum(places) / len(places) if places else own[vertex]

    layers[index].sort(key=barycentre)


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    """Pairs of edges that cross, layer by layer: inversions of the targets' positions."""
    total = 0
    for layer, following in itertools.pairwise(layers):
        position = {vertex: place for place, vertex in enumerate(following)}
        seen: list[int] = []
        for vertex in layer:
            targets = sorted(position[target] for target in below[vertex])
            total += sum(len(seen) - bisect(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


# --- coordinates ------------------------------------------------------------------------------------------------------


def _along(vertices: list[Box], layers: list[list[int]]) -> tuple[list[float], float]:
    """(centre of each layer, length of the whole)."""
    centres, at = [], 0.0
    for layer in layers:
        half = max(vertices[v].along for v in layer)
        centres.append(at + half)
        at += 2 * half + _LAYER_GAP
    return centres, at - _LAYER_GAP


def _placed(vertices: list[Box], layers: list[list[int]], chains: list[list[int]], num_boxes: int) -> list[float]:
    """The coordinate across the layers of each vertex: near its neighbours, at least a gap from the next one."""
    pulls: list[list[tuple[int, float, bool]]] = [[] for _ in vertices]  # neighbour, weight, is it above
    for chain in chains:
        for u, v in itertools.pairwise(chain):
            weight = _STRAIGHT[(u >= num_boxes) + (v >= num_boxes)]
            pulls[u].append((v, weight, False))
            pulls[v].append((u, weight, True))
    across = [0.0] * len(vertices)
    for layer in layers:
        _settle(vertices, layer, across, [(0.0, 1.0)] * len(layer))
    for round_ in range(_PLACE_ROUNDS):
        both = round_ >= _PLACE_ROUNDS // 2
        down = round_ % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = []
            for vertex in layer:
                found = [(across[o], w) for o, w, is_above in pulls[vertex] if both or is_above == down]
                weight = sum(w for _, w in found)
                wanted.append((sum(x * w for x, w in found) / weight, weight) if found else (across[vertex], 0.1))
            _settle(vertices, layer, across, wanted)
    least = min(across[v] - box.before for v, box in enumerate(vertices))
    return [x - least for x in across]


def _settle(vertices: list[Box], layer: list[int], across: list[float], wanted: list[tuple[float, float]]) -> None:
    """Least squares to the wanted (place, weight) in the given order with minimum distances: pool adjacent violators."""
    offsets: list[float] = []
    at = 0.0
    for place, vertex in enumerate(layer):
        if place:
            at += vertices[layer[place - 1]].after + _GAP + vertices[vertex].before
        offsets.append(at)
    pools: list[list[float]] = []  # mean, weight, members
    for (target, weight), offset in zip(wanted, offsets, strict=True):
        pools.append([target - offset, weight, 1])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            mean, weight, members = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * weight) / (last[1] + weight)
            last[1] += weight
            last[2] += members
    places = [mean for mean, _, members in pools for _ in range(int(members))]
    for vertex, mean, offset in zip(layer, places, offsets, strict=True):
        across[vertex] = mean + offset
