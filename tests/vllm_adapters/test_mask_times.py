"""What the worker counts of its masks is what the API server exports."""

from __future__ import annotations

import os

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from guided.vllm_adapters.mask_times import BOUNDS, MaskTimes, read
from server.mask_metrics import MaskMetrics


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    return tmp_path


def count(times: MaskTimes, *seconds: float) -> None:
    for one in seconds:
        times.count(one)


def test_steps_are_counted_by_length():
    times = MaskTimes("engine")
    count(times, 0.0001, 0.0002, 0.0002, 7.0)
    counts, seconds = read("engine")
    assert counts == [1, 2, *[0] * (len(BOUNDS) - 2), 1] and seconds == pytest.approx(7.0005)
    assert read("another") is None


def test_workers_of_one_engine_count_together(monkeypatch):
    for process in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        count(MaskTimes("engine"), 0.0001)
    assert read("engine")[0][0] == 2


def test_the_metric():
    registry = CollectorRegistry()
    registry.register(MaskMetrics("engine"))
    assert b"guided_mask_seconds" not in generate_latest(registry), (
        "before the worker is there, and where it is elsewhere"
    )
    count(MaskTimes("engine"), 0.0001, 0.02)
    text = generate_latest(registry).decode()
    for line in (
        'bucket{le="0.0001"} 1.0',
        'bucket{le="0.01"} 1.0',
        'bucket{le="0.025"} 2.0',
        'bucket{le="+Inf"} 2.0',
        "count 2.0",
    ):
        assert f"guided_mask_seconds_{line}" in text


def test_a_folder_that_cannot_be_written_costs_the_counts_only(cache, caplog):
    (cache / "masks").write_text("in the way")
    count(MaskTimes("engine"), 0.1)
    assert "cannot be told" in caplog.text


def test_files_of_engines_that_are_long_gone(cache):
    MaskTimes("old")
    (path,) = (cache / "masks").iterdir()
    os.utime(path, (0, 0))
    MaskTimes("new")
    assert [one.name.partition("-")[0] for one in (cache / "masks").iterdir()] == ["new"]
