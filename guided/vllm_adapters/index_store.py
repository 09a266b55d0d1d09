"""In: a constraint that arrived in the worker; out: its index, compiled at most once while it is in use. Knows no batch."""

from __future__ import annotations

import contextlib
from collections import OrderedDict

from guided.compiler import TokenIndex, compile
from guided.errors import LimitExceeded
from guided.limits import Budget, Limits
from guided.vllm_adapters.params import GuidedParams
from guided.vocabulary import Vocabulary

# What a new constraint may hold up the batch for: most are closed by then and cost the host nothing from then on.
_CLOSING = Limits(states=4_000, seconds=0.05)


class IndexStore:
    """The indexes of the constraints that were used last, at most `capacity` of them."""

    def __init__(self, vocabulary: Vocabulary, *, capacity: int = 256, limits: Limits | None = None) -> None:
        self._vocabulary = vocabulary
        self._capacity = capacity
        self._limits = limits or Limits()
        self._indexes: OrderedDict[str, TokenIndex] = OrderedDict()  # digest -> index, least recently used first

    def get(self, params: GuidedParams) -> TokenIndex:
        """The index of the constraint.

        Raises:
            ConstraintError: it does not compile here, although the gateway compiled it before.
        """
        index = self._indexes.get(params.digest)
        if index is None:
            index = compile(params.constraint, self._vocabulary, self._limits)
            self._close(index)
            self._indexes[params.digest] = index
            if len(self._indexes) > self._capacity:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(params.digest)
        return index

    def _close(self, index: TokenIndex) -> None:
        """Closes an index that is small; one that is not goes on growing where traffic needs it."""
        with contextlib.suppress(LimitExceeded):
            index.close(Budget(_CLOSING))
        index.use_budget(Budget(self._limits))
