"""The layout: nothing lies over anything else, edges run from box to box, and few of them cross."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.plot.layout import Box, arrange

STATE, LABEL = Box(15, 15, 15), Box(30, 9, 9)


def rectangle(centre: tuple[float, float], box: Box) -> tuple[float, float, float, float]:
    return centre[0] - box.along, centre[0] + box.along, centre[1] - box.before, centre[1] + box.after


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] - 1e-6 and b[0] < a[1] - 1e-6 and a[2] < b[3] - 1e-6 and b[2] < a[3] - 1e-6


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    pairs = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=24))
    tall = Box(15, draw(st.sampled_from([15, 60])), 15)
    return [tall, *[STATE] * (count - 1)], [(u, v, LABEL) for u, v in sorted(pairs) if u != v]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_nothing_lies_over_anything(graph):
    boxes, edges = graph
    layout = arrange(boxes, edges, 0)
    rectangles = [rectangle(centre, box) for centre, box in zip(layout.boxes, boxes, strict=True)]
    rectangles += [rectangle(centre, LABEL) for centre in layout.labels]
    assert not any(overlap(a, b) for a, b in itertools.combinations(rectangles, 2))
    assert all(x + 1e-6 >= 0 and y <= layout.size[0] + 1e-6 for x, y, _, _ in rectangles)
    assert all(x + 1e-6 >= 0 and y <= layout.size[1] + 1e-6 for _, _, x, y in rectangles)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_an_edge_runs_from_its_source_to_its_target_through_its_label(graph):
    boxes, edges = graph
    layout = arrange(boxes, edges, 0)
    for (source, target, _), path, label in zip(edges, layout.paths, layout.labels, strict=True):
        assert (path[0], path[-1]) == (layout.boxes[source], layout.boxes[target])
        assert label in path[1:-1]
        along = [point[0] for point in path]
        assert along in (sorted(along), sorted(along, reverse=True))


def test_a_chain_is_a_straight_line():
    layout = arrange([STATE] * 5, [(i, i + 1, LABEL) for i in range(4)], 0)
    assert len({round(across, 6) for _, across in layout.boxes}) == 1


@pytest.mark.parametrize("width", [2, 5])
def test_a_fan_keeps_its_order(width):
    edges = [(0, 1 + i, LABEL) for i in range(width)] + [(1 + i, 1 + width, LABEL) for i in range(width)]
    layout = arrange([STATE] * (width + 2), edges, 0)
    middle = [layout.boxes[1 + i][1] for i in range(width)]
    first, second = layout.labels[:width], layout.labels[width:]
    order = sorted(range(width), key=lambda i: middle[i])
    assert sorted(range(width), key=lambda i: first[i][1]) == order == sorted(range(width), key=lambda i: second[i][1])
