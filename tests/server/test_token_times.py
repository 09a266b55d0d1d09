"""What is noted of the times of vLLM's requests to its engine, by vLLM's own output processor without an engine."""

from __future__ import annotations

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.stats import IterationStats

from server.observation import Observation, current
from server.token_times import TimedOutputs, Times


def processor(log_stats: bool = True) -> OutputProcessor:
    made = OutputProcessor(None, log_stats=log_stats)
    made.__class__ = TimedOutputs
    return made


def add(outputs: OutputProcessor, name: str, seen: Observation | None) -> None:
    """As the task of an HTTP request does."""
    params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, detokenize=False)
    request = EngineCoreRequest(
        request_id=name,
        prompt_token_ids=[1],
        mm_features=None,
        sampling_params=params,
        pooling_params=None,
        arrival_time=100.0,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
        external_req_id=name,
    )
    token = current.set(seen)
    try:
        outputs.add_request(request, None)
    finally:
        current.reset(token)


def step(
    outputs: OutputProcessor, now: float, tokens: dict[str, list[int]], finish: FinishReason | None = None
) -> None:
    made = [EngineCoreOutput(name, new, finish_reason=finish) for name, new in tokens.items()]
    outputs.process_outputs(made, now, IterationStats() if outputs.log_stats else None)


def counted(seen: Observation) -> tuple[int, float]:
    return sum(seen.gaps.counts), seen.gaps.seconds


def test_times_between_tokens_are_counted_as_they_come():
    outputs, first, second = processor(), Observation("a"), Observation("b")
    add(outputs, "1", first)
    add(outputs, "2", second)
    add(outputs, "3", None)
    step(outputs, 1.0, {"1": [5]})
    step(outputs, 1.25, {"1": [5], "2": [5], "3": [5]})
    assert (counted(first), counted(second)) == ((1, 0.25), (0, 0.0)), "nobody has seen an output by now"
    step(outputs, 2.0, {"1": [5, 6], "2": [5], "3": [5]}, FinishReason.LENGTH)
    assert (counted(first), counted(second)) == ((2, 1.0), (1, 0.75)), "accepted drafts come together"
    (times,) = first.times
    assert (times.num_generation_tokens, times.first_token_ts, times.last_token_ts) == (4, 1.0, 2.0)
    assert times.arrival_time == 100.0 and not times.goes_on


def test_an_answer_that_goes_on_in_another_request():
    outputs, seen = processor(), Observation("a")
    add(outputs, "1", seen)
    add(outputs, "2", seen)
    step(outputs, 1.0, {"1": [5], "2": [5]}, FinishReason.STOP)
    add(outputs, "1-2", seen)
    assert [times.goes_on for times in seen.times] == [False, False, True]


def test_what_is_aborted_has_no_token_and_no_time():
    outputs, seen = processor(), Observation("a")
    add(outputs, "1", seen)
    step(outputs, 1.0, {"1": [5]})
    step(outputs, 3.0, {"1": []}, FinishReason.ABORT)
    assert counted(seen) == (0, 0.0)


def test_without_statistics_there_are_no_times():
    outputs, seen = processor(log_stats=False), Observation("a")
    add(outputs, "1", seen)
    step(outputs, 1.0, {"1": [5]})
    assert seen.times == [] and counted(seen) == (0, 0.0)


def test_they_are_vllms_own():
    """Whoever reads the statistics of vLLM's outputs finds what vLLM wrote there."""
    outputs, seen = processor(), Observation("a")
    add(outputs, "1", seen)
    state = outputs.request_states["1"]
    assert isinstance(state.stats, Times) and state.stats is seen.times[0]
