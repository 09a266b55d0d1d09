"""vLLM's own backends, asked in processes of their own: what they take, what they refuse, and what else goes on in the meantime."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams

from guided.constraint import Constraint
from guided.limits import Limits
from guided.workers import Overloaded, PoolOptions
from server.errors import RequestRefused
from server.guided_fields import VLLM_BACKENDS
from server.handover import HandedOver
from server.vllm_backends import VllmBackends
from tests.workers.live_pool import loop

__all__ = ["loop"]

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"enum": ["x", "y"]}}, "required": ["b"]}
CONSTRAINTS = {
    "json": Constraint.json_schema(SCHEMA),
    "regex": Constraint.regex("[ab]+c"),
    "choice": Constraint.choice(["b", "a"]),
    "grammar": Constraint.grammar('root ::= "a" | "b"'),
}


class Asked:
    """The backends of the embedded model, asked from outside of their event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, backends: VllmBackends) -> None:
        self.backends = backends
        self._loop = loop

    def wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(300)

    def __call__(self, backend: str, constraint: Constraint) -> StructuredOutputsParams:
        return self.wait(self.backends.outputs(HandedOver(backend, "field", constraint), "somebody"))


def model(folder: Any) -> Any:
    return SimpleNamespace(
        is_diffusion=False,
        tokenizer=str(folder),
        runner_type="generate",
        tokenizer_mode="auto",
        tokenizer_revision=None,
        trust_remote_code=False,
    )


@pytest.fixture(scope="module")
def ask(loop, model_folder, tmp_path_factory):
    options = PoolOptions(tmp_path_factory.mktemp("unused"), limits=Limits(seconds=60.0), wall_seconds=120.0, nice=0)
    asked = Asked(loop, VllmBackends(model(model_folder), options, 4 << 20))
    yield asked
    asked.wait(asked.backends.close())


@pytest.fixture(scope="module")
def tokenizer(model_folder):
    from vllm.tokenizers import get_tokenizer

    return get_tokenizer(str(model_folder))


@pytest.mark.parametrize("kind", CONSTRAINTS)
@pytest.mark.parametrize("backend", VLLM_BACKENDS)
def test_the_engine_is_given_what_vllm_would_give_it(ask, tokenizer, backend, kind):
    handed = HandedOver(backend, "field", CONSTRAINTS[kind])
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**handed.in_vllms_words()))
    try:
        params._validate_structured_outputs(
            SimpleNamespace(is_diffusion=False), SimpleNamespace(backend=backend), tokenizer
        )
    except VLLMValidationError as error:  # outlines knows no grammars
        with pytest.raises(RequestRefused, match="backend does not take it") as caught:
            ask(backend, CONSTRAINTS[kind])
        assert str(error) in caught.value.message and caught.value.param == "field"
        return
    assert ask(backend, CONSTRAINTS[kind]) == params.structured_outputs


@pytest.mark.parametrize("backend", VLLM_BACKENDS)
def test_what_a_backend_does_not_take(ask, backend):
    for _ in range(2):  # found out, and remembered
        with pytest.raises(RequestRefused, match=f"field: vLLM's {backend} backend does not take it") as caught:
            ask(backend, Constraint.regex("(a"))
        assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_constraint", "field")


def test_the_event_loop_goes_on(ask):
    """Native code reads a schema of a megabyte for seconds, in a process where that is nobody's matter."""
    schema = {"properties": {f"property {n}": {"type": "string", "maxLength": n} for n in range(16_000)}}
    constraint = Constraint.json_schema(schema)

    async def ticks() -> int:
        waiting = asyncio.create_task(ask.backends.outputs(HandedOver("auto", "field", constraint), ""))
        count = 0
        while not waiting.done():
            await asyncio.sleep(0.001)
            count += 1
        await waiting
        return count

    ask("auto", CONSTRAINTS["regex"])  # the processes are there
    assert ask.wait(ticks()) > 100
    assert json.loads(ask("auto", constraint).json) == schema, "and found again, without asking"


def test_those_who_ask_together_ask_once(ask, monkeypatch):
    asked = 0
    find = ask.backends._ask

    async def counted(handed: HandedOver, caller: str) -> Any:
        nonlocal asked
        asked += 1
        return await find(handed, caller)

    monkeypatch.setattr(ask.backends, "_ask", counted)

    async def together() -> list[StructuredOutputsParams]:
        handed = HandedOver("xgrammar", "field", Constraint.regex("together"))
        return await asyncio.gather(*(ask.backends.outputs(handed, f"caller {n}") for n in range(10)))

    found = ask.wait(together())
    assert asked == 1 and all(one == found[0] for one in found)
    assert len({id(one) for one in found}) == 10, "the engine may write into what it is given"


def test_what_takes_too_long_ends_with_its_process(loop, model_folder, tmp_path):
    schema = {"properties": {f"property {n}": {"type": "string", "maxLength": n} for n in range(16_000)}}
    bounded = Asked(loop, VllmBackends(model(model_folder), PoolOptions(tmp_path, nice=0, wall_seconds=0.01), 4 << 20))
    try:
        with pytest.raises(RequestRefused, match="wall_seconds") as caught:
            bounded("xgrammar", Constraint.json_schema(schema))
        assert (caught.value.status, caught.value.code) == (400, "constraint_too_complex")
    finally:
        bounded.wait(bounded.backends.close())


def test_what_is_too_large_is_not_even_asked(loop, tmp_path):
    few = Asked(loop, VllmBackends(model("no such model"), PoolOptions(tmp_path), 100))
    with pytest.raises(RequestRefused, match="more than the 100") as caught:
        few("auto", Constraint.regex("a" * 101))
    assert (caught.value.code, caught.value.param) == ("constraint_too_complex", "field")


@pytest.mark.parametrize(("error", "status"), [(Overloaded("too many", 3), 429), (OSError("no such model"), 503)])
def test_when_nobody_can_be_asked(loop, tmp_path, monkeypatch, error, status):
    backends = VllmBackends(model("no such model"), PoolOptions(tmp_path), 1000)

    async def fail() -> Any:
        raise error

    monkeypatch.setattr(backends, "_running", fail)
    with pytest.raises(RequestRefused) as caught:
        Asked(loop, backends)("auto", Constraint.regex("a"))
    assert caught.value.status == status
