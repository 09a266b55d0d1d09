"""vLLM's engine client around an engine core that has no model: everything of the real server but the forward pass.

Where a request has a constraint its answer is a random walk through the index, the shortest way home when the budget gets tight; a
request without one is answered with a fixed text. So the whole application can be asked thousands of times in seconds.
"""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, FinishReason
from vllm.v1.engine.core_client import EngineCoreClient

import guided
from guided.errors import LimitExceeded
from guided.index.token_index import TokenIndex
from guided.limits import Limits
from guided.vllm_adapters.params import from_extra_args, token_budget
from server.engine import GuidedEngine

TEXT = " The quick brown fox jumps over the lazy dog."
LIMITS = Limits(seconds=1.0)


class CoreWithoutModel:
    """What `AsyncLLM` asks of its client to the engine core."""

    engine_ranks_managed = (0,)
    resources = SimpleNamespace(engine_dead=False)

    def __init__(self, vocabulary: guided.Vocabulary, tokenizer: Any, max_model_len: int) -> None:
        self.vocabulary = vocabulary
        self.text = tokenizer.encode(TEXT, add_special_tokens=False)
        self.stop_token = tokenizer.eos_token_id
        self.max_model_len = max_model_len
        self.outputs: asyncio.Queue[EngineCoreOutputs] = asyncio.Queue()
        self.requests: dict[str, EngineCoreRequest] = {}  # all that were ever added
        self.running: dict[str, asyncio.Task[None]] = {}

    async def get_output_async(self) -> EngineCoreOutputs:
        return await self.outputs.get()

    async def get_supported_tasks_async(self) -> tuple[str, ...]:
        return ("generate",)

    async def add_request_async(self, request: EngineCoreRequest) -> None:
        self.requests[request.request_id] = request
        self.running[request.request_id] = asyncio.create_task(self._answer(request))

    async def abort_requests_async(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            if (task := self.running.pop(request_id, None)) is not None:
                task.cancel()

    async def reset_mm_cache_async(self) -> None:
        pass

    def get_kv_event_sources(self) -> dict[int, Any]:
        return {}

    def shutdown(self, timeout: float | None = None) -> None:
        pass

    def dp_engines_running(self) -> bool:
        return False

    async def _answer(self, request: EngineCoreRequest) -> None:
        params = request.sampling_params
        room = self.max_model_len - len(request.prompt_token_ids)
        budget = min(room, params.max_tokens or room)
        try:
            tokens = await asyncio.to_thread(self._tokens, request, budget)
        except LimitExceeded:  # with so little time; the real engine has more
            self._send(EngineCoreOutput(request.request_id, [], finish_reason=FinishReason.ABORT))
            return
        for position, token in enumerate(tokens):
            stops = token == self.stop_token and not params.ignore_eos
            last = position + 1 == budget
            finish = FinishReason.STOP if stops else FinishReason.LENGTH if last else None
            logprobs = None if params.logprobs is None else _logprobs(token, params.logprobs)
            output = EngineCoreOutput(request.request_id, [token], new_logprobs=logprobs, finish_reason=finish)
            self._send(output)
            await asyncio.sleep(0)
            if finish is not None:
                break
        self.running.pop(request.request_id, None)

    def _send(self, output: EngineCoreOutput) -> None:
        self.outputs.put_nowait(EngineCoreOutputs(outputs=[output]))

    def _tokens(self, request: EngineCoreRequest, budget: int) -> list[int]:
        params = request.sampling_params
        wanted = from_extra_args(params.extra_args)
        if wanted is None:
            return [*self.text * (budget // len(self.text) + 1)][: budget - 1] + [self.stop_token] * 2
        index = guided.compile(wanted.constraint, self.vocabulary, limits=LIMITS)
        limit = token_budget(wanted, params.max_tokens, len(request.prompt_token_ids), self.max_model_len)
        draw = random.Random(params.seed if params.seed is not None else 0)
        return [*walk(index, draw, budget if limit is None else limit), self.stop_token]


def walk(index: TokenIndex, draw: random.Random, budget: int) -> list[int]:
    """Tokens of an answer: any allowed ones, and those that lead home when the budget gets tight.

    Where the way home is not known, since the index cannot be closed, the answer may be cut off by the budget.
    """
    try:
        index.min_tokens(index.start)
        home = index.min_tokens
    except LimitExceeded:
        home = lambda state: 0
    state, tokens = index.start, []
    while len(tokens) < budget and not (index.is_accepting(state) and draw.random() < 0.5):
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little"))
        if not len(allowed):
            break
        some = draw.sample(list(map(int, allowed)), min(8, len(allowed)))
        left = budget - len(tokens) - 1
        fitting = [(s, t) for t in some if home(s := index.advance(state, t)) <= left]
        if not fitting:
            if index.is_accepting(state):
                break
            fitting = [min(((index.advance(state, int(t)), int(t)) for t in allowed), key=lambda one: home(one[0]))]
        state, token = fitting[0]
        tokens.append(token)
    return tokens


def _logprobs(token: int, count: int) -> Any:
    from vllm.v1.outputs import LogprobsLists

    tokens = np.array([[token, *(1000 + i for i in range(max(count, 0)))]], dtype=np.int32)
    return LogprobsLists(tokens, np.full(tokens.shape, -1.0, np.float32), np.ones(1, np.int32))


def engine_without_model(config: Any, vocabulary: guided.Vocabulary) -> GuidedEngine:
    """The engine client of the real server; to be called on the event loop that it will run on."""
    real = EngineCoreClient.make_async_mp_client

    def without_model(**options: Any) -> CoreWithoutModel:
        return CoreWithoutModel(vocabulary, options["renderer"].get_tokenizer(), config.model_config.max_model_len)

    EngineCoreClient.make_async_mp_client = staticmethod(without_model)  # type: ignore[method-assign]
    try:
        return GuidedEngine.from_vllm_config(
            config, usage_context=UsageContext.OPENAI_API_SERVER, disable_log_stats=True
        )
    finally:
        EngineCoreClient.make_async_mp_client = real  # type: ignore[method-assign]
