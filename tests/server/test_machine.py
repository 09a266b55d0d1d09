"""How many CPUs and how much memory a container may use, whatever its machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server import machine
from server.settings import Settings


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Writes files of control groups; no process is in one but for these."""
    root = tmp_path / "cgroup"
    monkeypatch.setattr(machine, "_CGROUPS", root)
    monkeypatch.setattr(machine, "_OWN", tmp_path / "own")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: set(range(64)))
    pages = {"SC_PHYS_PAGES": (256 << 30) // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(machine.os, "sysconf", pages.__getitem__)

    def write(own: str, **files: str) -> None:
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = root / Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def test_a_machine_without_limits(group):
    assert (machine.cpus(), machine.memory_bytes()) == (64, 256 << 30)
    group("0::/\n", **{"cpu.max": "max 100000\n", "memory.max": "max\n"})
    assert (machine.cpus(), machine.memory_bytes()) == (64, 256 << 30)


@pytest.mark.parametrize(("quota", "cpus"), [("400000 100000", 4), ("250000 100000", 3), ("5000 100000", 1)])
def test_a_container(group, quota, cpus):
    group("0::/\n", **{"cpu.max": f"{quota}\n", "memory.max": f"{14 << 30}\n"})
    assert (machine.cpus(), machine.memory_bytes()) == (cpus, 14 << 30)


def test_groups_within_groups(group):
    """As a service of systemd has them: the least counts."""
    group(
        "0::/a/b\n", **{"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n", "a/b/memory.max": f"{1 << 30}\n"}
    )
    assert (machine.cpus(), machine.memory_bytes()) == (2, 1 << 30)


def test_the_first_version_of_control_groups(group):
    own = "5:cpu,cpuacct:/box\n4:memory:/box\n"
    files = {"cpu.cfs_quota_us": "600000\n", "cpu.cfs_period_us": "100000\n"}
    files = {f"cpu,cpuacct/box/{name}": text for name, text in files.items()}
    group(own, **files, **{"memory/box/memory.limit_in_bytes": f"{2 << 30}\n"})
    assert (machine.cpus(), machine.memory_bytes()) == (6, 2 << 30)


@pytest.mark.parametrize(
    ("cpus", "memory_bytes", "given", "workers"),
    [
        (64, 256 << 30, {}, 16),
        (64, 14 << 30, {}, 3),
        (4, 14 << 30, {}, 2),
        (64, 14 << 30, {"compile_memory_bytes": 256 << 20}, 14),
        (64, 14 << 30, {"compile_workers": 12}, 12),
    ],
)
def test_there_are_as_many_workers_as_there_is_room_for(monkeypatch, cpus, memory_bytes, given, workers):
    monkeypatch.setattr(machine, "cpus", lambda: cpus)
    monkeypatch.setattr(machine, "memory_bytes", lambda: memory_bytes)
    assert Settings(**given).compile_workers == workers


def test_this_machine():
    assert 1 <= machine.cpus() <= (os.cpu_count() or 1) and machine.memory_bytes() > 1 << 20
