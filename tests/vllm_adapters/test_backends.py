"""vLLM's manager of structured outputs with one backend per name: a request gets the one that it was validated for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from guided.vllm_adapters import backends


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    """vLLM's, whose backends only say their name; the class is left as it was."""
    from vllm.v1 import structured_output

    class Manager(structured_output.StructuredOutputManager):
        def __init__(self) -> None:
            self.backend = None
            self._use_async_grammar_compilation = False
            self.tokenizer = None
            self.vllm_config = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 10))

    def backend(name: str) -> Any:
        compile_grammar = lambda kind, text, stop_token_ids: (name, kind, text)
        return lambda *_, **__: SimpleNamespace(compile_grammar=compile_grammar)

    monkeypatch.setattr(structured_output, "XgrammarBackend", backend("xgrammar"))
    monkeypatch.setattr(structured_output, "GuidanceBackend", backend("guidance"))
    monkeypatch.setattr(structured_output, "StructuredOutputManager", Manager)
    backends.register()
    backends.register()
    return Manager()


def request(backend: str, text: str) -> Any:
    outputs = SimpleNamespace(_backend=backend)
    wanted = SimpleNamespace(structured_output_key=("regex", text), grammar=None)
    params = SimpleNamespace(structured_outputs=outputs, all_stop_token_ids={0})
    return SimpleNamespace(structured_output_request=wanted, sampling_params=params, request_id="r")


def test_each_request_has_the_backend_that_it_names(manager):
    made = []
    for name, text in [("xgrammar", "a"), ("guidance", "b"), ("xgrammar", "c")]:
        one = request(name, text)
        manager.grammar_init(one)
        made.append(one.structured_output_request.grammar)
    assert made == [("xgrammar", "regex", "a"), ("guidance", "regex", "b"), ("xgrammar", "regex", "c")]


def test_the_scheduler_finds_a_backend_while_another_one_is_made(manager, monkeypatch):
    """It asks for one in its own thread; without one the engine dies."""
    from vllm.v1 import structured_output

    manager.grammar_init(request("xgrammar", "a"))
    made, seen = structured_output.GuidanceBackend, []

    def slowly(*arguments: Any, **options: Any) -> Any:
        seen.append(manager.backend)
        return made(*arguments, **options)

    monkeypatch.setattr(structured_output, "GuidanceBackend", slowly)
    manager.grammar_init(request("guidance", "b"))
    manager.grammar_init(request("guidance", "c"))
    assert len(seen) == 1 and seen[0] is manager.backend is not None


def test_a_backend_that_cannot_be_made_leaves_the_others(manager):
    manager.grammar_init(request("xgrammar", "a"))
    before = manager.backend
    with pytest.raises(ValueError, match="odd"):
        manager.grammar_init(request("odd", "a"))
    assert manager.backend is before


def test_requests_without_a_constraint_are_none_of_its_business(manager):
    manager.grammar_init(SimpleNamespace(structured_output_request=None))
    assert manager.backend is None


def test_every_process_of_vllm_registers_it():
    from importlib.metadata import entry_points

    found = {point.value for point in entry_points(group="vllm.general_plugins")}
    assert "guided.vllm_adapters.backends:register" in found, "install the project anew: make install"
