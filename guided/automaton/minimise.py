"""The smallest deterministic automaton of a language: equal states merged, equal classes merged.

States are equal when no string tells them apart. Partition refinement (Moore, 1956), one numpy pass per round;
a long chain of states would need as many rounds as it has states, so the parts of the automaton that lie on no
cycle are merged first, from the end backwards (Revuz, 1992).
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
    block, dag = _merge_acyclic(dfa)
    rest = np.flatnonzero(~dag)
    if not len(rest):
        return _dense(block)
    # Blocks of the acyclic states are final: no cyclic state equals an acyclic one, since its language is infinite.
    offset = int(block.max()) + 1 if dag.any() else 0
    block[rest] = offset + dfa.accepting[rest]
    count = len(np.unique(block[rest]))
    while True:
        budget.check("minimisation", states=dfa.num_states)
        signature = np.column_stack([block[rest], np.append(block, -1)[dfa.delta[rest]]])
        _, refined = np.unique(signature, axis=0, return_inverse=True)
        refined = refined.reshape(-1)
        block[rest] = offset + refined
        if int(refined.max()) + 1 == count:
            return _dense(block)
        count = int(refined.max()) + 1


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
