"""Null, true and false of a schema as one shape: the ones that are allowed; knows no bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literals:
    """A set of literals, all null or all booleans."""

    values: frozenset[bool | None]

    def meet(self, other: Literals) -> Literals | None:
        """The intersection; None where it is empty."""
        values = self.values & other.values
        return Literals(values) if values else None


ANY_NULL = Literals(frozenset({None}))
ANY_BOOLEAN = Literals(frozenset({True, False}))
