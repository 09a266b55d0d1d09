"""In: vLLM's V2 calls (`add_request`, `apply`); out: the same calls on a `HistoryMasker`. Knows no automaton.

This is the interface of the GPU default in vLLM 0.32. A slot is taken over without a word about the request that left it, and a
preempted request comes back as a new one whose output is part of what is prefilled: it is replayed from the history.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor, LogitsProcRequestState

from guided.cache import RemoteOptions, Spare
from guided.compiler import warm_up
from guided.masking.history_masker import History, HistoryMasker, Layout
from guided.masking.pressure import left_of, log_mass
from guided.vllm_adapters.index_store import IndexStore
from guided.vllm_adapters.mask_times import MaskTimes
from guided.vllm_adapters.params import KEY, from_extra_args, token_budget
from guided.vllm_adapters.reports import reports_of_this_rank
from guided.vllm_adapters.step_reports import StepReports
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the rows of the constrained requests of a batch."""

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        model, speculation = vllm_config.model_config, vllm_config.speculative_config
        vocabulary = Vocabulary.from_pretrained(model.tokenizer, padded_size=model.get_vocab_size())
        self._requests = req_states
        self._max_model_len = model.max_model_len
        several_hosts = vllm_config.parallel_config.nnodes > 1
        self._store = IndexStore(
            vocabulary, remote=RemoteOptions.left(), spare=Spare.left(), compiles_at_need=several_hosts
        )
        self._masker = HistoryMasker(
            vocabulary,
            req_states.device,
            req_states.max_num_reqs,
            most_drafts=0 if speculation is None else speculation.num_speculative_tokens,
        )
        reports = reports_of_this_rank()
        self._reports = None if reports is None else StepReports(reports)
        self._times = None if reports is None else MaskTimes(vllm_config.instance_id)
        self._reported: dict[int, str] = {}  # slot -> name of the report that its request asked for
        warm_up(vocabulary)  # kernels are compiled or loaded now, not in the first request's step
        self._masker.warm_up()

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Runs in the API server. Raises ValueError for an entry in extra_args that is not ours."""
        from_extra_args(sampling_params.extra_args)

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """A request takes a slot; whoever had it is gone. Is it constrained?"""
        self._reported.pop(req_idx, None)
        extra = sampling_params.extra_args
        if not extra or KEY not in extra:
            self._masker.clear(req_idx)
            return False
        stop_tokens, name = sampling_params.all_stop_token_ids, "?"
        try:
            guided = from_extra_args(extra)
            assert guided is not None
            name, index = guided.request_id, self._store.get(guided)
            prompt_len = int(self._requests.prompt_len.np[req_idx])
            self._masker.put(
                req_idx,
                index,
                stop_tokens=stop_tokens,
                replayed=int(self._requests.prefill_len.np[req_idx]) - prompt_len,
                budget=token_budget(guided, sampling_params.max_tokens, prompt_len, self._max_model_len),
                name=name,
            )
            if guided.report is not None:
                self._reported[req_idx] = guided.report
        except Exception as error:  # noqa: BLE001 - an exception here would end the engine and every request in it
            self._masker.put_failed(req_idx, error, stop_tokens=stop_tokens, name=name)
        return True

    def apply_staged_writes(self) -> None:
        """Called once a step, before the forward pass."""
        self._masker.flush()

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """Masks in place. Rows of requests without a constraint keep every bit."""
        batch = ctx.idx_mapping_np.tolist() if self._reported else ()
        names = {slot: self._reported[slot] for slot in batch if slot in self._reported}
        if not names or self._reports is None:
            self._mask(logits, ctx)
            return logits
        rows = self._rows_of(names, logits, ctx)
        before = log_mass(logits, rows)
        self._mask(logits, ctx)
        mass, allowed = left_of(logits, rows, before)
        slots = ctx.expanded_idx_mapping[rows].long()
        position = ctx.pos[rows] + 1 - self._requests.prompt_len.gpu[slots]
        self._reports.put(names, torch.stack([slots.double(), position.double(), mass.double(), allowed.double()], 1))
        return logits

    def _rows_of(self, names: dict[int, str], logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """int64[n]: rows of the requests that asked; all rows where drafts leave it to the device which they are."""
        batch = ctx.idx_mapping_np.tolist()
        chosen = range(logits.shape[0])
        if logits.shape[0] == len(batch):
            chosen = [row for row, slot in enumerate(batch) if slot in names]  # type: ignore[assignment]
        return torch.tensor(list(chosen), dtype=torch.int64).to(logits.device, non_blocking=True)

    def _mask(self, logits: torch.Tensor, ctx: LogitsContext) -> None:
        prompt_len = self._requests.prompt_len
        layout = Layout(
            slots=ctx.idx_mapping_np,
            most_output=ctx.seq_lens_upper_bound_np - prompt_len.np[ctx.idx_mapping_np],
            row_slot=ctx.expanded_idx_mapping,
            row_draft=ctx.expanded_local_pos,
            row_token=ctx.input_ids,
        )
        requests = self._requests
        history = History(requests.all_token_ids.gpu, prompt_len.gpu, requests.total_len.gpu)
        begin = time.perf_counter()
        if self._masker.apply(logits, layout, history) and self._times is not None:
            self._times.count(time.perf_counter() - begin)
