"""What can go wrong while a tokenizer is turned into bytes; knows no format.

ValueError
  └── VocabularyError          the tokenizer can't be served under a constraint, and why
"""

from __future__ import annotations


class VocabularyError(ValueError):
    """The tokenizer is of an unknown family, broken, or not there.

    It is the operator's error, not the caller's: it comes while a server starts, never in the middle of a request.
    """
