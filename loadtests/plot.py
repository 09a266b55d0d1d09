"""In: last lines of JSON of load tests, one file each; out: SVG bar charts for RESULTS.md. Measures nothing.

python -m loadtests.plot compliance.json docs/pictures/compliance.svg
python -m loadtests.plot by_kind.json docs/pictures/by_kind.svg
python -m loadtests.plot compile_storm.json docs/pictures/compile_storm.svg
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

WIDTH, ROW, LEFT, RIGHT, TOP = 640, 22, 190, 100, 44
COLOURS = ("#2b6cb0", "#a0aec0", "#dd6b20")


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
    """The published overheads as what they would leave of the plain streams' speed here."""
    plain = figures["kinds"]["plain"]["tokens_per_second"]
    published = figures["published_overhead_percent"]
    rows = [
        (
            kind,
            [kept["tokens_per_second"], *(round(plain * (1 - published[k] / 100), 1) for k in published if k == kind)],
        )
        for kind, kept in figures["kinds"].items()
    ]
    legend = ["here, median", "plain less the published overhead"]
    return bars("Tokens per second of a batch", "tokens/s", rows, legend)


def compile_storm(figures: dict[str, Any]) -> str:
    conditions = figures["p99_itl_ms"]
    rounds = zip(*conditions.values(), strict=True)
    rows = [(f"round {number}", list(values)) for number, values in enumerate(rounds, 1)]
    names = {"quiet": "quiet", "plain": "100 plain requests", "storm": "100 new schemas"}
    return bars("p99 of the time between two tokens", "ms", rows, [names[condition] for condition in conditions])


# A key that only this load test's figures have.
CHARTS = {"schemas": compliance, "kinds": by_kind, "p99_itl_ms": compile_storm}


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    figures = json.loads(source.read_text(encoding="utf-8").splitlines()[-1])
    charts = [chart for key, chart in CHARTS.items() if key in figures]
    if len(charts) != 1:
        raise SystemExit(f"{source}: no figures of {', '.join(chart.__name__ for chart in CHARTS.values())}")
    target.write_text(charts[0](figures), encoding="utf-8")


if __name__ == "__main__":
    main()
