"""Texts that an output contains word for word: as letters, or as the special tokens that they may be made of.

Which names a vocabulary has as special tokens is not known here. What looks like one ("<tool_call>", "<|im_end|>", "[TOOL_CALLS]")
may be read either way; where the vocabulary has no such token, nothing can take the second way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from guided.automaton.network import Network, special_token_bytes

_NAMES = re.compile(rb"<[^<>\s]{1,64}>|\[/?[A-Z_]{1,64}\]")


def names_in(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """What may be a special token: where it begins and ends, and the byte string that stands for it in networks."""
    for match in _NAMES.finditer(text):
        yield match.start(), match.end(), special_token_bytes(match[0].decode())


class Spelled:
    """Texts that begin at one state; what they have in common they share."""

    def __init__(self, network: Network, start: int) -> None:
        self._network = network
        self._states = {b"": start}
        self._named: set[tuple[bytes, bytes]] = set()

    def after(self, text: bytes, beginning: int) -> int:
        """The state after the first `beginning` bytes of `text`, which is added."""
        for size in range(1, len(text) + 1):
            if text[:size] not in self._states:
                state = self._states[text[:size]] = self._network.state()
                self._network.edge(self._states[text[: size - 1]], 1 << text[size - 1], state)
        for begin, end, name in names_in(text):
            if (text[:begin], text[:end]) not in self._named:
                self._named.add((text[:begin], text[:end]))
                self._network.literal(self._states[text[:begin]], name, self._states[text[:end]])
        return self._states[text[:beginning]]
