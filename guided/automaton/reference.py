"""The slow, obvious way to run a network: sets of (state, stack) tuples. Tests compare every fast path with it."""

from __future__ import annotations

from guided.automaton.network import ASK, BYTES, CALL_AGAIN, CALLS, EPSILON, FORGET, MARK, PLAIN, RESUME, Network

Stack = tuple[int | bytes, ...]  # return states, and for each mark what was read since then, the innermost last
Config = frozenset[tuple[int, Stack]]


class ReferenceMachine:
    """start, step and accepts of the design, straight from the definition."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def start(self) -> Config:
        return self._closure({(self.network.build(self.network.root), ())})

    def step(self, config: Config, byte: int) -> Config:
        """The configuration after one more byte; empty when the byte is not allowed."""
        moved = set()
        for state, stack in config:
            for kind, label, target in self.network.edges_of(state):
                if kind == BYTES and self.network.byte_sets[label] >> byte & 1:
                    longer = (entry + bytes((byte,)) if isinstance(entry, bytes) else entry for entry in stack)
                    moved.add((target, tuple(longer)))
        return self._closure(moved)

    def accepts(self, config: Config) -> bool:
        return any(self.network.final[state] and not stack for state, stack in config)

    def matches(self, data: bytes) -> bool:
        """Is the whole of `data` in the language?"""
        config = self.start()
        for byte in data:
            config = self.step(config, byte)
        return self.accepts(config)

    def _closure(self, items: set[tuple[int, Stack]]) -> Config:
        """Everything that is reached without reading: empty edges, calls, returns."""
        reached, worklist = set(items), list(items)
        while worklist:
            for item in self._unread_moves(*worklist.pop()):
                if item not in reached:
                    reached.add(item)
                    worklist.append(item)
        return frozenset(reached)

    def _unread_moves(self, state: int, stack: Stack):
        ending = self.network.final[state]
        if ending == PLAIN and stack:
            yield stack[-1], stack[:-1]
        elif ending and stack and isinstance(stack[-1], int):
            for kind, label, target in self.network.edges_of(stack[-1]):
                if kind == RESUME and label == ending - 2:
                    yield target, stack[:-1]
        for kind, label, target in self.network.edges_of(state):
            if kind == EPSILON:
                yield target, stack
            elif kind == MARK:
                yield target, (*stack, b"")
            elif kind == FORGET:
                yield target, stack[:-1]
            elif kind == ASK and isinstance(stack[-1], bytes):
                yield self.network.answer(label, stack[-1]), stack[:-1]
            elif kind in CALLS:
                start = self.network.build(label)
                bare = self.network.final[target] == PLAIN and not self.network.edges_of(target)
                again = kind == CALL_AGAIN and stack[-1:] == (target,)
                yield start, stack if bare or again else (*stack, target)
