"""Answers in the background that fail: whoever asks for them hears it, and no reader of events waits for ever. No engine."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.exceptions import GenerationError, VLLMValidationError

from server.background_responses import BackgroundResponses
from server.observation import Observation, current

REQUEST: Any = SimpleNamespace(request_id="resp_1")


class Failing(BackgroundResponses):
    """Its answers end in an error, those in a stream after one event."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.response_store: dict[str, Any] = {"resp_1": SimpleNamespace(status="queued")}
        self.response_store_lock = asyncio.Lock()
        self.event_store: dict[str, Any] = {}
        self.background_tasks: dict[str, Any] = {}

    async def responses_full_generator(self, *args: Any, **options: Any) -> Any:
        raise self.error

    async def responses_stream_generator(self, *args: Any, **options: Any) -> Any:
        yield SimpleNamespace(type="response.created")
        await asyncio.sleep(0)
        raise self.error


BUG, CLIENTS = RuntimeError("a prompt"), VLLMValidationError("too long", parameter="input")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (BUG, "server_error", "log"),
        (GenerationError("x"), "server_error", "log"),
        (CLIENTS, "invalid_prompt", "too long"),
    ],
    ids=["bug", "engine", "client"],
)
def test_what_fails_is_not_queued_for_ever(error, code, words):
    async def run() -> Any:
        serving = Failing(error)
        await serving._run_background_request(REQUEST)
        return serving.response_store["resp_1"]

    stored = asyncio.run(run())
    assert (stored.status, stored.error["code"]) == ("failed", code)
    assert words in stored.error["message"] and "a prompt" not in stored.error["message"]


def test_the_events_of_what_fails_end():
    async def run() -> list[str]:
        serving = Failing(BUG)
        serving.background_tasks["resp_1"] = asyncio.create_task(serving._run_background_request_stream(REQUEST))
        await asyncio.sleep(0)

        async def read() -> list[str]:
            return [event.type async for event in serving.responses_background_stream_generator("resp_1")]

        found = await asyncio.wait_for(asyncio.gather(read(), read()), 5)
        assert found[0] == found[1] == await read()
        return found[0]

    assert asyncio.run(run()) == ["response.created"]


def test_there_are_no_events_of_what_was_not_streamed():
    async def run() -> None:
        async for _ in Failing(BUG).responses_background_stream_generator("resp_2"):
            pass

    with pytest.raises(VLLMValidationError, match="resp_2"):
        asyncio.run(run())


def test_the_request_is_over_when_its_answer_is():
    seen = Observation("/v1/responses")
    over: list[bool] = []

    async def run() -> None:
        token = current.set(seen)
        work = Failing(BUG)._run_background_request(REQUEST)
        current.reset(token)
        assert seen.background
        seen.over = lambda: over.append(seen.background)
        assert not over
        await work

    asyncio.run(run())
    assert over == [False]
