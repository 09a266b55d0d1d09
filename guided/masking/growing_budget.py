"""In: an index that still grows and a state; out: tokens after which the answer can be finished in n more. Knows no request.

How many tokens the shortest answer needs is not known here. What is known is a string that completes a state
(`guided.automaton.endings`) and the fewest tokens that spell it: an upper bound, most often exact. A token is allowed where the bound
of the state after it fits. That alone could leave none, since the bound may rise by a step that the string itself takes: so a request
keeps the tokens of the string that fitted last as its *plan*, and the plan's next token is always allowed. An answer that ends is
therefore complete; near the end of a tight budget some tokens are held back that would have fitted.

Finding a first completion may take more than the batch can wait for, with thousands of properties of which some are required. Then the
budget of this index is given up, for all its requests and with a warning in the log: their answers may be cut off, as without it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from guided.automaton.endings import FAR, NOT_ALONE, Endings
from guided.errors import LimitExceeded
from guided.index.overshoot import Overshoot
from guided.index.spelling import Speller
from guided.index.targets import token_targets
from guided.masking.budget import DoesNotFit, Plan, packed

if TYPE_CHECKING:
    from guided.index.token_index import TokenIndex

logger = logging.getLogger(__name__)

_MEMO_STATES = 16  # states whose targets are remembered: 8 bytes a token each
_MEMO_PLANS = 1 << 14
_SECONDS = 0.25  # of CPU time for one completion: the batch waits
_MOST_SPELT = 256  # targets of one state whose strings are spelt; the others count by their bytes


class GrowingCompletions:
    """Short completions of one index, asked for token by token."""

    def __init__(self, index: TokenIndex, speller: Speller) -> None:
        self._index = index
        self._speller = speller
        self._endings = Endings(index.automaton, _SECONDS, speller.alone)
        self._gave_up = False
        self._plans: dict[int, Plan | None] = {}
        self._overshoot = Overshoot(index, self._endings)
        self._targets: OrderedDict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = OrderedDict()

    def may_bind(self, tokens_left: int) -> bool:
        """See `Fit.may_bind`; an index that grows has no bound."""
        return True

    def narrow(self, state: int, words: np.ndarray, left: int, plan: Plan | None) -> tuple[np.ndarray, Plan | None]:
        """See `Fit.narrow`."""
        if self._gave_up or self._leaves_enough(state, left - 1):
            return words, None
        own = self.plan(state)
        if own is None and plan is None:
            logger.warning("no short completion was found: from now on answers to this constraint may be cut off")
            self._gave_up = True
            return words, None
        if own is None or len(own) > left:
            own = plan
        if own is None or len(own) > left:
            raise DoesNotFit(f"{left} tokens are left, and no answer is known that needs so few")
        fitting = words & self._fitting(state, left - 1)
        if own:
            fitting[own[0] >> 5] |= np.uint32(1 << (own[0] & 31))
        return fitting, own

    def known_plan(self, state: int) -> Plan | None:
        """See `Fit.known_plan`."""
        return self._plans.get(state)

    def plan(self, state: int) -> Plan | None:
        """Tokens that complete the answer from a state; None where none were found within the limits."""
        if state not in self._plans:
            if len(self._plans) >= _MEMO_PLANS:
                self._plans.clear()
            try:
                if state == self._index.start:
                    self._endings.shorten(state)
                text = self._endings.ending(state)
            except LimitExceeded:
                text = None
            self._plans[state] = None if text is None else self._speller.spell(text)
        return self._plans[state]

    def _leaves_enough(self, state: int, tokens_after: int) -> bool:
        """Is every token, by the bytes of what completes the answer after it, sure to leave enough?"""
        return self._overshoot.most_bytes(state) <= tokens_after

    def _fitting(self, state: int, tokens_after: int) -> np.ndarray:
        """uint32[ceil(vocabulary / 32)]: tokens after which `tokens_after` tokens are known to be enough."""
        number_of, targets, lengths = self._after(state)
        fits = np.zeros(len(targets) + 1, np.bool_)  # the last stands for tokens that are not allowed
        fits[:-1] = lengths <= tokens_after
        most_bytes = max(tokens_after, 0) * self._speller.longest_token
        asked = np.flatnonzero(~fits[:-1] & (lengths < FAR) & (lengths % NOT_ALONE <= most_bytes) & (targets >= 0))
        for i in asked[np.argsort(lengths[asked], kind="stable")][:_MOST_SPELT].tolist():
            plan = self.plan(int(targets[i]))
            fits[i] = plan is not None and len(plan) <= tokens_after
        return packed(fits[number_of])

    def _after(self, state: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(int32[vocabulary]: number of each token's target, int64[n]: the targets, int64[n]: `Endings.lengths` of them).

        Where each token leads to a target of its own, they are not told apart further than their tops: -1 stands for such a target.
        """
        known = self._targets.get(state)
        if known is None:
            if len(self._targets) >= _MEMO_STATES:
                self._targets.popitem(last=False)
            known = self._targets[state] = self._find_after(state)
        self._targets.move_to_end(state)
        return known

    def _find_after(self, state: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        automaton = self._index.automaton
        state = automaton.answered(state)
        if automaton.remembers(state):
            of_token, lengths_of = self._overshoot.after_tops(state)
            return of_token, np.full(len(lengths_of), -1), lengths_of
        of_token = token_targets(self._index, state)
        number_of_state = np.full(int(of_token.max()) + 2, -1, np.int32)  # the last is for DEAD, which is -1
        number_of_state[of_token] = 0
        number_of_state[-1] = -1
        targets = np.flatnonzero(number_of_state == 0)
        number_of_state[targets] = np.arange(len(targets))
        try:
            lengths = self._endings.lengths(targets)
        except LimitExceeded:
            lengths = np.full(len(targets), FAR)
        return number_of_state[of_token], targets, lengths
