"""In: what was measured of one step's masks, on the device; out: the same in the requests' reports. Knows no constraint.

Under vLLM's V2 runner nobody says when a request has left its slot, so each step is reported as it comes. A thread waits for the device
and writes, so the engine never does.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from queue import SimpleQueue

import torch

from guided.vllm_adapters.reports import Reports

logger = logging.getLogger(__name__)

_Step = tuple[dict[int, str], torch.Tensor, torch.cuda.Event | None]


class StepReports:
    """Writes steps in the order in which they were put."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._steps: SimpleQueue[_Step] = SimpleQueue()
        threading.Thread(target=self._write_all, name="guided-reports", daemon=True).start()

    def put(self, names: dict[int, str], rows: torch.Tensor) -> None:
        """
        Args:
            names: slot -> name of the request that has it in this step and asked for a report.
            rows: float64[rows, 4] on any device: slot, position of the token in the output, mass, allowed tokens.
        """
        if not rows.is_cuda:
            self._steps.put((names, rows, None))
            return
        on_host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        on_host.copy_(rows, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        self._steps.put((names, on_host, copied))

    def _write_all(self) -> None:
        while True:
            try:
                self._write(*self._steps.get())
            except Exception as error:  # noqa: BLE001 - a report is no reason to end the thread
                logger.warning("no report of a step: %s: %s", type(error).__name__, error)

    def _write(self, names: dict[int, str], rows: torch.Tensor, copied: torch.cuda.Event | None) -> None:
        if copied is not None:
            copied.synchronize()
        by_name: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
        for slot, position, mass, allowed in rows.tolist():
            if int(slot) in names:
                by_name[names[int(slot)]].append((int(position), mass, int(allowed)))
        for name, steps in by_name.items():
            self._reports.write_steps(name, steps)
