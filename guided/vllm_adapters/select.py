"""In: the engine's arguments and configuration; out: its runner, and the name of the processor class that this one can load.

Imports no engine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.engine.arg_utils import EngineArgs

V1 = "guided.vllm_adapters.v1:GuidedLogitsProcessor"
V2 = "guided.vllm_adapters.v2:GuidedLogitsProcessor"
_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_SPECULATION = ("speculative_config", "spec_method", "spec_model", "spec_tokens")


class NoRunner(Exception):
    """The engine that was asked for has no runner that lets processors in."""


def let_drafts_choose(arguments: EngineArgs) -> None:
    """Where tokens are drafted, takes back that the V1 runner was asked for: it refuses any processor beside drafts."""
    if any(getattr(arguments, name) is not None for name in _SPECULATION) and os.environ.get(_RUNNER) == "0":
        del os.environ[_RUNNER]


def processor_name(config: VllmConfig) -> str:
    """The "module:Class" for `ModelConfig.logits_processors`; the worker process imports it, the caller does not.

    vLLM itself decides which runner it is (platform, Triton, features of the model and the command line); each refuses classes of
    the other's interface.

    Raises:
        NoRunner: tokens are drafted, and it is V1.
    """
    if config.use_v2_model_runner:
        return V2
    if config.speculative_config is not None:
        raise NoRunner(
            "speculative decoding beside constraints needs vLLM's V2 model runner, which needs Triton and so a GPU"
        )
    return V1
