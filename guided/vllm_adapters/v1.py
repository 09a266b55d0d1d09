"""In: vLLM's V1 calls (`update_state`, `apply`); out: the same calls on a `BatchMasker`. Knows no automaton.

This is the interface of the CPU build and of the legacy runner on GPUs. Tokens are read in `apply`, not in `update_state`:
between the two the runner replaces the placeholders that it wrote for tokens still on their way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from guided.cache import RemoteOptions, Spare
from guided.compiler import warm_up
from guided.masking import BatchMasker
from guided.masking.pressure import Pressure
from guided.masking.slot import Slot, states_visited
from guided.vllm_adapters.index_store import IndexStore
from guided.vllm_adapters.mask_times import MaskTimes
from guided.vllm_adapters.params import KEY, from_extra_args, token_budget
from guided.vllm_adapters.reports import reports_of_this_rank
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig


logger = logging.getLogger(__name__)


class Continued(Sequence[int]):
    """An answer whose beginning is part of the prompt, before the live list of the output."""

    def __init__(self, prefix: Sequence[int], output: Sequence[int]) -> None:
        self._prefix, self._output = prefix, output

    def __len__(self) -> int:
        return len(self._prefix) + len(self._output)

    def __getitem__(self, position: Any) -> Any:
        assert isinstance(position, int) and position >= 0
        count = len(self._prefix)
        return self._prefix[position] if position < count else self._output[position - count]


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the rows of the constrained requests of a batch."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        model = vllm_config.model_config
        vocabulary = Vocabulary.from_pretrained(model.tokenizer, padded_size=model.get_vocab_size())
        self._max_model_len = model.max_model_len
        several_hosts = vllm_config.parallel_config.nnodes > 1
        self._store = IndexStore(
            vocabulary, remote=RemoteOptions.left(), spare=Spare.left(), compiles_at_need=several_hosts
        )
        self._masker = BatchMasker(vocabulary, device, on_leave=self._report)
        self._reports = reports_of_this_rank()
        self._times = None if self._reports is None else MaskTimes(vllm_config.instance_id)
        warm_up(vocabulary)  # kernels are compiled or loaded now, not in the first request's step
        self._masker.warm_up()

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Runs in the API server. Raises ValueError for an entry in extra_args that is not ours."""
        from_extra_args(sampling_params.extra_args)

    def is_argmax_invariant(self) -> bool:
        """A constraint changes what greedy sampling picks."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows the batch: removed, added, moved, in that order, as the interface asks."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._masker.remove(row)
        for row, params, prompt, output in batch_update.added:
            self._masker.remove(row)  # an added request may replace one without a removal
            self._add(row, params, prompt, output)
        for source, target, direction in batch_update.moved:
            if direction == MoveDirectionality.SWAP:
                self._masker.swap(source, target)
            else:
                self._masker.move(source, target)

    def _add(self, row: int, params: SamplingParams, prompt: list[int] | None, output: list[int]) -> None:
        if not params.extra_args or KEY not in params.extra_args:
            return
        stop_tokens, name = params.all_stop_token_ids, "?"
        try:
            guided = from_extra_args(params.extra_args)
            assert guided is not None
            name, index = guided.request_id, self._store.get(guided)
            budget = token_budget(guided, params.max_tokens, len(prompt or ()), self._max_model_len)
            if self._store.breaks_off(guided, index):
                budget = None
            written = (
                Continued((prompt or ())[len(prompt or ()) - guided.prefix :], output) if guided.prefix else output
            )
            pressure = None
            if guided.report is not None and self._reports is not None:
                pressure = Pressure(guided.report)
            self._masker.add(
                row, index, output=written, stop_tokens=stop_tokens, budget=budget, name=name, pressure=pressure
            )
        except Exception as error:  # noqa: BLE001 - an exception here would end the engine and every request in it
            self._masker.add_failed(row, error, stop_tokens=stop_tokens, name=name)

    def _report(self, slot: Slot) -> None:
        if slot.pressure is None or self._reports is None:
            return
        try:
            mass, allowed = slot.pressure.read()
            if slot.failure is not None:  # its last mask ended the request, and chose no token of the answer
                del mass[-1:], allowed[-1:]
            self._reports.write(slot.pressure.name, mass, allowed, states_visited(slot))
        except Exception as error:  # noqa: BLE001 - a report is no reason to end the engine
            logger.warning("no report of request %s: %s: %s", slot.name, type(error).__name__, error)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Masks in place. Without a constrained request in the batch nothing is touched."""
        if len(self._masker):
            begin = time.perf_counter()
            self._masker.advance()
            self._masker.mask(logits)
            if self._times is not None:
                self._times.count(time.perf_counter() - begin)
        return logits
