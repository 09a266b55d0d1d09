"""An answer in several requests is one answer: for streams and whole answers, with the tokens, the budget and the id of one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import GenerationError
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind

from guided.constraint import Constraint
from guided.vllm_adapters.params import from_extra_args
from server.continuation import Continuation, can_continue
from server.engine import Pending, verified, with_constraint
from tests.server.fakes import TextIndex, compiled, tokens_of

EOS = 2
TEXT = "the whole answer"
PROMPT = [1, 1, 1]
FIRST = {"type": "token", "prompt_token_ids": PROMPT, "cache_salt": "salt"}


class Engine:
    """Writes TEXT from where the prompt leaves off; each request is broken off after some characters."""

    def __init__(self, pieces: list[int], kind: RequestOutputKind, per_output: int = 1, wrong: bool = False) -> None:
        self.pieces = iter(pieces)
        self.kind = kind
        self.per_output = per_output
        self.text = TEXT.upper() if wrong else TEXT
        self.requests: list[tuple[list[int], SamplingParams, str]] = []

    def generate(self, prompt: Any, params: SamplingParams, request_id: str) -> AsyncGenerator[RequestOutput, None]:
        ids = prompt["prompt_token_ids"]
        assert (prompt["type"], prompt["cache_salt"]) == ("token", "salt")
        self.requests.append((ids, params, request_id))
        begin = len(ids) - len(PROMPT)
        guided = from_extra_args(params.extra_args)
        assert guided is not None and guided.prefix == begin
        return self._outputs(begin, next(self.pieces, len(TEXT)), ids, request_id)

    async def _outputs(self, begin: int, count: int, ids: list[int], request_id: str):
        text = self.text[begin : begin + count]
        pieces = [text[i : i + self.per_output] for i in range(0, len(text), self.per_output)] or [""]
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            so_far = "".join(pieces[: number + 1])
            shown = piece if self.kind == RequestOutputKind.DELTA else so_far
            tokens = tokens_of(shown) + ([EOS] if last else [])
            if self.kind != RequestOutputKind.FINAL_ONLY or last:
                sample = CompletionOutput(0, shown, tokens, None, None, finish_reason="stop" if last else None)
                yield RequestOutput(request_id, None, ids, None, [sample], last)


def answers(engine: Engine, params: SamplingParams, *, growing: bool = True) -> Iterator[RequestOutput]:
    whole = compiled(Constraint.choice([TEXT]), TextIndex(TEXT), growing=growing)
    params = with_constraint(params, Pending(whole), "req", may_break_off=True)
    continuation = Continuation(engine.generate, FIRST, params, "req")
    outputs = engine.generate(FIRST, params, "req")
    deltas = params.output_kind == RequestOutputKind.DELTA

    async def collect() -> list[RequestOutput]:
        return [o async for o in verified(outputs, whole, "req", deltas=deltas, continuation=continuation)]

    return asyncio.run(collect())


KINDS = [RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE, RequestOutputKind.FINAL_ONLY]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_output", [1, 3])
@pytest.mark.parametrize("pieces", [[], [5], [0, 4], [1, 1, 1, 1], [7, 2, 1]])
def test_pieces_are_one_answer(kind, per_output, pieces):
    engine = Engine(pieces, kind, per_output)
    params = SamplingParams(max_tokens=100, min_tokens=6, output_kind=kind)
    found = answers(engine, params)
    assert len(engine.requests) == len(pieces) + 1
    samples = [output.outputs[0] for output in found]
    if kind == RequestOutputKind.DELTA:
        assert "".join(sample.text for sample in samples) == TEXT
        assert [token for sample in samples for token in sample.token_ids] == [*tokens_of(TEXT), EOS]
    else:
        assert samples[-1].text == TEXT and list(samples[-1].token_ids) == [*tokens_of(TEXT), EOS]
    assert [sample.finish_reason for sample in samples] == [None] * (len(samples) - 1) + ["stop"]
    assert [output.finished for output in found] == [False] * (len(found) - 1) + [True]
    assert {output.request_id for output in found} == {"req"}
    assert all(output.prompt_token_ids == PROMPT for output in found)
    for number, (ids, asked, request_id) in enumerate(engine.requests):
        written = len(ids) - len(PROMPT)
        assert ids == PROMPT + tokens_of(TEXT)[:written]
        assert (asked.max_tokens, asked.min_tokens) == (100 - written, max(0, 6 - written))
        assert request_id == ("req" if number == 0 else f"req-{number + 1}")


@pytest.mark.parametrize("kind", KINDS)
def test_without_progress_it_ends_in_an_error(kind):
    engine = Engine([4, 0, 0, 0], kind)
    with pytest.raises(GenerationError):
        answers(engine, SamplingParams(max_tokens=100, output_kind=kind))
    assert len(engine.requests) == 2


def test_a_wrong_answer_is_not_gone_on_with():
    engine = Engine([5], RequestOutputKind.DELTA, wrong=True)
    with pytest.raises(GenerationError):
        answers(engine, SamplingParams(max_tokens=100, output_kind=RequestOutputKind.DELTA))
    assert len(engine.requests) == 1


def test_a_closed_index_never_breaks_off():
    engine = Engine([5], RequestOutputKind.DELTA)
    with pytest.raises(GenerationError):
        answers(engine, SamplingParams(max_tokens=100, output_kind=RequestOutputKind.DELTA), growing=False)


def test_what_can_be_put_together():
    assert can_continue(FIRST, SamplingParams())
    for params in (SamplingParams(n=2), SamplingParams(logprobs=1), SamplingParams(prompt_logprobs=1)):
        assert not can_continue(FIRST, params)
    for prompt in ("text", {"type": "multimodal", "prompt_token_ids": PROMPT}, {"prompt_token_ids": PROMPT}):
        assert not can_continue(prompt, SamplingParams())
