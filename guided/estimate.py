"""How long answers are: a JSON Schema and a vocabulary go in, fewest, typical and most tokens come out; compiles what it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from guided.compiler import compile
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.index.token_index import TokenIndex
from guided.json_schema.prepare import Prepared, prepare
from guided.json_schema.typical import typical_value
from guided.limits import Budget, Limits
from guided.vocabulary import Vocabulary

MARGIN = 1.25  # of the typical answer, for `max_tokens`


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """Tokens of an answer, the stop token not counted.

    Attributes:
        fewest: of the shortest answer; exact if `is_exact`, otherwise of a short one.
        typical: of an answer with every property, texts of a sentence and arrays of three items, indented by two spaces
            unless the whitespace is compact; an estimate.
        most: of the longest answer; None: there is no bound, or it is not known because the index does not close.
        is_exact: the whole index is known.
        max_tokens: what to ask for: a quarter more than `typical`, and the stop token; never more than can be needed.
    """

    fewest: int
    typical: int
    most: int | None
    is_exact: bool
    max_tokens: int


def estimate_tokens(
    constraint: Constraint, vocabulary: Vocabulary, limits: Limits | None = None, index: TokenIndex | None = None
) -> TokenEstimate:
    """Fewest, typical and most tokens of the answers to a JSON Schema.

    Args:
        index: of the schema, closed as far as it is going to be; by default one is compiled and closed.

    Raises:
        ConstraintError: the schema is refused.
        TypeError: the constraint is not a schema.
    """
    if constraint.kind != "json":
        raise TypeError(f"the tokens of a JSON Schema are estimated, not those of a {constraint.kind}")
    limits = limits or Limits()
    prepared = prepare(constraint.value, constraint.options, Budget(limits))
    indent = None if constraint.options.get("whitespace") == "compact" else 2
    typical = _tokens_of(prepared, vocabulary, indent, bare=False)
    try:
        if index is None:
            index = compile(constraint, vocabulary, limits)
            index.close(Budget(limits), endless=False)
        elif not index.is_closed:
            raise LimitExceeded("the index is not closed", limit="states")
        fewest, most, is_exact = index.min_tokens(index.start), index.max_tokens(), True
    except LimitExceeded:  # a recursive schema, or one of very many states
        fewest, most, is_exact = _tokens_of(prepared, vocabulary, None, bare=True), None, False
    return TokenEstimate(fewest, typical, most, is_exact, suggested_tokens(fewest, typical, most))


def suggested_tokens(fewest: int, typical: int, most: int | None) -> int:
    """What to ask for, the stop token included."""
    wanted = ceil(MARGIN * max(fewest, typical)) + 1
    return wanted if most is None else min(wanted, most + 1)


def _tokens_of(prepared: Prepared, vocabulary: Vocabulary, indent: int | None, bare: bool) -> int:
    """Tokens of a made-up answer, cut greedily: a little more or fewer than the tokenizer's own merges give."""
    separators = (",", ":") if bare else None
    text = json.dumps(typical_value(prepared, bare), indent=indent, separators=separators, ensure_ascii=False)
    return greedy_count(text.encode(), vocabulary)


def greedy_count(data: bytes, vocabulary: Vocabulary) -> int:
    """Tokens of a byte string if each is the longest that fits."""
    pieces, longest = _pieces(vocabulary)
    count = position = 0
    while position < len(data):
        width = next((w for w in range(longest, 0, -1) if data[position : position + w] in pieces), 1)
        position, count = position + width, count + 1
    return count


@lru_cache(maxsize=4)
def _pieces(vocabulary: Vocabulary) -> tuple[frozenset[bytes], int]:
    """What tokens spell, and the bytes of the longest; to collect them takes longer than to use them."""
    pieces = frozenset(piece for piece in vocabulary.token_bytes if piece)
    return pieces, max(map(len, pieces))
