"""Guided decoding: constraints compiled into automata over bytes, indexed by the vocabulary of a model.

The names below are loaded when they are first used, so that what needs none of the compiled kernels, such as the help of
the command line, starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from guided import kernel_cache

if TYPE_CHECKING:
    from guided.compiler import compile, warm_up
    from guided.constraint import Constraint
    from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, Unsatisfiable, UnsupportedKeyword
    from guided.estimate import TokenEstimate, estimate_tokens
    from guided.index.token_index import TokenIndex
    from guided.json_schema.lint import LintWarning, lint
    from guided.limits import Limits
    from guided.vocabulary import Vocabulary

__all__ = [
    "Constraint",
    "ConstraintError",
    "InvalidConstraint",
    "LimitExceeded",
    "Limits",
    "LintWarning",
    "TokenEstimate",
    "TokenIndex",
    "Unsatisfiable",
    "UnsupportedKeyword",
    "Vocabulary",
    "compile",
    "estimate_tokens",
    "lint",
    "warm_up",
]

_HOMES = {
    "Constraint": "guided.constraint",
    "ConstraintError": "guided.errors",
    "InvalidConstraint": "guided.errors",
    "LimitExceeded": "guided.errors",
    "Limits": "guided.limits",
    "LintWarning": "guided.json_schema.lint",
    "TokenEstimate": "guided.estimate",
    "TokenIndex": "guided.index.token_index",
    "Unsatisfiable": "guided.errors",
    "UnsupportedKeyword": "guided.errors",
    "Vocabulary": "guided.vocabulary",
    "compile": "guided.compiler",
    "estimate_tokens": "guided.estimate",
    "lint": "guided.json_schema.lint",
    "warm_up": "guided.compiler",
}


kernel_cache.choose()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'guided' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
