"""Fails when vLLM changes what our V2 processor stands on."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import SimpleNamespace

from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor, LogitsProcRequestState

from guided.vllm_adapters.select import processor_name
from guided.vllm_adapters.v2 import GuidedLogitsProcessor


def names(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_methods_that_a_processor_has():
    assert LogitsProcessor.__abstractmethods__ == {"apply"}
    assert names(LogitsProcessor.__init__) == ["self", "vllm_config", "req_states"]
    assert names(LogitsProcessor.validate_params) == ["sampling_params"]
    assert names(LogitsProcessor.add_request) == ["self", "req_idx", "sampling_params"]
    assert names(LogitsProcessor.apply_staged_writes) == ["self"]
    assert names(LogitsProcessor.apply) == ["self", "logits", "ctx"]


def test_ours_has_the_same_signatures():
    for method in ("__init__", "validate_params", "add_request", "apply_staged_writes", "apply"):
        assert names(getattr(GuidedLogitsProcessor, method)) == names(getattr(LogitsProcessor, method))
    module, name = processor_name(SimpleNamespace(use_v2_model_runner=True, speculative_config=None)).split(":")
    assert (module, name) == (GuidedLogitsProcessor.__module__, GuidedLogitsProcessor.__qualname__)


def test_what_the_runner_shares():
    assert {field.name for field in fields(LogitsProcRequestState)} == {
        *("device", "max_num_reqs", "vocab_size", "all_token_ids", "prompt_len", "prefill_len", "total_len")
    }
    assert {field.name for field in fields(LogitsContext)} == {
        *("expanded_idx_mapping", "idx_mapping", "idx_mapping_np", "expanded_local_pos", "input_ids", "pos"),
        "seq_lens_upper_bound_np",
    }


def test_what_the_interface_promises():
    """The words that our reading of the tensors rests on; the file cannot be imported here in full without Triton."""
    source = inspect.getsource(inspect.getmodule(LogitsContext))
    for promise in (
        "Committed tokens live in ``req_states.all_token_ids`` (valid up to",
        "this step's draft tokens are only in ``input_ids``",
        "slots are recycled\n    through a free list",
        "partial output on resumption after preemption",
        "after the model runner\n        has flushed ``req_states``",
    ):
        assert promise in source
