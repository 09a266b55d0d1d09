"""Folding keeps the language: the labels of the folded graph, read as regexes, match what the automaton matches."""

from __future__ import annotations

import random
import re

import pytest

from guided.constraint import Constraint
from guided.explain.characters import CharacterView
from guided.explain.samples import random_text
from guided.plot.expression import Expression, Part
from guided.plot.fold import fold
from guided.plot.graph import Graph, read_graph
from tests.explain.automata import automaton

OCTET = r"(25[0-5]|2[0-4]\d|1?\d?\d)"
WORDS = ["red", "green", "grey", "blue", "light blue", "orange", "re", "redder"]
CASES = {
    "address": rf"({OCTET}\.){{3}}{OCTET}:\d{{1,5}}",
    "cve": r"CVE-\d{4}-\d{4,7}",
    "words": Constraint.choice(WORDS),
    "digits": r"x\d{1,30}(,\d{2,9})*",
    "string": r'"([^"\\]|\\["\\/bfnrt]){0,30}"',
    "counted": r"(ab|c[de]){1,12}!",
    "date": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "loops": r"(a|b+c)*(d[0-9])*",
    "mail": r"[a-z0-9._-]+@([a-z0-9-]+\.)+[a-z]{2,6}",
}


def graph_of(constraint: Constraint | str, folded: bool = True) -> Graph:
    graph = read_graph(CharacterView(automaton(constraint)))
    if folded:
        fold(graph)
    return graph


def pattern_of(label: Expression) -> str:
    return "|".join("".join(map(part_pattern, branch)) for branch in label.branches)


def part_pattern(part: Part) -> str:
    if part.is_literal:
        text = re.escape(part.text)
        return text if part.hi == 1 else f"(?:{text}){{{part.lo},{part.hi}}}"
    return part.shown


def matches(graph: Graph, text: str) -> bool:
    """Walks all ways through the folded graph; the labels' patterns are tried at every length."""
    compiled = {
        (source, target): re.compile(pattern_of(label))
        for source, edges in graph.edges.items()
        for target, label in edges.items()
    }
    reached, worklist = {(graph.start, 0)}, [(graph.start, 0)]
    while worklist:
        state, at = worklist.pop()
        for target in graph.edges[state]:
            for end in range(at + 1, len(text) + 1):
                if (target, end) not in reached and compiled[state, target].fullmatch(text, at, end):
                    reached.add((target, end))
                    worklist.append((target, end))
    return any(state in graph.accepting and at == len(text) for state, at in reached)


@pytest.mark.parametrize("name", CASES)
def test_the_language_stays(name):
    dfa = automaton(CASES[name])
    graph = graph_of(CASES[name])
    view, source = CharacterView(dfa), random.Random(5)
    for _ in range(25):
        text = random_text(view, source)
        assert text is not None and matches(graph, text), text
        at = source.randrange(len(text) + 1)
        for near in (text[:at] + text[at + 1 :], text[:at] + source.choice("09a.x!,") + text[at:], text + text[-1:]):
            assert matches(graph, near) == dfa.matches(near.encode()), near


@pytest.mark.parametrize("name", CASES)
def test_it_gets_smaller(name):
    before, after = graph_of(CASES[name], folded=False), graph_of(CASES[name])
    assert len(after.edges) < len(before.edges) or name == "loops"
    assert after.num_states == len(before.edges)


def labels(graph: Graph) -> set[str]:
    return {label.full_text() for edges in graph.edges.values() for label in edges.values()}


def test_words_are_whole_words():
    graph = graph_of(Constraint.choice(["red", "green", "grey", "blue", "orange", "light blue"]))
    assert labels(graph) == {"blue\ngreen\ngrey\nlight blue\norange\nred"}


def test_repetitions_are_counted():
    assert labels(graph_of(r"[^\n]{1,500}")) == {r"[^\n]{1,500}"}
    assert labels(graph_of(r"x[0-9]{8}y")) == {"x[0-9]{8}y"}
    assert labels(graph_of(r"x[0-9]{2,9}")) == {"x[0-9]{2}", "[0-9]{1,7}"}


def test_continuation_bytes_are_not_seen():
    graph = graph_of("é+[а-я]{2}日本")
    assert labels(graph) == {"é", "[а-я]{2}日本"}


def test_a_label_that_would_be_hard_to_read_stays_apart():
    graph = graph_of(r"(a[bc]|d[ef]{2})[0-9]{3}-(x[yz]|u[vw])")
    assert all(len(line) <= 40 for label in labels(graph) for line in label.split("\n"))
    assert "(" not in "".join(labels(graph))
