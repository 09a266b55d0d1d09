"""The engine's scheduler sleeps while the model runs, where that is on CPUs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from vllm.platforms import current_platform
from vllm.v1.executor.abstract import Executor

from server.executor import SleepingExecutor, sleep_while_waiting


def _config(backend: str) -> SimpleNamespace:
    return SimpleNamespace(parallel_config=SimpleNamespace(distributed_executor_backend=backend))


@pytest.mark.parametrize(
    "backend, is_cpu, ours", [("mp", True, True), ("mp", False, False), ("external_launcher", True, False)]
)
def test_engines_on_cpus_get_it(backend, is_cpu, ours, monkeypatch):
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: is_cpu)
    config = _config(backend)
    sleep_while_waiting(config)
    assert (Executor.get_class(config) is SleepingExecutor) == ours


def test_no_queue_spins():
    executor = SleepingExecutor.__new__(SleepingExecutor)
    spinning = SimpleNamespace(_spin_condition=SimpleNamespace(busy_loop_s=1.0))
    executor.response_mqs = [spinning, SimpleNamespace(_spin_condition=None)]
    executor._post_init_executor()
    assert spinning._spin_condition.busy_loop_s == 0.0
