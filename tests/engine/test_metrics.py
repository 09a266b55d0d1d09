"""What dashboards and alerts count on a live server: refusals too, though no engine sees them."""

from __future__ import annotations

import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.requests import curl
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine
ROUTE = "/v1/completions"


def value(server: LiveServer, name: str, **labels: str) -> float:
    """Of a series; 0 where nothing was counted yet."""
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics", timeout=10).text)
    return sum(s.value for f in families for s in f.samples if s.name == name and labels.items() <= s.labels.items())


def complete(server: LiveServer, **fields) -> int:
    return curl(server, ROUTE, {"model": server.model, "prompt": "Code: ", "max_tokens": 24, **fields})[0]


def test_refused_constraints_are_counted(server):
    http = {"handler": ROUTE, "method": "POST", "status": "4xx"}
    ours = {"route": ROUTE, "kind": "none", "outcome": "refused"}
    before = value(server, "http_requests_total", **http), value(server, "guided_requests_total", **ours)
    code = value(server, "guided_refused_requests_total", code="invalid_constraint")
    assert complete(server, guided_regxe="a") == 400
    after = value(server, "http_requests_total", **http), value(server, "guided_requests_total", **ours)
    assert after == (before[0] + 1, before[1] + 1)
    assert value(server, "guided_refused_requests_total", code="invalid_constraint") == code + 1


PATTERN = "[a-z]{9} [a-z]{9}"
TIMED = {
    "regex": {"guided_regex": PATTERN},
    "vllm": {"guided_regex": PATTERN, "guided_decoding_backend": "guidance"},
    "none": {"ignore_eos": True},
}
NAMES = ("guided_time_to_first_token_seconds", "guided_inter_token_seconds", "guided_request_seconds")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", TIMED)
def test_times_of_an_answer(server, kind, stream):
    """Whoever enforces its constraint, if it has one, and whether anybody saw its tokens come."""

    def read(what: str) -> list[float]:
        return [value(server, f"{name}_{what}", route=ROUTE, kind=kind) for name in NAMES]

    counted, summed = read("count"), read("sum")
    assert complete(server, **TIMED[kind], stream=stream) == 200
    answers, gaps, requests = (after - before for after, before in zip(read("count"), counted, strict=True))
    assert (answers, requests) == (1, 1) and 3 <= gaps <= 23, "one for each token but the first"
    first, between, whole = (after - before for after, before in zip(read("sum"), summed, strict=True))
    assert 0 < between < whole and 0 < first < whole  # by two clocks: their sum may be a little more than the whole


def test_times_of_several_answers(server):
    """Of answers that are not streamed vLLM gives out the times of one."""
    before = value(server, f"{NAMES[0]}_count", route=ROUTE, kind="none")
    assert complete(server, n=3, ignore_eos=True, max_tokens=3) == 200
    assert value(server, f"{NAMES[0]}_count", route=ROUTE, kind="none") == before + 3


def test_a_beam_search_is_one_request(server):
    labels, outcomes = {"route": ROUTE, "kind": "none"}, {"route": ROUTE, "kind": "none", "outcome": "completed"}

    def read() -> list[float]:
        counts = [value(server, f"{name}_count", **labels) for name in (NAMES[0], NAMES[2])]
        return [*counts, value(server, "guided_requests_total", **outcomes)]

    before = read()
    assert complete(server, n=2, use_beam_search=True, max_tokens=4, temperature=0) == 200
    assert read() == [count + 1 for count in before]


def test_an_answer_that_is_cut_off(server):
    before = value(server, "guided_truncated_answers_total", kind="regex")
    fields = {"guided_regex": "[a-z]{200}", "max_tokens": 4, "guided_options": {"fit_budget": False}}
    assert complete(server, **fields) == 200
    assert value(server, "guided_truncated_answers_total", kind="regex") == before + 1
    assert value(server, "guided_requests_total", route=ROUTE, kind="regex", outcome="truncated") >= 1


def test_an_answer_that_the_budget_ends(server):
    """The stop token is the last of ten tokens that the pattern leaves no way around."""
    before = value(server, "guided_budget_bound_answers_total", kind="regex")
    needed = httpx.post(f"{server.url}/v1/guided/compile", json={"guided_regex": "(0 1 2 3 )"}, timeout=60).json()
    assert complete(server, guided_regex="(0 1 2 3 )", max_tokens=needed["fewest_tokens"] + 1) == 200
    assert value(server, "guided_budget_bound_answers_total", kind="regex") == before + 1


def test_where_an_index_came_from(server):
    def waited() -> list[float]:
        return [value(server, "guided_constraint_wait_seconds_count", tier=tier) for tier in ("compiled", "memory")]

    before, states = waited(), value(server, "guided_index_states_count")
    pattern = "metrics of [0-9]{3}"
    httpx.post(f"{server.url}/v1/guided/cache/flush", timeout=60)
    assert complete(server, guided_regex=pattern) == complete(server, guided_regex=pattern) == 200
    assert waited() == [before[0] + 1, before[1] + 1]
    assert value(server, "guided_index_states_count") == states + 1
    assert value(server, "guided_compilation_seconds_count") == value(server, "guided_compilations_total")


def test_what_masks_cost_and_leave(server):
    """Of every step, and of one answer in 16 that nobody asked about."""
    names = ("guided_mask_seconds_count", "guided_mask_seconds_sum", "guided_allowed_mass_count")
    before = [value(server, name) for name in names]
    for _ in range(16):
        assert complete(server, guided_regex="[a-z]{3}") == 200
    deadline = time.monotonic() + 10
    while (after := [value(server, name) for name in names])[2] == before[2] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert after[0] >= before[0] + 16 and after[1] > before[1] and after[2] > before[2]
    assert value(server, "guided_forced_tokens_total", kind="regex") > 0, "the stop token is one"
