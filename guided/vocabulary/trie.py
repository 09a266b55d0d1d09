"""Token bytes in, a byte trie as flat arrays in depth-first order out; knows neither tokenizers nor automata.

A walk over the trie is one loop over node numbers. Its step at node i, with `states[0]` the start state:

    state = delta[states[depth[i]], byte[i]]
    if dead(state):  i = subtree_end[i]                       # no token below can be allowed
    else:            states[depth[i] + 1] = state             # tokens that end here are allowed
                     allow(token_ids[token_start[i] : token_start[i + 1]]);  i = i + 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from guided.vocabulary.errors import VocabularyError

MAX_TOKEN_BYTES = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, eq=False)
class TokenBytes:
    """The bytes of every token id, back to back. `len()` is the number of ids; an empty token is never allowed as text."""

    data: npt.NDArray[np.uint8]  # uint8[total bytes]
    offsets: npt.NDArray[np.int64]  # int64[ids + 1]: token t is data[offsets[t] : offsets[t + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, token_id: int) -> bytes:
        if not 0 <= token_id < len(self):
            raise IndexError(f"token id {token_id} is outside of 0..{len(self) - 1}")
        return self.data[self.offsets[token_id] : self.offsets[token_id + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))

    def text_ids(self) -> npt.NDArray[np.int32]:
        """int32[text tokens]: the ids that have bytes, ascending."""
        return np.flatnonzero(np.diff(self.offsets)).astype(np.int32)

    @classmethod
    def from_pieces(cls, pieces: Iterable[bytes]) -> TokenBytes:
        """Lay pieces, listed by token id, back to back."""
        pieces = list(pieces)
        offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)), out=offsets[1:])
        # bytearray, not bytes: frozen memory would give the array another Numba type, and each kernel a second compilation.
        return cls(np.frombuffer(bytearray(b"".join(pieces)), dtype=np.uint8), offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A byte trie without its root: node 0 is the smallest first byte, and children are in the order of their bytes.

    Nodes are in depth-first order, so the subtree of node i is nodes i .. subtree_end[i] - 1, and tokens are sorted by their
    bytes (equal ones by id), so that the tokens

        of node i itself     are  token_ids[token_start[i] : token_start[i + 1]]
        of its whole subtree are  token_ids[token_start[i] : token_start[subtree_end[i]]]

    Consumers rely on both being contiguous.
    """

    byte: npt.NDArray[np.uint8]  # uint8[nodes]: the byte on the edge into the node
    depth: npt.NDArray[np.uint16]  # uint16[nodes]: bytes before this one; 0 for the first byte of a token
    subtree_end: npt.NDArray[np.int32]  # int32[nodes]: first node after the subtree
    token_start: npt.NDArray[np.int32]  # int32[nodes + 1]: first of the node's tokens in token_ids
    token_ids: npt.NDArray[np.int32]  # int32[tokens]: ids sorted by bytes

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.byte)

    @property
    def max_depth(self) -> int:
        """Bytes of the longest token; a walk needs that many states and one more."""
        return int(self.depth.max(initial=0)) + 1 if len(self) else 0

    @classmethod
    def build(cls, token_bytes: TokenBytes, ids: npt.ArrayLike | None = None) -> Trie:
        """The trie of all text tokens, or of those among `ids` (distinct, any order; ids without bytes are left out).

        Takes time linear in the number of bytes. Raises VocabularyError where a token is longer than 65,535 bytes.
        """
        # Imported here: Numba takes a while, and a cached vocabulary does without.
        from guided.vocabulary import trie_kernels as kernels

        data, offsets = token_bytes.data, token_bytes.offsets
        chosen = token_bytes.text_ids() if ids is None else np.unique(np.asarray(ids, dtype=np.int32))
        lengths = np.diff(offsets)[chosen]
        if lengths.max(initial=0) > MAX_TOKEN_BYTES:
            raise VocabularyError(f"a token has {lengths.max()} bytes, more than {MAX_TOKEN_BYTES}")
        token_ids = chosen[lengths > 0].astype(np.int32)
        kernels.sort_by_bytes(data, offsets, token_ids)
        shared = kernels.shared_prefixes(data, offsets, token_ids)
        nodes = int(lengths.sum() - shared.sum(dtype=np.int64))
        trie = cls(
            byte=np.empty(nodes, np.uint8),
            depth=np.empty(nodes, np.uint16),
            subtree_end=np.empty(nodes, np.int32),
            token_start=np.empty(nodes + 1, np.int32),
            token_ids=token_ids,
        )
        kernels.fill_nodes(data, offsets, token_ids, shared, trie.byte, trie.depth, trie.subtree_end, trie.token_start)
        return trie
