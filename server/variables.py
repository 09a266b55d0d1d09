"""In: names of settings and of variables; out: which of the variables are meant as settings and are none. Reads no value."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def unknown_variables(prefix: str, known: Collection[str], environment: Iterable[str]) -> list[str]:
    """A sentence for each variable that begins with `prefix` and is none of `known`, which are upper-case names."""
    found = sorted(name for name in environment if name.upper().startswith(prefix) and name.upper() not in known)
    return [no_setting(name, name.upper(), known) for name in found]


def no_setting(shown: str, name: str, known: Collection[str]) -> str:
    """That there is no such setting, and which one may be meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"{shown} is no setting{f': is it {close[0]}?' if close else ''}"
