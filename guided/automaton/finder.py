"""Strings in, the automaton that finds them in a text out (Aho and Corasick, "Efficient string matching", 1975)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np


class Finder:
    """A node stands for the longest suffix of what was read that begins one of the strings; node 0 is the empty one.

    Attributes:
        table: int32[nodes, 256]: node, byte -> node.
        text: of each node.
        suffix: of each node but 0: the node of its longest proper suffix.
        complete: bool[nodes]: one of the strings ends here.
    """

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._children: list[dict[int, int]] = [{}]
        self.text = [b""]
        ends = {self._add(string) for string in strings}
        self.suffix = [0] * len(self.text)
        self.table = np.zeros((len(self.text), 256), np.int32)
        self.complete = np.zeros(len(self.text), bool)
        self.complete[sorted(ends)] = True
        self._link()

    def _add(self, string: bytes) -> int:
        node = 0
        for byte in string:
            if byte not in self._children[node]:
                self._children[node][byte] = len(self._children)
                self._children.append({})
                self.text.append(self.text[node] + bytes([byte]))
            node = self._children[node][byte]
        return node

    def _link(self) -> None:
        """Breadth first: the suffix of a node is shorter than the node."""
        waiting = deque([0])
        while waiting:
            node = waiting.popleft()
            suffix = self.suffix[node]
            self.complete[node] |= self.complete[suffix]
            if node:
                self.table[node] = self.table[suffix]
            for byte, child in self._children[node].items():
                self.suffix[child] = int(self.table[suffix, byte]) if node else 0
                self.table[node, byte] = child
                waiting.append(child)

    def suffixes(self, node: int) -> Iterator[int]:
        """The nodes of all suffixes of a node's text, the longest first, down to node 0."""
        while node:
            yield node
            node = self.suffix[node]
        yield 0
