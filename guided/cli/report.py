"""How results are shown: one JSON object, or aligned lines for people. Knows no command."""

from __future__ import annotations

import json
import sys
from typing import Any

from guided.errors import ConstraintError


def refusal(error: ConstraintError, as_json: bool) -> None:
    """Shows why a constraint was refused: on stdout for machines, on stderr for people."""
    if not as_json:
        print(f"refused ({error.code}): {error.describe()}", file=sys.stderr)
        return
    names = ("code", "message", "pointer", "line", "column", "hint", "keyword", "limit")
    about = {name: value for name in names if (value := getattr(error, name, None)) is not None}
    write_json({"ok": False, "error": about})


def write_json(value: dict[str, Any]) -> None:
    """One object, one line; text outside of ASCII stays readable."""
    print(json.dumps(value, ensure_ascii=False))


def write_table(rows: dict[str, str]) -> None:
    """`name   value` lines; a value of several lines is indented as a whole."""
    width = max(map(len, rows))
    for name, value in rows.items():
        first, *rest = value.split("\n")
        print(f"{name:<{width}}  {first}".rstrip())
        for line in rest:
            print(f"{'':<{width}}  {line}".rstrip())


def size(num_bytes: int) -> str:
    """Bytes for people: 512 B, 3.4 KiB, 12.0 MiB."""
    value, unit = float(num_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{num_bytes} B" if unit == "B" else f"{value:.1f} {unit}"


def duration(seconds: float) -> str:
    """Seconds for people: 85 µs, 3.4 ms, 1.25 s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def times(seconds: dict[str, float]) -> str:
    """Stages in order, one a line."""
    width = max(map(len, seconds))
    return "\n".join(f"{name:<{width}}  {duration(value)}" for name, value in seconds.items())
