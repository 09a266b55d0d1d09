"""The picture: well-formed SVG that shows every state, every label, and says when it does not show everything."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from guided.constraint import Constraint
from guided.plot import plot
from tests.explain.automata import automaton

SVG = "{http://www.w3.org/2000/svg}"
NODE = {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#"}}, "required": ["v"]}


def draw(constraint: Constraint | str, **options):
    svg, graph = plot(automaton(constraint), "a < b & \x00 'title'", **options)
    return ElementTree.fromstring(svg), graph


def circles(picture: ElementTree.Element, kind: str) -> int:
    return sum(element.get("class") == kind for element in picture.iter(f"{SVG}circle"))


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("direction", ["auto", "right", "down"])
@pytest.mark.parametrize("pattern", ["a", "", "(a|bc)*d?", r"\d{1,9}(\.\d+)?", "(é|\x01|<&>){3}", r"[^\n]{1,500}"])
def test_every_state_is_drawn(pattern, direction):
    picture, graph = draw(pattern, direction=direction)
    assert circles(picture, "state") + circles(picture, "state accepting") == len(graph.edges)
    assert circles(picture, "inner") == len(graph.accepting)
    lines = {
        "".join(text for text, _ in line)
        for edges in graph.edges.values()
        for label in edges.values()
        for line in label.lines()
    }
    assert {line.replace(" ", "␣") for line in lines} <= set(texts(picture))


def test_a_large_automaton_is_cut_and_says_so():
    picture, graph = draw(r"(?=.*[0-9])(?=.*[a-z])[0-9a-zA-Z]{8,40}", max_states=12)
    assert graph.num_cut
    assert circles(picture, "state") + circles(picture, "state accepting") == 12
    assert circles(picture, "state open") >= 1
    assert any("the first 12 states" in text for text in texts(picture))


def test_an_endless_automaton_is_cut_and_says_so():
    picture, graph = draw(Constraint.json_schema(NODE, whitespace="compact"), max_states=20, json_escapes=False)
    assert not graph.is_whole
    assert any(text.startswith("the first 20 states; the automaton has") for text in texts(picture))


def test_size_grows_with_the_content_only():
    small, _ = draw("CVE-[0-9]{4}-[0-9]{4,7}", direction="right")
    assert float(small.get("width", 0)) < 1000 > 4 * float(small.get("height", 0))
