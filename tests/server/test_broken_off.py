"""A large schema through everything but the model: service and workers, the V1 processor, and the gateway's choke point."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import jsonschema
import torch
from vllm import SamplingParams
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind

from guided.cache import Files, default_folder
from guided.compiler import writable_network
from guided.constraint import Constraint
from guided.workers import Pool, PoolOptions
from server.compile_service import CompileService
from server.continuation import Continuation
from server.engine import Pending, verified, with_constraint
from tests.vllm_adapters.test_v1 import EOS, Batch

NAMES = [f"name_{n:04}_{n * 7919 % 10007}" for n in range(600)]
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": ["integer", "boolean"], "maximum": 99, "minimum": 0} for name in NAMES},
    "required": [NAMES[200], NAMES[400]],
}
PROMPT = [1, 2, 3]


class Engine:
    """Plays vLLM with one request at a time: random logits go through the real processor."""

    def __init__(self, model_folder: Any, vocabulary: Any) -> None:
        self.batch = Batch(model_folder, vocabulary.size)
        self.requests = 0
        self.longest_step = 0.0

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str
    ) -> AsyncGenerator[RequestOutput, None]:
        self.requests += 1
        ids, output = prompt["prompt_token_ids"], []
        self.batch.rows = {0: output}
        self.batch.builder.added.append((0, params, ids, output))
        while not output or output[-1] != EOS:
            begin = time.perf_counter()
            _, logits = self.batch.step()
            self.longest_step = max(self.longest_step, time.perf_counter() - begin)
            output.append(int(torch.multinomial(logits[0].softmax(0), 1)))
            reason = "stop" if output[-1] == EOS else None
            sample = CompletionOutput(0, "", [output[-1]], None, None, finish_reason=reason)
            yield RequestOutput(request_id, None, ids, None, [sample], reason is not None)
            await asyncio.sleep(0)
        self.batch.remove(0)
        self.batch.rows = {0: []}


def test_an_answer_is_whole_and_was_written_in_pieces(model_folder, vocabulary, tmp_path, monkeypatch):
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    torch.manual_seed(1)
    constraint = Constraint.json_schema(SCHEMA, whitespace="compact")
    assert len(constraint.canonical_text) > 16_000
    engine = Engine(model_folder, vocabulary)

    async def answer() -> list[int]:
        folder = default_folder()
        files = Files.at(folder, vocabulary, rebuild=lambda c: writable_network(c, vocabulary))
        pool = Pool(vocabulary, PoolOptions(folder, nice=0))
        service = CompileService(vocabulary, pool, files, memory_bytes=64 << 20)
        await service.start()
        try:
            compiled = await service.compile(constraint)
            assert compiled.index is None, "it grows"
            asked = SamplingParams(max_tokens=3000, output_kind=RequestOutputKind.DELTA)
            asked.update_from_generation_config({"eos_token_id": EOS}, eos_token_id=EOS)
            params = with_constraint(asked, Pending(compiled), "req", may_break_off=True)
            first = {"type": "token", "prompt_token_ids": PROMPT}
            continuation = Continuation(engine.generate, first, params, "req")
            outputs = engine.generate(first, params, "req")
            found = [o async for o in verified(outputs, compiled, "req", deltas=True, continuation=continuation)]
            return [token for output in found for token in output.outputs[0].token_ids]
        finally:
            await service.close()

    tokens = asyncio.run(answer())
    assert tokens[-1] == EOS and EOS not in tokens[:-1]
    text = b"".join(vocabulary.bytes_of(token) for token in tokens[:-1]).decode()
    jsonschema.validate(json.loads(text), SCHEMA)
    assert engine.requests > 1, "no step of the engine built the network"
