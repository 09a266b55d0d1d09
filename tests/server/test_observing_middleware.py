"""What is noted of a request on its way: how it ended, with which code, and how its answers did."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.responses import JSONResponse, Response, StreamingResponse

from server.errors import RequestRefused
from server.observation import Finished, Observation, current, in_background, watched
from server.observing_middleware import OTHER, ObservingMiddleware, code_of
from tests.server.fakes import output, sample, tokens_of

CHAT = "/v1/chat/completions"


def observed(answer, path: str = CHAT, method: str = "POST") -> list[Observation]:
    """Of one request to a route that answers with `answer()`."""
    seen: list[Observation] = []
    app = FastAPI()
    app.add_api_route(path, answer, methods=[method], response_model=None)
    app.add_middleware(ObservingMiddleware, record=[seen.append])
    with TestClient(app, raise_server_exceptions=False) as client:
        client.request(method, path)
    return seen


async def fine() -> Response:
    return JSONResponse({})


async def broken() -> Response:
    raise RuntimeError("a bug")


async def refused() -> Response:
    return RequestRefused("no", "unsatisfiable", "guided_regex").response()


async def unauthorised() -> Response:
    return JSONResponse({"error": "Unauthorized"}, status_code=401)


async def cut_off() -> Response:
    seen = current.get()
    assert seen is not None
    seen.answers.append(Finished("length", 5))
    return JSONResponse({})


async def breaks_in_the_stream() -> Response:
    async def parts():
        yield b"data: {}\n\n"
        async for _ in watched(failing(), current.get(), 5, deltas=True):
            pass

    async def failing():
        raise RuntimeError("the engine is gone")
        yield

    async def handled():
        try:
            async for part in parts():
                yield part
        except RuntimeError:  # as vLLM does, who sends an error event instead
            yield b"data: error\n\n"

    return StreamingResponse(handled())


@pytest.mark.parametrize(
    ("answer", "outcome", "status", "code"),
    [
        (fine, "completed", 200, None),
        (broken, "error", 0, None),
        (refused, "refused", 400, "unsatisfiable"),
        (unauthorised, "refused", 401, "401"),
        (cut_off, "truncated", 200, None),
        (breaks_in_the_stream, "error", 200, None),
    ],
)
def test_how_it_ended(answer, outcome, status, code):
    (seen,) = observed(answer)
    assert (seen.outcome, seen.status, seen.code) == (outcome, status, code)
    assert seen.route == CHAT and seen.begin <= seen.end


def test_routes_are_few():
    assert observed(fine, "/v1/anything/a/client/likes")[0].route == OTHER
    assert observed(fine, "/invocations")[0].route == "/invocations"
    assert [observed(fine, path)[0].route for path in ("/inference/v1/generate", "/tokenize")] == [OTHER] * 2


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/models", "GET"), ("/health", "GET"), ("/sleep", "POST"), ("/wp-login.php", "POST")]
)
def test_other_requests_are_not_observed(path, method):
    assert observed(fine, path, method) == []


@pytest.mark.parametrize("patient", [True, False])
def test_what_goes_on_in_the_background_counts_when_it_is_over(patient):
    """And at once where it was over before the response."""
    seen: list[Observation] = []

    async def run() -> None:
        more, tasks = asyncio.Event(), []

        async def work() -> None:
            await more.wait()
            found.answers.append(Finished("stop", 3))

        async def queued(scope, receive, send):
            nonlocal found
            found = current.get()
            found.background = True
            tasks.append(asyncio.create_task(in_background(found, work())))
            if not patient:
                more.set()
                await tasks[0]
            await JSONResponse({})(scope, receive, send)

        async def nothing(*_):
            return {"type": "http.disconnect"}

        found: Observation = Observation(CHAT)
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
        await ObservingMiddleware(queued, [seen.append])(scope, nothing, nothing)
        assert bool(seen) != patient
        more.set()
        await tasks[0]

    asyncio.run(run())
    (one,) = seen
    assert one.answers and one.outcome == "completed"


def test_nothing_is_left_for_the_next_request():
    observed(fine)
    assert current.get() is None


def test_a_client_that_leaves():
    seen: list[Observation] = []

    async def waits(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"

    async def left():
        return {"type": "http.disconnect"}

    async def nowhere(_):
        pass

    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    asyncio.run(ObservingMiddleware(waits, [seen.append])(scope, left, nowhere))
    assert seen[0].outcome == "abandoned"


def test_a_client_that_leaves_with_its_answer_has_not_left():
    seen: list[Observation] = []

    async def answers(scope, receive, send):
        await fine_response(scope, receive, send)
        await receive()

    async def left():
        return {"type": "http.disconnect"}

    async def nowhere(_):
        pass

    fine_response = JSONResponse({})
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    asyncio.run(ObservingMiddleware(answers, [seen.append])(scope, left, nowhere))
    assert seen[0].outcome == "completed"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error": {"code": "budget_too_small"}}', "budget_too_small"),
        (b'{"error": {"code": 400}}', "400"),
        (b'{"error": {"code": "no such code!"}}', "400"),
        (b'{"error": {"code": "' + b"a" * 99 + b'"}}', "400"),
        (b'{"error": "Unauthorized"}', "400"),
        (b"[]", "400"),
        (b"\xff", "400"),
        (json.dumps({"error": None}).encode(), "400"),
    ],
)
def test_codes_are_few(body, code):
    assert code_of(body, 400) == code


# --- answers ----------------------------------------------------------------------------------------------------------


def run(parts, *, deltas: bool, in_steps: bool = False) -> Observation:
    seen = Observation(CHAT, in_steps=in_steps)

    async def outputs():
        for part in parts:
            yield part

    async def consume():
        passed = [one async for one in watched(outputs(), seen, 9, deltas=deltas)]
        assert passed == parts

    asyncio.run(consume())
    return seen


def test_tokens_of_deltas_are_added_up():
    seen = run([output(sample(tokens_of("o"))), output(sample(tokens_of("k."), "stop"))], deltas=True)
    assert (seen.answers, seen.max_tokens, seen.generated) == ([Finished("stop", 3)], 9, True)


def test_each_sample_is_an_answer():
    parts = [output(sample([1], None, 0)), output(sample([2, 3], "length", 1)), output(sample([4], "stop", 0))]
    assert run(parts, deltas=True).answers == [Finished("length", 2), Finished("stop", 2)]


def test_a_step_of_a_beam_search_ends_no_answer():
    seen = run([output(sample([1], "length"))], deltas=False, in_steps=True)
    assert not seen.answers and seen.generated and Observation(CHAT, status=200).outcome == "completed"


def test_what_is_refused_at_the_first_output_was_not_broken():
    assert Observation(CHAT, status=400, broke=True).outcome == "refused"
