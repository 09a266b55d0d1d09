"""Guided decoding: constraints compiled into automata over bytes, indexed by the vocabulary of a model."""

from guided.constraint import Constraint
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, Unsatisfiable, UnsupportedKeyword
from guided.limits import Limits

__all__ = ["Constraint", "ConstraintError", "InvalidConstraint", "LimitExceeded", "Limits", "Unsatisfiable", "UnsupportedKeyword"]
