"""The engine's scheduler sleeps while the model runs, where that is on CPUs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import zmq
from vllm.distributed.device_communicators.shm_broadcast import SpinCondition
from vllm.platforms import current_platform
from vllm.v1.executor.abstract import Executor

from server.executor import SleepingExecutor, sleep_in_naps, sleep_while_waiting


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


@pytest.fixture
def condition(tmp_path) -> Iterator[SpinCondition]:
    """A reader whose writer never notifies it."""
    with zmq.Context() as context:
        condition = SpinCondition(is_reader=True, context=context, notify_address=f"ipc://{tmp_path}/notify")
        yield condition
        for socket in (condition.local_notify_socket, condition.write_cancel_socket, condition.read_cancel_socket):
            socket.close(0)


def test_no_queue_spins(condition):
    executor = SleepingExecutor.__new__(SleepingExecutor)
    executor.response_mqs = [SimpleNamespace(_spin_condition=condition), SimpleNamespace(_spin_condition=None)]
    executor._post_init_executor()
    assert condition.busy_loop_s == 0.0


@pytest.mark.parametrize("timeout_ms", [None, 60_000])
def test_a_notification_that_was_lost_is_not_waited_for(condition, timeout_ms):
    sleep_in_naps(condition)
    waiting = threading.Thread(target=condition.wait, args=(timeout_ms,), daemon=True)
    waiting.start()
    waiting.join(30)
    is_over = not waiting.is_alive()
    condition.cancel()
    waiting.join()
    assert is_over
