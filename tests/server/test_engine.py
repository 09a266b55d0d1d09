"""The choke point without an engine: what it does to sampling parameters, and what it lets through as complete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from vllm import SamplingParams
from vllm.exceptions import GenerationError, VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams

from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.vllm_adapters.params import from_extra_args
from guided.workers import Overloaded
from server.engine import Pending, enforced, filters_of, verified, with_constraint
from server.errors import RequestRefused
from server.handover import HandedOver
from server.request_options import RequestOptions, no_answer_fits, refuse_small_budget, refuse_wide_integers
from tests.server.fakes import TextIndex, compiled, output, sample, tokens_of

EOS = 2
CONSTRAINT = Constraint.choice(["ok"])
COMPILED = compiled(CONSTRAINT, TextIndex("ok"))


def test_constraint_replaces_vllms_own():
    original = SamplingParams(structured_outputs=StructuredOutputsParams(json_object=True), extra_args={"other": 1})
    params = with_constraint(original, Pending(COMPILED), "req-7")
    guided = from_extra_args(params.extra_args)
    assert guided is not None
    assert (guided.constraint, guided.request_id) == (CONSTRAINT, "req-7")
    assert params.structured_outputs is None
    assert params.extra_args["other"] == 1
    assert original.structured_outputs is not None and original.extra_args == {"other": 1}


@pytest.mark.parametrize("fit_budget", [True, False])
def test_the_worker_is_told_whether_the_answer_has_to_fit(fit_budget):
    pending = Pending(COMPILED, options=RequestOptions(fit_budget=fit_budget))
    guided = from_extra_args(with_constraint(SamplingParams(), pending, "r").extra_args)
    assert guided is not None and guided.fit_budget == fit_budget


def test_a_budget_that_fits_no_answer_is_refused_with_the_number_that_is_needed():
    refuse_small_budget(7, 7, "guided_json")
    refuse_small_budget(None, 1, "guided_json")
    with pytest.raises(RequestRefused, match="guided_json needs 8 tokens") as raised:
        refuse_small_budget(8, 7, "guided_json")
    assert (raised.value.code, raised.value.status) == ("budget_too_small", 400)


def test_plain_parameters_pass_untouched():
    params = SamplingParams()
    assert with_constraint(params, None, "req") is params


def test_who_may_send_sampling_parameters_cannot_send_our_part_of_them():
    forged = SamplingParams(extra_args={"guided": {"digest": "../../etc"}})
    for pending in (None, Pending(COMPILED), handed_over()):
        with pytest.raises(VLLMValidationError, match="this server's own"):
            with_constraint(forged, pending, "req")


def handed_over(outputs: StructuredOutputsParams | None = None) -> HandedOver:
    return HandedOver("xgrammar", "guided_regex", Constraint.regex("a+"), outputs)


def test_vllms_backends_get_what_they_have_taken():
    outputs = StructuredOutputsParams(grammar='root ::= "a"')
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="a"))
    assert with_constraint(params, handed_over(outputs), "req").structured_outputs is outputs
    assert params.structured_outputs.regex == "a"


def test_a_constraint_of_vllms_making_is_refused():
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="a"))
    with pytest.raises(VLLMValidationError, match="does not enforce"):
        with_constraint(params, None, "req")


@pytest.mark.parametrize(
    "wide", [10**300, -(2**64), [1, 10**300], {"a": {"b": [2**63]}}], ids=["wide", "negative", "list", "deep"]
)
def test_an_integer_that_no_message_holds_is_named(wide):
    """`top_k` of ten to the 300th passes vLLM's checks, and fails where the request is sent to the engine."""
    refuse_wide_integers(
        msgspec.structs.asdict(SamplingParams(top_k=2**62, stop_token_ids=[1], extra_args={"a": [True]}))
    )
    with pytest.raises(RequestRefused, match="top_k must fit into 64 bits") as raised:
        refuse_wide_integers({"n": 1, "top_k": wide})
    assert (raised.value.status, raised.value.param) == (400, "top_k")


def run(outputs: list, *, deltas: bool, **options: Any) -> list:
    async def source():
        for item in outputs:
            yield item

    async def collect():
        return [item async for item in verified(source(), COMPILED, "req-9", deltas=deltas, **options)]

    return asyncio.run(collect())


def test_complete_deltas_pass():
    outputs = [output(sample(tokens_of("o"))), output(sample(tokens_of("k"))), output(sample([EOS], "stop"))]
    assert run(outputs, deltas=True) == outputs


def test_complete_whole_outputs_pass():
    outputs = [output(sample(tokens_of("o"))), output(sample([*tokens_of("ok"), EOS], "stop"))]
    assert run(outputs, deltas=False) == outputs


def test_samples_are_kept_apart():
    outputs = [
        output(sample(tokens_of("o"), index=0)),
        output(sample(tokens_of("ok"), index=1)),
        output(sample([*tokens_of("k"), EOS], "stop", index=0), sample([EOS], "stop", index=1)),
    ]
    assert run(outputs, deltas=True) == outputs


@pytest.mark.parametrize("text", ["", "o", "okk", "no"])
def test_incomplete_answer_that_stops_is_an_error(text):
    with pytest.raises(GenerationError, match="req-9"):
        run([output(sample([*tokens_of(text), EOS], "stop"))], deltas=False)


def test_filters_of_the_request_are_named_where_they_left_nothing():
    params = SamplingParams(bad_words=["x"], allowed_token_ids=[1])
    with pytest.raises(VLLMValidationError, match=r"req-9 .* allowed_token_ids and bad_words leave no token"):
        run([output(sample([EOS], "stop"))], deltas=False, filters=filters_of(params))


def test_an_answer_that_never_began_was_too_long_where_nobody_knew_how_long_it_is():
    """It is then the engine that finds out; one that has begun ends for a reason of ours."""
    too_small = no_answer_fits(40, "guided_json", "max_tokens")
    with pytest.raises(RequestRefused, match=r"no answer to guided_json .* may have 40") as raised:
        run([output(sample([EOS], "stop"))], deltas=False, too_small=too_small)
    assert (raised.value.status, raised.value.code) == (400, "budget_too_small")
    with pytest.raises(GenerationError):
        run([output(sample([*tokens_of("o"), EOS], "stop"))], deltas=False, too_small=too_small)


@pytest.mark.parametrize(
    ("error", "refusal", "words"),
    [
        (LimitExceeded("500 MB", limit="memory_bytes"), VLLMValidationError, "500 MB"),
        (Overloaded("too many wait", 3), RequestRefused, "too many wait"),
    ],
    ids=["limit", "load"],
)
def test_an_answer_that_no_worker_can_look_into_says_why(error, refusal, words):
    """The constraint is the client's, and the load is nobody's fault."""

    async def fail(tokens: list[int], caller: str) -> bool:
        raise error

    async def collect():
        async def source():
            yield output(sample([*tokens_of("ok"), EOS], "stop"))

        unknown = replace(COMPILED, index=None, satisfied_by=fail)
        return [item async for item in verified(source(), unknown, "req-9", deltas=False)]

    with pytest.raises(refusal, match=words) as raised:
        asyncio.run(collect())
    assert getattr(raised.value, "status", 400) in (400, 429)


@pytest.mark.parametrize("before", [[], [output(sample(tokens_of("o")))]], ids=["at once", "later"])
def test_a_backend_of_vllms_that_fails_in_the_engine_is_named(before):
    handed = handed_over()

    async def collect(outputs):
        async def source():
            for item in outputs:
                yield item

        return [item async for item in enforced(source(), handed)]

    assert asyncio.run(collect(before)) == before
    with pytest.raises(VLLMValidationError, match=handed.backend) as raised:
        asyncio.run(collect([*before, output(sample([], "error"))]))
    assert raised.value.parameter == handed.field


@pytest.mark.parametrize("reason", ["length", "abort"])
def test_incomplete_answer_that_says_so_passes(reason):
    outputs = [output(sample(tokens_of("o"), reason))]
    assert run(outputs, deltas=True) == outputs


def test_leaving_early_closes_the_engines_generator():
    closed = []

    async def source():
        try:
            yield output(sample(tokens_of("o")))
            yield output(sample(tokens_of("k")))
        finally:
            closed.append(True)

    async def leave():
        outputs = verified(source(), COMPILED, "req", deltas=True)
        await anext(outputs)
        await outputs.aclose()

    asyncio.run(leave())
    assert closed == [True]
