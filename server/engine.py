"""In: every generation of every route; out: the same call to vLLM, with our constraint in it. Knows no HTTP and no automaton.

This is the one choke point. vLLM's serving classes all end in `engine_client.generate(...)`, so this is where a request's
constraint is put into `SamplingParams.extra_args`, and where whatever vLLM itself would have constrained is refused.

How the constraint gets here: the middleware compiles it and sets a context variable for the rest of the request. Nothing else
reaches from the body to this call unaided: vLLM's request models drop what they do not know, `structured_outputs` is typed,
and `vllm_xargs` carries only strings and numbers and exists on some routes. A context variable follows the request through every
task that vLLM starts for it. Should a later vLLM call `generate` from elsewhere, the constraint would be missing here; the
middleware notices that (`Pending.taken` stays false) and refuses to answer rather than pass on unconstrained text.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import msgspec
from vllm import SamplingParams
from vllm.exceptions import GenerationError, VLLMValidationError
from vllm.inputs.engine import split_enc_dec_input
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from guided.errors import ConstraintError
from guided.vllm_adapters.params import KEY, to_extra_args
from guided.vllm_adapters.reports import Reports
from guided.workers import Overloaded
from server.callers import overloaded
from server.compile_service import NOBODY, Compiled
from server.continuation import Continuation, can_continue
from server.handover import HandedOver
from server.observation import current, watched
from server.pressure_sample import PressureSample
from server.report import Report
from server.request_options import (
    DEFAULTS,
    RequestOptions,
    no_answer_fits,
    refuse_extreme_penalty,
    refuse_small_budget,
    refuse_wide_integers,
)
from server.stall import Stall
from server.thinking.sections import Sections
from server.token_times import TimedOutputs

logger = logging.getLogger(__name__)

_REPLACEMENT = "\ufffd"


@dataclass(slots=True)
class Pending:
    """The constraint of the request at hand, and whether a generation has taken it.

    Attributes:
        field: the request field of the constraint.
        fewest_tokens: of the shortest answer; None where it is not known or does not matter.
        may_be_cut: a stop string of the request may end the answer anywhere.
        budget_field: the request field that limits the answer.
        report: what the response is to tell of it; None: nothing.
        taken: the engine has seen it, and what it answers obeys it.
        caller: whose request it is, where compilations take turns.
        sections: where the answer begins, on servers that separate thinking from it; None until the prompt is known.
    """

    compiled: Compiled
    field: str = "the constraint"
    options: RequestOptions = DEFAULTS
    fewest_tokens: int | None = None
    budget_field: str = "max_tokens"
    may_be_cut: bool = False
    report: Report | None = None
    taken: bool = False
    caller: str = NOBODY
    sections: Sections | None = None


pending_constraint: ContextVar[Pending | HandedOver | None] = ContextVar("pending_constraint", default=None)


class GuidedEngine(AsyncLLM):
    """vLLM's engine client, whose generations obey the request's constraint.

    Attributes:
        reports: what the worker measured.
        sample: chooses answers that are measured though nobody asked; None: none is.
        stall: knows whether the engine hangs; None: nobody looks.
    """

    sample: PressureSample | None = None
    stall: Stall | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # What vLLM's backends take has been asked when a request comes here (`server.vllm_backends`): vLLM would ask on the event loop.
        self.input_processor.structured_outputs_config = None
        # Where an index ends, not all hosts would find the file with what comes after.
        one_host = self.vllm_config.parallel_config.nnodes == 1
        self._breaks_off = one_host and not self.vllm_config.use_v2_model_runner
        self.reports = Reports()
        self.output_processor.__class__ = (
            TimedOutputs  # vLLM builds it there; this is the same object with more methods
        )

    def generate(
        self, prompt: Any, sampling_params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        """Raises VLLMValidationError or RequestRefused at once, not at the first output: routes then answer with a status."""
        refuse_wide_integers({**msgspec.structs.asdict(sampling_params), **options})
        pending = self.admit(prompt, sampling_params)
        may_break_off = self._breaks_off and can_continue(prompt, sampling_params)
        report = self._report_name(pending, sampling_params)
        params = with_constraint(sampling_params, pending, request_id, may_break_off=may_break_off, report=report)

        def begin(prompt: Any, params: SamplingParams, request_id: str) -> AsyncGenerator[RequestOutput, None]:
            return AsyncLLM.generate(self, prompt, params, request_id, **options)

        outputs = begin(prompt, params, request_id)
        deltas = params.output_kind == RequestOutputKind.DELTA
        seen = current.get()
        if isinstance(pending, HandedOver):
            outputs = enforced(outputs, pending)
        if not isinstance(pending, Pending):
            return outputs if seen is None else watched(outputs, seen, params.max_tokens, deltas=deltas)
        continuation = Continuation(begin, prompt, params, request_id) if may_break_off else None
        unsure = pending.fewest_tokens is None and pending.options.fit_budget
        answers = verified(
            outputs,
            pending.compiled,
            request_id,
            deltas=deltas,
            continuation=continuation,
            filters=filters_of(params),
            too_small=no_answer_fits(params.max_tokens, pending.field, pending.budget_field) if unsure else None,
            may_be_cut=pending.may_be_cut,
            caller=pending.caller,
            decode=self.renderer.get_tokenizer().decode,
        )
        if pending.report is not None:
            answers = pending.report.filled(answers, self.reports, deltas=deltas)
        elif report is not None and self.sample is not None:
            answers = self.sample.followed(answers, report, pending.compiled.constraint.kind, deltas=deltas)
        return answers if seen is None else watched(answers, seen, params.max_tokens, deltas=deltas)

    async def check_health(self) -> None:
        """What `/health` asks. Raises EngineDeadError, of an engine that hangs too."""
        await super().check_health()
        if self.stall is not None and self.stall.hangs:
            raise EngineDeadError

    async def scale_elastic_ep(self, new_data_parallel_size: int, drain_timeout: int = 300) -> None:
        """Raises ValueError, a 400 of the route, where vLLM would fail at an assertion."""
        parallel = self.vllm_config.parallel_config
        fixed = not parallel.enable_elastic_ep or parallel.data_parallel_backend != "ray"
        if fixed and new_data_parallel_size != parallel.data_parallel_size:
            raise ValueError(
                "the engine's size is fixed: it was started without --enable-elastic-ep --data-parallel-backend ray"
            )
        await super().scale_elastic_ep(new_data_parallel_size, drain_timeout)

    def _report_name(self, pending: Pending | HandedOver | None, params: SamplingParams) -> str | None:
        """Under which the worker is to report; None: it measures nothing."""
        if not isinstance(pending, Pending):
            return None
        if pending.report is not None:
            return pending.report.name
        return None if self.sample is None or params.n != 1 else self.sample.name()

    def admit(self, prompt: Any, params: SamplingParams) -> Pending | HandedOver | None:
        """The constraint of the request at hand, taken; what `generate` would refuse only at its first output is refused now.

        Raises:
            VLLMValidationError: token ids that the model does not have, a prompt that is too long, parameters out of range.
            RequestRefused: the budget is less than the shortest answer, or a penalty would undo the masks.
        """
        pending = pending_constraint.get()
        if isinstance(pending, Pending):
            refuse_small_budget(pending.fewest_tokens, params.max_tokens, pending.field, pending.budget_field)
        if pending is not None:
            refuse_extreme_penalty(params.repetition_penalty, pending.field)
        self.input_processor._validate_params(params, getattr(self, "_supported_tasks", ("generate",)))
        if isinstance(prompt, Mapping) and "type" in prompt:
            self.input_processor._validate_model_inputs(*split_enc_dec_input(prompt))
        if pending is not None:
            pending.taken = True
        return pending


def with_constraint(
    params: SamplingParams,
    pending: Pending | HandedOver | None,
    request_id: str,
    *,
    may_break_off: bool = False,
    report: str | None = None,
) -> SamplingParams:
    """`params` with the constraint in `extra_args` and without vLLM's own structured outputs.

    Args:
        may_break_off: see `server.continuation`.
        report: under which the worker reports what it measures; None: it measures nothing.

    Raises:
        VLLMValidationError: vLLM made a constraint of its own out of the request (a tool's schema), which we do not enforce.
    """
    if KEY in (params.extra_args or {}):  # of a route that takes SamplingParams as they are
        raise VLLMValidationError(
            f"extra_args.{KEY} is this server's own", parameter=f"sampling_params.extra_args.{KEY}"
        )
    if pending is None:
        if params.structured_outputs is not None:
            raise VLLMValidationError("the request implies a constraint that this server does not enforce")
        return params
    params = params.clone()
    if isinstance(pending, HandedOver):
        assert pending.outputs is not None, "its backend was not asked"
        params.structured_outputs = pending.outputs
        return params
    params.structured_outputs = None
    params.extra_args = to_extra_args(
        params.extra_args,
        pending.compiled.constraint,
        request_id,
        fit_budget=pending.options.fit_budget,
        may_break_off=may_break_off,
        report=report,
        flushes=pending.compiled.flushes,
    )
    return params


def filters_of(params: SamplingParams) -> list[str]:
    """The fields of the request that may forbid a token before the constraint is asked."""
    return [name for name in ("allowed_token_ids", "bad_words") if getattr(params, name)]


async def enforced(
    outputs: AsyncGenerator[RequestOutput, None], handed: HandedOver
) -> AsyncGenerator[RequestOutput, None]:
    """Passes outputs on where vLLM's backend enforces the constraint: whether it can, the engine finds out only now.

    Raises:
        VLLMValidationError: HTTP 400: it cannot, such as outlines where an index takes longer than vLLM's bound.
    """
    async with aclosing(outputs):
        async for output in outputs:
            if any(sample.finish_reason == "error" for sample in output.outputs):
                message = f"vLLM's {handed.backend} backend failed to enforce {handed.field}; leave it out for this server's own"
                raise VLLMValidationError(message, parameter=handed.field)
            yield output


async def verified(
    outputs: AsyncGenerator[RequestOutput, None],
    compiled: Compiled,
    request_id: str,
    *,
    deltas: bool,
    continuation: Continuation | None = None,
    filters: Sequence[str] = (),
    too_small: Exception | None = None,
    may_be_cut: bool = False,
    caller: str = NOBODY,
    decode: Callable[[list[int]], str] | None = None,
) -> AsyncGenerator[RequestOutput, None]:
    """Passes outputs on; one that claims to be complete and is not ends in an error instead of a wrong answer.

    That happens where the worker could not enforce the constraint: it ends such a request at once and goes on with the
    others, and this is where the caller learns of it.

    Args:
        deltas: each output holds the tokens since the last one, not all of them.
        continuation: how an answer goes on that was broken off where its index ends; None: it does not.
        filters: fields of the request that forbid tokens too.
        too_small: what an answer that never began means where nobody knew whether the request's tokens suffice; None: they do.
        may_be_cut: an answer that ends with a stop string is as the client wants it.
        caller: whose request it is, where those that a worker has to look into take turns.
        decode: token ids -> text, for what vLLM's detokenizer holds back; None: nothing is looked for.

    Raises:
        VLLMValidationError: HTTP 400: the filters left nothing that the constraint allows, or its index outgrew its limits on the way.
        RequestRefused: HTTP 429: no worker had the time to look into it; or `too_small`.
        GenerationError: HTTP 500, with the request id.
    """
    answers = _Answers(compiled, caller, deltas, may_be_cut, decode)
    while True:
        broken_off = None
        async with aclosing(outputs):
            async for part in outputs:
                output = part if continuation is None else continuation.joined(part)
                for sample in output.outputs:
                    written = await answers.unfinished(sample)
                    if written is None:
                        continue
                    if continuation is None or not await _explored(compiled, written, caller, continuation.reached):
                        raise _incomplete(request_id, len(written), filters, too_small)
                    broken_off = output
                if broken_off is None:
                    yield output
        if broken_off is None:
            return
        assert continuation is not None
        rest = continuation.break_off(broken_off, list(answers.tokens[0]))
        if rest is not None:
            yield rest
        outputs = continuation.go_on()


@dataclass(slots=True)
class _Answers:
    """What was written so far, and whether what ended is an answer. The fields are arguments of `verified`.

    Attributes:
        tokens: number of the sample -> its tokens.
    """

    compiled: Compiled
    caller: str
    deltas: bool
    may_be_cut: bool
    decode: Callable[[list[int]], str] | None
    tokens: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def unfinished(self, sample: CompletionOutput) -> list[int] | None:
        """The tokens of an answer that claims to be complete and is not, without its stop token; None: all is well.

        To a complete one is added what vLLM's detokenizer holds back.
        """
        seen = self.tokens[sample.index]
        seen[0 if not self.deltas else len(seen) :] = sample.token_ids
        if sample.finish_reason != "stop" or (self.may_be_cut and isinstance(sample.stop_reason, str)):
            return None
        if await _satisfied(self.compiled, seen[:-1], self.caller):
            if self.decode is not None:
                sample.text += held_back(sample.text, seen[:-1], self.decode)
            return None
        del seen[-1]
        return seen


def _incomplete(request_id: str, tokens: int, filters: Sequence[str], too_small: Exception | None) -> Exception:
    if filters:
        cause = " and ".join(filters)
        message = f"request {request_id} could not be completed: its {cause} leave no token that its constraint allows"
        return VLLMValidationError(message, parameter=filters[0])
    if too_small is not None and not tokens:
        return too_small
    logger.error("request %s ended after %d tokens, its constraint incomplete", request_id, tokens)
    return GenerationError(f"request {request_id} could not be completed under its constraint")


def held_back(text: str, tokens: list[int], decode: Callable[[list[int]], str]) -> str:
    """The replacement characters at the end of a complete answer that `text`, its last piece or all of it, lacks.

    vLLM's detokenizer takes a U+FFFD for the beginning of a character whose other bytes are to come, and waits for them.
    """
    if not tokens or not decode(tokens[-1:]).endswith(_REPLACEMENT):
        return ""
    whole = decode(tokens)
    missing = len(whole) - len(whole.rstrip(_REPLACEMENT)) - (len(text) - len(text.rstrip(_REPLACEMENT)))
    return _REPLACEMENT * max(missing, 0)


async def _explored(compiled: Compiled, tokens: list[int], caller: str, before: int) -> bool:
    """May an answer that was broken off go on? A worker has explored the index from there then.

    Args:
        before: tokens that it had when it was last broken off, -1: it was not; without a new one it never ends.
    """
    if len(tokens) <= before:
        return False
    with _limits():
        return await compiled.explore(tokens, caller)


async def _satisfied(compiled: Compiled, tokens: list[int], caller: str) -> bool:
    """An answer that cannot be checked is not passed on."""
    with _limits():
        return await compiled.satisfied_by(tokens, caller)


@contextmanager
def _limits() -> Iterator[None]:
    """What a worker says that cannot go on with an index, in the words of a refusal. Raises VLLMValidationError, RequestRefused."""
    try:
        yield
    except ConstraintError as error:
        message = f"the answer could not be completed, {error.describe()}; a smaller constraint may be"
        raise VLLMValidationError(message) from error
    except Overloaded as error:
        raise overloaded(error) from error
