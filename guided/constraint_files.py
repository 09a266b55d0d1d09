"""Files and folders go in, constraints come out: what a kind of file is called, and how it is read. Compiles nothing."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from guided.constraint import Constraint
from guided.errors import InvalidConstraint


def choices_of(text: str) -> list[str]:
    """A JSON list, or one choice a line."""
    if not text.lstrip().startswith("["):
        lines = (
            text.removesuffix("\n").split("\n") if text else []
        )  # str.splitlines would split at U+2028 and others too
        return [line.removesuffix("\r") for line in lines]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConstraint(f"the file of choices begins like a JSON list but is none: {error}") from error


_KINDS: dict[str, Callable[[str], Constraint]] = {
    ".schema.json": Constraint.json_schema,
    ".tag.json": Constraint.structural_tag,
    ".regex": lambda text: Constraint.regex(text.removesuffix("\n").removesuffix("\r")),
    ".lark": lambda text: Constraint.grammar(text, syntax="lark"),
    ".gbnf": lambda text: Constraint.grammar(text, syntax="gbnf"),
    ".choices": lambda text: Constraint.choice(choices_of(text)),
}
SUFFIXES = tuple(_KINDS)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The given files, and those in the given folders that are constraints by their names, each once.

    Raises:
        OSError: a path is not there, or a file that was given is no constraint by its name.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            # A mounted ConfigMap has its files twice, the second time in a folder that begins with two dots.
            inside = (p for p in sorted(path.rglob("*")) if p.name.endswith(SUFFIXES) and p.is_file())
            found |= dict.fromkeys(p for p in inside if not any(part.startswith("..") for part in p.parts))
            continue
        path.stat()
        if not path.name.endswith(SUFFIXES):
            kinds = ", ".join("*" + suffix for suffix in SUFFIXES)
            raise OSError(errno.EINVAL, f"no constraint by its name (there are {kinds})", str(path))
        found[path] = None
    return list(found)


def read_file(path: Path) -> Constraint:
    """The constraint in a file.

    Raises:
        OSError: it cannot be read.
        ConstraintError: it is refused for what it says.
    """
    suffix = next(suffix for suffix in SUFFIXES if path.name.endswith(suffix))
    try:
        return _KINDS[suffix](path.read_text(encoding="utf-8").removeprefix("\ufeff"))  # a byte order mark
    except UnicodeDecodeError as error:
        raise InvalidConstraint(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
