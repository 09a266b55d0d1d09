"""In: the engine's configuration; out: the name of the processor class that its runner can load. Imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.config import VllmConfig

V1 = "guided.vllm_adapters.v1:GuidedLogitsProcessor"
V2 = "guided.vllm_adapters.v2:GuidedLogitsProcessor"


def processor_name(config: VllmConfig) -> str:
    """The "module:Class" for `ModelConfig.logits_processors`; the worker process imports it, the caller does not.

    vLLM itself decides which runner it is (platform, Triton, features of the model and the command line); each refuses classes of
    the other's interface.
    """
    return V2 if config.use_v2_model_runner else V1
