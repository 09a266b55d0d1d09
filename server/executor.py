"""In: vLLM's executor of worker processes; out: the same, whose scheduler sleeps while the model runs. Knows no constraint.

vLLM's engine core asks the workers' shared memory over and over until their answer is there. That saves a wake-up, some tens of
microseconds, and takes a whole CPU. Where the model itself runs on CPUs, that is the one which vLLM leaves to scheduler, gateway and
compilations: they are then pushed onto those of the model, and hold up its steps (`docs/cache.md`).
"""

from __future__ import annotations

from vllm.config import VllmConfig
from vllm.distributed.device_communicators.shm_broadcast import SpinCondition
from vllm.platforms import current_platform
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

_NAP_MS = 1  # notifications may be dropped (their socket holds one): without an end to the nap the answer would lie there for a minute


class SleepingExecutor(MultiprocExecutor):
    """Waits for an answer asleep from the first moment on; vLLM's own does so after a second without one."""

    def _post_init_executor(self) -> None:
        super()._post_init_executor()
        for queue in self.response_mqs:
            if queue._spin_condition is not None:  # those of other nodes come over the network
                sleep_in_naps(queue._spin_condition)


def sleep_in_naps(condition: SpinCondition) -> None:
    """From now on the condition waits asleep, until it is notified or the nap is over; who waits looks and waits again."""
    wait = condition.wait
    condition.busy_loop_s = 0.0
    condition.wait = lambda timeout_ms=None: wait(_NAP_MS if timeout_ms is None else min(timeout_ms, _NAP_MS))


def sleep_while_waiting(config: VllmConfig) -> None:
    """Puts the executor into the configuration of an engine on CPUs, unless somebody chose another one."""
    parallel = config.parallel_config
    if current_platform.is_cpu() and parallel.distributed_executor_backend == "mp":
        parallel.distributed_executor_backend = f"{SleepingExecutor.__module__}.{SleepingExecutor.__qualname__}"
