"""In: nothing but the environment; out: the name of the processor class that the engine has to load. Imports no engine."""

from __future__ import annotations

V1 = "guided.vllm_adapters.v1:GuidedLogitsProcessor"


def processor_name() -> str:
    """The "module:Class" for `AsyncEngineArgs(logits_processors=[...])`; the worker process imports it, the caller does not."""
    return V1
