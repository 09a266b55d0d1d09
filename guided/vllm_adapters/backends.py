"""In: vLLM's manager of structured outputs; out: the same, with one backend of each name instead of one for the life of the process.

vLLM lets the first constraint decide which of its backends serves all later ones, whatever those were validated for. A request that
names a backend here gets that one. The entry point `vllm.general_plugins` calls `register` in every process of vLLM.
"""

from __future__ import annotations

import copy
import sys
from typing import Any


def register() -> None:
    """Replaces two methods of the manager in the process that has one, the engine's core; a second call changes nothing.

    Nothing is imported for it: the workers do without the manager, and on a CPU do not start where its backends are imported first.
    """
    module = sys.modules.get("vllm.v1.structured_output")
    manager = getattr(module, "StructuredOutputManager", None)
    if manager is not None and not hasattr(manager, "_backends_by_name"):
        manager._backends_by_name = property(_backends_by_name)
        manager.grammar_init = _grammar_init(manager.grammar_init)
        manager._create_grammar = _create_grammar


def _backends_by_name(manager: Any) -> dict[str, Any]:
    return manager.__dict__.setdefault("_guided_backends", {})


def _name(request: Any) -> str:
    return request.sampling_params.structured_outputs._backend


def _grammar_init(original: Any) -> Any:
    def grammar_init(self: Any, request: Any) -> None:
        """Runs in the thread that takes requests in; the scheduler looks at the manager, and at its backend, in the meantime."""
        if request.structured_output_request is None:
            return
        backends, name = self._backends_by_name, _name(request)
        maker = copy.copy(self)
        maker.backend = backends.get(name)  # None: `original` makes the one that the request names
        original(maker, request)
        backends[name] = maker.backend
        if self.backend is None:
            self.backend = maker.backend

    return grammar_init


def _create_grammar(self: Any, request: Any) -> Any:
    """As vLLM's, with the request's backend; runs in a thread, by when another request may have been the last to come."""
    backend = self._backends_by_name.get(_name(request)) or self.backend
    kind, specification = request.structured_output_request.structured_output_key
    stop_token_ids = request.sampling_params.all_stop_token_ids
    return backend.compile_grammar(kind, specification, stop_token_ids=stop_token_ids)
