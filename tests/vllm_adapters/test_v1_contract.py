"""Fails when vLLM changes what our V1 processor, our engine class or our application stand on."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import SimpleNamespace
from typing import get_args

from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality
from vllm.v1.sample.logits_processor.interface import AddedRequest, MovedRequest
from vllm.v1.sample.logits_processor.state import BatchUpdateBuilder
from vllm.v1.sample.sampler import Sampler

from guided.vllm_adapters.select import processor_name
from guided.vllm_adapters.v1 import GuidedLogitsProcessor


def names(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_methods_that_a_processor_has_to_have():
    assert LogitsProcessor.__abstractmethods__ == {"__init__", "apply", "is_argmax_invariant", "update_state"}
    assert names(LogitsProcessor.__init__) == ["self", "vllm_config", "device", "is_pin_memory"]
    assert names(LogitsProcessor.apply) == ["self", "logits"]
    assert names(LogitsProcessor.update_state) == ["self", "batch_update"]
    assert names(LogitsProcessor.validate_params) == ["sampling_params"]


def test_ours_has_the_same_signatures():
    for method in ("__init__", "apply", "is_argmax_invariant", "update_state", "validate_params"):
        assert names(getattr(GuidedLogitsProcessor, method)) == names(getattr(LogitsProcessor, method))
    module, name = processor_name(SimpleNamespace(use_v2_model_runner=False, speculative_config=None)).split(":")
    assert (module, name) == (GuidedLogitsProcessor.__module__, GuidedLogitsProcessor.__qualname__)


def test_what_a_batch_update_says():
    assert [field.name for field in fields(BatchUpdate)] == ["batch_size", "removed", "added", "moved"]
    assert len(get_args(AddedRequest)) == 4  # index, params, prompt tokens, output tokens
    assert len(get_args(MovedRequest)) == 3
    assert {direction.name for direction in MoveDirectionality} == {"UNIDIRECTIONAL", "SWAP"}


def test_removals_come_sorted_downwards_and_output_lists_are_live():
    builder = BatchUpdateBuilder()
    output: list[int] = []
    builder.removed_append(1)
    builder.removed_append(3)
    builder.added.append((0, None, None, output))
    update = builder.get_and_reset(4)
    assert update is not None
    assert update.added[0][3] is output


def test_processors_run_on_float32_before_penalties_and_temperature():
    source = inspect.getsource(Sampler.forward)
    assert source.index("to(torch.float32)") < source.index("apply_logits_processors") < source.index("self.sample(")
    source = inspect.getsource(Sampler.apply_logits_processors)
    order = ["allowed_token_ids_mask", "apply_bad_words", "non_argmax_invariant", "apply_penalties("]
    assert [source.index(step) for step in order] == sorted(source.index(step) for step in order)


def test_the_call_that_every_route_ends_in():
    parameters = inspect.signature(AsyncLLM.generate).parameters
    assert list(parameters)[:4] == ["self", "prompt", "sampling_params", "request_id"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in list(parameters.values())[4:])
