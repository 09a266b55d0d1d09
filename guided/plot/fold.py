"""A graph in, the same language in fewer states out: runs of states become one edge. Knows no coordinates.

What is folded, until nothing changes:
- *series*: a state that is only passed through, one edge in and one out, gives way to one edge with both labels, as long
  as they stay readable together;
- *parallel*: two edges between the same states become one edge with two lines (`Graph.add` does it);
- *words*: states that are entered from one state only, left to one state only, by plain texts: each text is written out,
  so that words that begin or end alike are whole words again;
- *ladders*: states that differ only in how often a thing was repeated become one edge `x{1,500}`.

Every step keeps the language. A reader tells by the next characters where to go; a ladder is read with the repetition
counted.
"""

from __future__ import annotations

from guided.plot.expression import Expression, Sequence, joined
from guided.plot.graph import Graph

_MIN_LADDER = 4  # rungs; shorter ones are better read as they are
_MAX_WORDS = 400  # words on one edge
_MAX_REGION = 500  # states that words are read from
_MAX_EXITS = 12  # states that a region of words may lead to


def fold(graph: Graph) -> None:
    """Folds whatever can be folded, in place."""
    while _fold_series(graph) or _fold_words(graph) or _fold_ladders(graph):
        pass


def _passes_through(graph: Graph, state: int) -> bool:
    """The state does nothing but lead on to one other state."""
    edges = graph.edges[state]
    special = state == graph.start or state in graph.accepting or state in graph.open
    return not special and len(edges) == 1 and state not in edges


def _fold_series(graph: Graph) -> bool:
    sources = graph.sources()
    folded = False
    for state in list(graph.edges):
        if len(sources[state]) != 1 or not _passes_through(graph, state):
            continue
        ((target, label),) = graph.edges[state].items()
        before = sources[state][0]
        if _climbs_on(graph, sources, before, state):
            continue
        both = graph.edges[before][state].then(label)
        if both is None:
            continue
        folded = True
        del graph.edges[before][state], graph.edges[state]
        sources[target].remove(state)
        if target not in graph.edges[before]:
            sources[target].append(before)
        graph.add(before, target, both)
    return folded


def _climbs_on(graph: Graph, sources: dict[int, list[int]], before: int, state: int) -> bool:
    """The edge before -> state may be the end of a ladder: another edge with its label leads to `before`."""
    label = graph.edges[before][state]
    return any(graph.edges[below][before] == label for below in sources[before] if below != before)


# --- words ------------------------------------------------------------------------------------------------------------


def _fold_words(graph: Graph) -> bool:
    sources = graph.sources()
    folded = False
    for state in list(graph.edges):
        if state in graph.edges and len(graph.edges[state]) > 1 and _fold_words_from(graph, sources, state):
            sources = graph.sources()
            folded = True
    return folded


def _fold_words_from(graph: Graph, sources: dict[int, list[int]], state: int) -> bool:
    region = _dominated(graph, sources, state)
    exits = {target for inner in region for target in graph.edges[inner]} - region
    for end in sorted(exits) if len(exits) <= _MAX_EXITS else ():
        inner = _leading_to(graph, sources, region, end)
        words = _words(graph, inner, state, end) if inner else []
        if 0 < len(words) <= _MAX_WORDS:
            for gone in inner:
                graph.edges[state].pop(gone, None)
                del graph.edges[gone]
            graph.add(state, end, Expression.one_of(words))
            return True
    return False


def _dominated(graph: Graph, sources: dict[int, list[int]], origin: int) -> set[int]:
    """Plain states that are reached from `origin` only, by texts only."""
    region: set[int] = set()
    worklist = list(graph.edges[origin])
    while worklist:
        state = worklist.pop()
        special = state in (origin, graph.start) or state in graph.accepting or state in graph.open
        if special or state in region or not all(label.is_literal for label in graph.edges[state].values()):
            continue
        entered = ((below in region or below == origin) for below in sources[state])
        if all(entered) and all(graph.edges[below][state].is_literal for below in sources[state]):
            if len(region) == _MAX_REGION:
                return set()
            region.add(state)
            worklist += graph.edges[state]
    return region


def _leading_to(graph: Graph, sources: dict[int, list[int]], region: set[int], end: int) -> set[int]:
    """The part of a region that is not entered from the rest of it and left to `end` only."""
    part, inside = set(region), region | {end}
    wrong = [state for state in region if not graph.edges[state].keys() <= inside]
    while wrong:
        state = wrong.pop()
        if state in part:
            part.remove(state)
            wrong += [*graph.edges[state], *sources[state]]
    return part


def _words(graph: Graph, inner: set[int], origin: int, end: int) -> list[Sequence]:
    """Every text from origin through the inner states to the end; none where they are too many or only one way goes in."""
    if len(inner & graph.edges[origin].keys()) + (end in graph.edges[origin]) < 2:
        return []
    found: list[Sequence] = []
    waiting = [
        (state, branch) for state in inner & graph.edges[origin].keys() for branch in _branches(graph, origin, state)
    ]
    while waiting and len(found) <= _MAX_WORDS:
        state, text = waiting.pop()
        if state == end:
            found.append(text)
            continue
        for target in graph.edges[state]:
            waiting += [(target, joined(text, branch)) for branch in _branches(graph, state, target)]
    return found


def _branches(graph: Graph, source: int, target: int) -> tuple[Sequence, ...]:
    return graph.edges[source][target].branches


# --- ladders ----------------------------------------------------------------------------------------------------------


def _fold_ladders(graph: Graph) -> bool:
    sources = graph.sources()
    folded = False
    for state in list(graph.edges):
        for target, label in list(graph.edges.get(state, {}).items()):
            rungs = _rungs(graph, sources, state, target, label)
            if len(rungs) >= _MIN_LADDER:
                _replace(graph, state, rungs, label)
                sources = graph.sources()
                folded = True
    return folded


def _rungs(graph: Graph, sources: dict[int, list[int]], state: int, target: int, label: Expression) -> list[int]:
    """The ladder that `label` climbs from `state`: [target, ...], all with the same exits, the last without `label`."""
    if any(graph.edges[below].get(state) == label for below in sources[state]):
        return []  # the ladder begins below
    exits = _exits(graph, target, label)
    rungs: list[int] = []
    above = [target]
    while above:
        if len(above) > 1 or above[0] in (state, *rungs[:1]) or above[0] in graph.open:
            return []
        if sources[above[0]] != [rungs[-1] if rungs else state] or _exits(graph, above[0], label) != exits:
            return []
        rungs.append(above[0])
        above = [to for to, found in graph.edges[above[0]].items() if found == label]
    return rungs


def _exits(graph: Graph, state: int, label: Expression) -> tuple[bool, dict[int, Expression]]:
    """(accepting, edges with other labels)."""
    return state in graph.accepting, {to: found for to, found in graph.edges[state].items() if found != label}


def _replace(graph: Graph, state: int, rungs: list[int], label: Expression) -> None:
    """The last rung stands for all of them."""
    for rung in rungs[:-1]:
        del graph.edges[rung]
    graph.edges[state] = {
        (rungs[-1] if to == rungs[0] else to): (label.repeated(1, len(rungs)) if to == rungs[0] else found)
        for to, found in graph.edges[state].items()
    }
    graph.accepting.difference_update(rungs[:-1])
