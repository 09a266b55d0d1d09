"""The smallest deterministic automaton of a language: equal states merged, equal classes merged.

States are equal when no string tells them apart. Those whose language is finite are merged from the end backwards (Revuz,
1992), in linear time; the others by Hopcroft's partition refinement (1971), which is n log n also where a long chain of
states leads into a loop.
"""

from __future__ import annotations

import numpy as np

from guided.automaton.char_dfa import CharDfa
from guided.automaton.charset import CharSet
from guided.limits import Budget


def minimise(dfa: CharDfa, budget: Budget) -> CharDfa:
    """The minimal trimmed automaton, states in breadth-first order, classes merged where no state tells them apart."""
    dfa = dfa.trim()
    block = _equal_states(dfa, budget)
    num_blocks = int(block.max()) + 1
    representative = np.zeros(num_blocks, dtype=np.int64)
    representative[block[::-1]] = np.arange(dfa.num_states)[::-1]
    delta = np.append(block, -1)[dfa.delta[representative]].astype(np.int32)
    return merge_classes(_breadth_first(CharDfa(dfa.classes, delta, dfa.accepting[representative]), int(block[0])))


def merge_classes(dfa: CharDfa) -> CharDfa:
    """The same automaton with one class for all characters that no state tells apart."""
    _, first, class_of = np.unique(dfa.delta, axis=1, return_index=True, return_inverse=True)
    if len(first) == len(dfa.classes):
        return dfa
    ranges: list[list[tuple[int, int]]] = [[] for _ in first]
    for members, merged in zip(dfa.classes, class_of.reshape(-1).tolist(), strict=True):
        ranges[merged] += members.ranges
    return CharDfa(
        tuple(CharSet.from_ranges(r) for r in ranges), np.ascontiguousarray(dfa.delta[:, first]), dfa.accepting
    )


def _equal_states(dfa: CharDfa, budget: Budget) -> np.ndarray:
    """int64[num_states]: the block of each state; two states share a block iff no string tells them apart."""
    block, finite = _merge_acyclic(dfa)
    rest = np.flatnonzero(~finite)
    if len(rest):
        # No state of an infinite language equals one of a finite language, so the two kinds share no block.
        block[rest] = _refine(dfa, block, rest, budget) + int(block.max(initial=-1)) + 1
    return _dense(block)


def _refine(dfa: CharDfa, block: np.ndarray, rest: np.ndarray, budget: Budget) -> np.ndarray:
    """int64[len(rest)]: blocks of the states in `rest`, given the final blocks of all others (Hopcroft)."""
    position = np.full(dfa.num_states + 1, -1, dtype=np.int64)
    position[rest] = np.arange(len(rest))
    known = np.append(block, -2)  # dead
    targets = dfa.delta[rest]
    inner = position[targets]  # int64[len(rest), classes]: target within rest, -1 = elsewhere
    signature = np.column_stack([dfa.accepting[rest], np.where(inner >= 0, -3, known[targets])])
    block_of = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    sources = _sources_by_class(inner)
    blocks: list[set[int]] = [set() for _ in range(max(block_of) + 1)]
    for state, index in enumerate(block_of):
        blocks[index].add(state)
    waiting = set(range(len(blocks)))
    while waiting:
        budget.check("minimisation", states=len(blocks))
        splitter = list(blocks[waiting.pop()])
        for incoming in sources:
            found = [source for state in splitter for source in incoming.get(state, ())]
            _split_blocks(found, block_of, blocks, waiting)
    return np.array(block_of)


def _sources_by_class(inner: np.ndarray) -> list[dict[int, list[int]]]:
    """Per class: target -> the states that reach it over the class; equal columns once."""
    sources = []
    for column in np.unique(inner, axis=1).T:
        incoming: dict[int, list[int]] = {}
        for source, target in enumerate(column.tolist()):
            if target >= 0:
                incoming.setdefault(target, []).append(source)
        sources.append(incoming)
    return sources


def _split_blocks(found: list[int], block_of: list[int], blocks: list[set[int]], waiting: set[int]) -> None:
    """Splits every block of which only a part was found; the smaller part waits to split others in turn."""
    touched: dict[int, list[int]] = {}
    for state in found:
        touched.setdefault(block_of[state], []).append(state)
    for index, part in touched.items():
        if len(part) == len(blocks[index]):
            continue
        fresh = set(part)
        blocks[index] -= fresh
        new = len(blocks)
        if len(fresh) > len(blocks[index]) and index not in waiting:
            blocks[index], fresh = fresh, blocks[index]
        blocks.append(fresh)
        for state in fresh:
            block_of[state] = new
        waiting.add(new)


def _merge_acyclic(dfa: CharDfa) -> tuple[np.ndarray, np.ndarray]:
    """(int64 blocks, bool: the state reaches no cycle): states whose language is finite, merged from the end backwards."""
    rows = dfa.delta.tolist()
    sources: list[list[int]] = [[] for _ in rows]
    waiting = []
    for state, row in enumerate(rows):
        targets = {target for target in row if target >= 0}
        waiting.append(len(targets))
        for target in targets:
            sources[target].append(state)
    block = [-1] * (len(rows) + 1)  # the last entry serves the dead target -1
    known: dict[tuple, int] = {}
    worklist = [state for state, count in enumerate(waiting) if count == 0]
    accepting = dfa.accepting.tolist()
    while worklist:
        state = worklist.pop()
        key = (accepting[state], *[block[target] for target in rows[state]])
        block[state] = known.setdefault(key, len(known))
        for source in sources[state]:
            waiting[source] -= 1
            if not waiting[source]:
                worklist.append(source)
    blocks = np.array(block[:-1], dtype=np.int64)
    return blocks, blocks >= 0


def _dense(block: np.ndarray) -> np.ndarray:
    return np.unique(block, return_inverse=True)[1].reshape(-1)


def _breadth_first(dfa: CharDfa, start: int) -> CharDfa:
    """The same automaton with its states numbered from the start in breadth-first order."""
    order, seen = [start], {start}
    rows = dfa.delta.tolist()
    for state in order:  # grows while it is walked
        for target in rows[state]:
            if target >= 0 and target not in seen:
                seen.add(target)
                order.append(target)
    new_id = np.full(dfa.num_states + 1, -1, dtype=np.int32)
    new_id[order] = np.arange(len(order), dtype=np.int32)
    return CharDfa(dfa.classes, new_id[dfa.delta[order]], dfa.accepting[order])
