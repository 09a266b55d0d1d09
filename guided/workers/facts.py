"""A constraint and its index go in; how long its answers are and what to mind comes out. Knows no worker."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from statistics import median_high
from typing import Any

from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.estimate import estimate_tokens, greedy_count, suggested_tokens
from guided.explain.characters import CharacterView
from guided.explain.samples import random_text
from guided.index.token_index import TokenIndex
from guided.json_schema.lint import warnings_of
from guided.json_schema.prepare import prepare
from guided.limits import Budget, Limits
from guided.vocabulary import Vocabulary

_SAMPLES = 31


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a constraint's answers. Tokens do not count the stop token, but for `max_tokens`, what to ask for.

    Attributes:
        fewest_tokens, most_tokens: exact; None where the index is not closed, or there is no bound.
        typical_tokens: an estimate: of an answer with every property for a schema, the median of random answers otherwise.
        warnings: where a model is likely to do badly with a schema; see `guided.json_schema.lint`.
    """

    fewest_tokens: int | None
    typical_tokens: int | None
    most_tokens: int | None
    max_tokens: int | None
    warnings: list[dict[str, Any]] = field(default_factory=list)


def facts_of(constraint: Constraint, index: TokenIndex, vocabulary: Vocabulary, limits: Limits) -> Facts:
    """Takes time beyond the compilation.

    Raises:
        LimitExceeded: more of it than `limits` say.
    """
    if constraint.kind == "json":
        tokens = estimate_tokens(constraint, vocabulary, limits, index)
        prepared = prepare(constraint.value, constraint.options, Budget(limits))
        warnings = [asdict(one) for one in warnings_of(prepared, constraint.options)]
        fewest = tokens.fewest if tokens.is_exact else None
        return Facts(fewest, tokens.typical, tokens.most, tokens.max_tokens, warnings)
    closed = index.is_closed
    fewest, most = (index.min_tokens(index.start), index.max_tokens()) if closed else (None, None)
    typical = _typical(index, vocabulary)
    return Facts(fewest, typical, most, None if typical is None else suggested_tokens(fewest or 0, typical, most))


def _typical(index: TokenIndex, vocabulary: Vocabulary) -> int | None:
    """The median length of random answers, the same ones each time; None where none was found."""
    view, source = CharacterView(index._dfa), random.Random(0)
    lengths = []
    try:
        for _ in range(_SAMPLES):
            text = random_text(view, source)
            if text is not None:
                lengths.append(greedy_count(text.encode(), vocabulary))
    except LimitExceeded:
        pass  # those that were found until then
    return median_high(lengths) if lengths else None
