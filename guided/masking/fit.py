"""In: an index; out: who says which of its tokens leave an answer that still fits the request's budget. Knows no request.

`budget.Completions` for a closed index is exact; `growing_budget.GrowingCompletions` works with short completions instead of shortest.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

import numpy as np

from guided.index.spelling import Speller
from guided.masking.budget import Completions, DoesNotFit, Plan
from guided.masking.growing_budget import GrowingCompletions
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guided.index.token_index import TokenIndex

__all__ = ["DoesNotFit", "Fit", "FitMemo", "Plan"]

_MEMO_INDEXES = 64


class Fit(Protocol):
    """Keeps the answers of one index within a budget."""

    def may_bind(self, tokens_left: int) -> bool:
        """Could some token, in some state, leave too little of `tokens_left`?"""
        ...

    def narrow(self, state: int, words: np.ndarray, left: int, plan: Plan | None) -> tuple[np.ndarray, Plan | None]:
        """The tokens of `words`, uint32[ceil(vocabulary / 32)], after which `left` - 1 tokens can complete the answer.

        Args:
            words: what the constraint allows in `state`; not changed.
            plan: tokens that are known to complete the answer from `state`, from an earlier call.

        Returns:
            The words, and a plan for this state: who goes on with its first token hands the rest back.

        Raises:
            DoesNotFit: no answer of `left` tokens is known.
        """
        ...

    def known_plan(self, state: int) -> Plan | None:
        """The plan that `narrow` found for a state on its own, if it did so lately."""
        ...


class FitMemo:
    """The `Fit` of the indexes that were used last."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._speller = Speller(vocabulary)
        self._known: OrderedDict[int, Fit] = OrderedDict()  # id of an index, which is held

    def forget(self, index: TokenIndex) -> None:
        """What is known about the index is void: its states have other numbers now."""
        self._known.pop(id(index), None)

    def of(self, index: TokenIndex) -> Fit:
        fit = self._known.get(id(index))
        if fit is None:
            if len(self._known) >= _MEMO_INDEXES:
                self._known.popitem(last=False)
            kind = Completions if index.is_closed else GrowingCompletions
            fit = self._known[id(index)] = kind(index, self._speller)
        self._known.move_to_end(id(index))
        return fit
