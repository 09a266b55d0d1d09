"""An index goes in, how many tokens its shortest answer needs comes out. Knows no request."""

from __future__ import annotations

from guided.automaton.endings import Endings
from guided.errors import LimitExceeded
from guided.index.shortest import UNREACHABLE
from guided.index.spelling import Speller
from guided.index.token_index import TokenIndex


def fewest_tokens(index: TokenIndex) -> int | None:
    """Of the shortest answer, without the stop token; None where no answer was found within the limits.

    Exact for a closed index. For one that still grows, and is not closed for this, it is what the shortest known string takes: never
    less than the truth, and what `guided.masking` goes by when it makes answers fit a budget.
    """
    try:
        if index.is_closed:
            needed = index.min_tokens(index.start)
            return None if needed == UNREACHABLE else needed
        speller = Speller(index.vocabulary)
        endings = Endings(index.automaton, alone=speller.alone)
        endings.shorten(index.start)
        text = endings.ending(index.start)
    except LimitExceeded:
        return None
    tokens = None if text is None else speller.spell(text)
    return None if tokens is None else len(tokens)
