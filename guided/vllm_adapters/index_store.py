"""In: a constraint that arrived in the worker; out: its index, compiled at most once while it is in use. Knows no batch."""

from __future__ import annotations

from collections import OrderedDict

from guided.compiler import TokenIndex, compile
from guided.limits import Limits
from guided.vllm_adapters.params import GuidedParams
from guided.vocabulary import Vocabulary


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
            self._indexes[params.digest] = index
            if len(self._indexes) > self._capacity:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(params.digest)
        return index
