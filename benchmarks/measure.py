"""Functions go in, medians of their times come out; conditions take turns, because machines are noisy."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Condition = Callable[[], Any]


def milliseconds(conditions: Mapping[str, Condition], repeats: int, at_most_seconds: float = 5.0) -> dict[str, float]:
    """Median wall time of each condition over `repeats` rounds in turn.

    A condition that took longer than `at_most_seconds` once is not run again.
    """
    times: dict[str, list[float]] = {name: [] for name in conditions}
    for _ in range(repeats):
        for name, condition in conditions.items():
            if times[name] and max(times[name]) > 1e3 * at_most_seconds:
                continue
            begin = time.perf_counter()
            condition()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def ends_within(seconds: float, condition: Condition) -> bool:
    """Does it end in time? Tried in a forked process, which is killed if not, because native code cannot be interrupted."""
    process = multiprocessing.get_context("fork").Process(target=condition)
    process.start()
    process.join(seconds)
    ended = not process.is_alive()
    process.kill()
    process.join()
    return ended


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the sorted values lie (nearest rank)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def table(rows: Mapping[str, Mapping[str, Any]], unit: str) -> str:
    """A text table: one line a row, one column a key."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    width = max(len(name) for name in rows)
    lines = [" " * width + "".join(f"{name:>16}" for name in columns) + f"   [{unit}]"]
    for name, row in rows.items():
        cells = (row.get(column) for column in columns)
        lines.append(f"{name:{width}}" + "".join(f"{_cell(cell):>16}" for cell in cells))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
