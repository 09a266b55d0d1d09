"""In: vLLM's serving object of /v1/responses; out: the same, which refuses before the first event what it would refuse after it.

Of the three generating routes this is the one that asks the engine only when its stream is read: the status is sent by then, and so
are two events. Knows no constraint.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import State

from server.engine import GuidedEngine


def refuse_before_streaming(state: State, engine: GuidedEngine) -> None:
    """Has the engine look at every request of /v1/responses before its stream begins.

    Args:
        state: of the application, with vLLM's serving objects.
    """
    serving = getattr(state, "openai_serving_responses", None)
    if serving is None:  # the model generates nothing
        return
    generate = serving._generate_with_builtin_tools

    def admitted(**request: Any) -> Any:
        engine.admit(request["engine_input"], request["sampling_params"])
        return generate(**request)

    serving._generate_with_builtin_tools = admitted
