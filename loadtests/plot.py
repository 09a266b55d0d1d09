"""In: last lines of JSON of load tests, one file each; out: SVG bar charts for RESULTS.md. Measures nothing.

python -m loadtests.plot compliance.json docs/pictures/compliance.svg
python -m loadtests.plot by_kind.json docs/pictures/by_kind.svg
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

WIDTH, ROW, LEFT, RIGHT, TOP = 640, 22, 190, 60, 44
COLOURS = ("#2b6cb0", "#a0aec0")


def bars(title: str, unit: str, rows: list[tuple[str, list[float]]], legend: list[str]) -> str:
    """Horizontal bars, one group a row; as many colours as `legend` has names."""
    largest = max((value for _, values in rows for value in values), default=0) or 1
    height = TOP + sum(ROW * len(values) + 8 for _, values in rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/><text x="8" y="18" font-weight="bold">{escape(title)}</text>',
    ]
    for i, name in enumerate(legend):
        parts.append(f'<rect x="{8 + 150 * i}" y="26" width="10" height="10" fill="{COLOURS[i]}"/>')
        parts.append(f'<text x="{22 + 150 * i}" y="35" font-size="11">{escape(name)}</text>')
    y = TOP
    for label, values in rows:
        parts.append(f'<text x="8" y="{y + 14}">{escape(label)}</text>')
        for colour, value in zip(COLOURS, values, strict=False):
            length = (WIDTH - LEFT - RIGHT) * value / largest
            parts.append(
                f'<rect x="{LEFT}" y="{y + 2}" width="{max(length, 1):.1f}" height="{ROW - 5}" fill="{colour}"/>'
            )
            parts.append(
                f'<text x="{LEFT + length + 5:.1f}" y="{y + 14}" font-size="11">{value:g} {escape(unit)}</text>'
            )
            y += ROW
        y += 8
    return "\n".join([*parts, "</svg>"]) + "\n"


def compliance(figures: dict[str, Any]) -> str:
    from loadtests.compliance import PUBLISHED_PERCENT

    rows = [
        (f"{task}, {method}", [kept["valid_percent"], float(PUBLISHED_PERCENT[method][task == "complex"])])
        for task, methods in figures["schemas"].items()
        for method, kept in methods.items()
    ]
    return bars("Answers that satisfy their schema", "%", rows, ["SmolLM2-135M, here", "published"])


def by_kind(figures: dict[str, Any]) -> str:
    rows = [(kind, [kept["tokens_per_second"]]) for kind, kept in figures["kinds"].items()]
    return bars("Tokens per second of a batch", "tokens/s", rows, ["median of the rounds"])


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    figures = json.loads(source.read_text(encoding="utf-8").splitlines()[-1])
    target.write_text(compliance(figures) if "schemas" in figures else by_kind(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
