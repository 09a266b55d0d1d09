"""Guided decoding: constraints compiled into automata over bytes, indexed by the vocabulary of a model."""

from guided.compiler import compile, warm_up
from guided.constraint import Constraint
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, Unsatisfiable, UnsupportedKeyword
from guided.index.token_index import TokenIndex
from guided.limits import Limits
from guided.vocabulary import Vocabulary

__all__ = [
    "Constraint",
    "ConstraintError",
    "InvalidConstraint",
    "LimitExceeded",
    "Limits",
    "TokenIndex",
    "Unsatisfiable",
    "UnsupportedKeyword",
    "Vocabulary",
    "compile",
    "warm_up",
]
