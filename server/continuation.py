"""In: an answer that the engine broke off where its index ended; out: the rest of it, from a second request. Knows no HTTP.

A large constraint whose index still grows may need seconds for one state, and a step of the engine cannot wait for one request: the whole
batch would. So the engine ends such a request, a worker explores the index from there, and the answer goes on in another request
whose prompt ends with what has been written. For the route it is one answer. So does one whose index file went away while it waited
for the engine, once the file is there again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from vllm import SamplingParams
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind

from guided.vllm_adapters.params import with_prefix

Restart = Callable[[Any, SamplingParams, str], AsyncGenerator[RequestOutput, None]]


def can_continue(prompt: Any, params: SamplingParams) -> bool:
    """Is the prompt one that tokens can be added to, and are all parts of the answer ones that can be put together?"""
    is_text = isinstance(prompt, Mapping) and prompt.get("type") == "token"
    return is_text and params.n == 1 and params.logprobs is None and params.prompt_logprobs is None


class Continuation:
    """One answer in several requests.

    Attributes:
        tokens: written by the requests that are over.
        reached: how many these are; -1 before the first is over.
    """

    def __init__(self, restart: Restart, prompt: Mapping[str, Any], params: SamplingParams, request_id: str) -> None:
        """`restart`: begins another request with a prompt, parameters and an id; the others are those of the first."""
        self.tokens: list[int] = []
        self.reached = -1
        self._restart = restart
        self._params = params
        self._request_id = request_id
        self._deltas = params.output_kind == RequestOutputKind.DELTA
        self._text = ""
        self._prompt = prompt
        self._requests = 1

    def break_off(self, output: RequestOutput, written: list[int]) -> RequestOutput | None:
        """Takes the last output of a request, without its stop token; what of it is to be passed on.

        Args:
            written: all tokens of the answer so far.
        """
        (sample,) = output.outputs
        self.tokens, self.reached = written, len(written)
        if not self._deltas:
            self._text = sample.text
            return None
        tokens = list(sample.token_ids)[:-1]
        if not tokens and not sample.text:
            return None
        return _with_sample(
            output, replace(sample, token_ids=tokens, finish_reason=None, stop_reason=None), finished=False
        )

    def go_on(self) -> AsyncGenerator[RequestOutput, None]:
        """The next request, after what was written."""
        self._requests += 1
        params, count = self._params.clone(), len(self.tokens)
        params.extra_args = with_prefix(params.extra_args, count)
        if params.max_tokens is not None:
            params.max_tokens -= count
        params.min_tokens = max(0, params.min_tokens - count)
        prompt = {"type": "token", "prompt_token_ids": [*self._prompt["prompt_token_ids"], *self.tokens]}
        if "cache_salt" in self._prompt:
            prompt["cache_salt"] = self._prompt["cache_salt"]
        return self._restart(prompt, params, f"{self._request_id}-{self._requests}")

    def joined(self, output: RequestOutput) -> RequestOutput:
        """An output of the present request as part of the whole answer."""
        if self._requests == 1:
            return output
        (sample,) = output.outputs
        if not self._deltas:
            sample = replace(sample, text=self._text + sample.text, token_ids=[*self.tokens, *sample.token_ids])
        whole = _with_sample(output, sample, output.finished)
        whole.request_id, whole.prompt_token_ids = self._request_id, list(self._prompt["prompt_token_ids"])
        return whole


def _with_sample(output: RequestOutput, sample: CompletionOutput, finished: bool) -> RequestOutput:
    changed = copy(output)
    changed.outputs, changed.finished = [sample], finished
    return changed
