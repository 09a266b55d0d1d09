"""In: a name that nobody knows and those that there are; out: the one that was meant, as far as can be guessed. Knows no fields."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 60  # characters: what is longer is no misspelt name, and comparing takes the square of that


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that is written most alike, whatever the case and the separators of `name`; None where none is near.

    Args:
        alike: how near it has to be, from 0 to 1, as difflib measures it.
    """
    if len(name) > _LONGEST:
        return None
    return next(iter(get_close_matches(name.lower().replace("-", "_"), known, 1, alike)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What a refusal says of the nearest name, behind its own words; empty where there is none."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near}?"
