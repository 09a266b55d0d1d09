"""In: the machine, and the container if this is one; out: the CPUs and the memory that this process may use. Knows no settings."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cpus() -> int:
    """Those that this process may run on, or as many as its container may be busy."""
    found = [len(os.sched_getaffinity(0))]
    for quota, period in _quotas():
        found.append(math.ceil(quota / period))
    return max(1, min(found))


def memory_bytes() -> int:
    """What the machine has, or its container may take."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory.max", "memory.limit_in_bytes"):  # of version 2, and 1
        found += [int(text) for text in _read(name, "memory") if text.isdecimal()]
    return min(found)


def _quotas() -> Iterator[tuple[int, int]]:
    """CPU time and the time in which it may be used, microseconds."""
    for text in _read("cpu.max", "cpu"):
        quota, _, period = text.partition(" ")
        if quota.isdecimal():  # else "max"
            yield int(quota), int(period)
    limits = zip(_read("cpu.cfs_quota_us", "cpu"), _read("cpu.cfs_period_us", "cpu"), strict=False)
    for quota, period in limits:
        if quota.isdecimal():  # else -1
            yield int(quota), int(period)


def _read(name: str, controller: str) -> Iterator[str]:
    """A file of the control groups that this process is in, the innermost one first."""
    for group in _groups(controller):
        try:
            yield (group / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue


def _groups(controller: str) -> Iterator[Path]:
    """Their folders, up to that of all; in a container, which sees its own as that of all, there is one."""
    try:
        lines = _OWN.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUPS / controllers if controllers else _CGROUPS
        group = root / path.lstrip("/")
        yield group
        yield from (parent for parent in group.parents if parent.is_relative_to(root))
