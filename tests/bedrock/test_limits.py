"""How much at once, how long, and what it cost: of the gateway on one event loop, as uvicorn runs it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from botocore.exceptions import ConnectionClosedError

from server.bedrock.engine import BedrockEngine, Spent
from server.bedrock.request import read_request
from server.bedrock.settings import BedrockSettings
from server.errors import RequestRefused
from tests.bedrock.stand_in import text, tool_use
from tests.bedrock.test_answers import WEATHER, chat, error

BODY = {"model": "haiku", "messages": [{"role": "user", "content": "?"}]}


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def logged(caplog) -> list[dict[str, Any]]:
    return [json.loads(r.message) for r in caplog.records if r.name == "guided.requests"]


# --- at once ----------------------------------------------------------------------------------------------------------


def test_as_many_at_once_as_there_are_connections(bedrock, gateway):
    """30 wait for Bedrock together, the 31st is refused; a cache is read beside them."""
    app = gateway(connections=30, answer_cache="memory").app
    bedrock.script = [text("ok")]
    bedrock.go_on.clear()

    async def run() -> tuple[list[int], httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            waiting = [asyncio.create_task(client.post("/v1/chat/completions", json=BODY)) for _ in range(30)]
            await until(lambda: len(bedrock.asked) == 30)
            refused = await client.post("/v1/chat/completions", json=BODY | {"temperature": 0})
            bedrock.go_on.set()
            return [(await answer).status_code for answer in waiting], refused

    statuses, refused = asyncio.run(run())
    assert statuses == [200] * 30
    assert error(refused, 503)["code"] == "overloaded"
    assert refused.headers["Retry-After"]


def test_one_key_leaves_room_for_the_others(bedrock, gateway, caplog):
    app = gateway(api_keys="one, two", concurrent_requests=2).app
    bedrock.script = [text("ok")]
    bedrock.go_on.clear()

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:

            def ask(key: str):
                headers = {"Authorization": f"Bearer {key}"}
                return asyncio.create_task(client.post("/v1/chat/completions", json=BODY, headers=headers))

            first = [ask("one"), ask("one")]
            await until(lambda: len(bedrock.asked) == 2)
            third, other = await ask("one"), ask("two")
            await until(lambda: len(bedrock.asked) == 3)
            bedrock.go_on.set()
            return [third, await other, *[await answer for answer in first], await ask("one")]

    with caplog.at_level("INFO", logger="guided.requests"):
        third, *others = asyncio.run(run())
    assert error(third, 429)["code"] == "rate_limit_exceeded"
    assert third.headers["Retry-After"]
    assert [answer.status_code for answer in others] == [200] * 4
    assert {r["caller"] for r in logged(caplog)} == {"key-1", "key-2"}


def test_requests_a_minute_are_limited(bedrock, gateway):
    client = gateway(requests_per_minute=2)
    bedrock.script = [text("ok")]
    answers = [chat(client) for _ in range(3)]
    assert [a.status_code for a in answers] == [200, 200, 429]
    assert answers[0].headers["x-ratelimit-remaining-requests"] == "1"


def test_a_client_that_leaves_is_not_paid_for_again(bedrock, gateway, caplog):
    app = gateway().app
    bedrock.script = [tool_use({"location": "Oslo"})]  # never fits: three attempts
    bedrock.go_on.clear()
    body = json.dumps(BODY | {"guided_json": WEATHER}).encode()
    messages: asyncio.Queue[dict[str, Any]]

    async def run() -> None:
        nonlocal messages
        messages = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "query_string": b""}
        answering = asyncio.create_task(app(scope, messages.get, lambda _: asyncio.sleep(0)))
        await until(lambda: bedrock.asked)
        messages.put_nowait({"type": "http.disconnect"})
        await answering
        bedrock.go_on.set()
        await asyncio.sleep(0.2)  # a second attempt would come now

    with caplog.at_level("INFO", logger="guided.requests"):
        asyncio.run(run())
    assert len(bedrock.asked) == 1
    (record,) = logged(caplog)
    assert (record["status"], record["code"], record["attempts"]) == (499, "client_left", 1)


# --- how long ---------------------------------------------------------------------------------------------------------


def test_the_time_of_a_request_is_one_for_all_its_attempts(bedrock, gateway, caplog):
    bedrock.go_on.clear()
    with caplog.at_level("INFO", logger="guided.requests"):
        told = error(chat(gateway(request_seconds=0.5, timeout_seconds=0.5)), 504)
    assert told["code"] == "timeout"
    assert logged(caplog)[0]["attempts"] == 1


class Client:
    """In the place of boto3's: each call takes a while and does what is next in the list."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    def converse(self, **_: Any) -> Any:
        time.sleep(0.1)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def complete(client: Client, checker, spent: Spent, **options: Any) -> Any:
    engine = BedrockEngine(client, {"haiku": "x"}, **options)

    async def run() -> Any:
        body = BODY | {"guided_json": WEATHER}
        return await engine.complete(await read_request(body, checker.of("a"), max_tokens=9, strict=False), spent)

    return asyncio.run(run())


def test_no_attempt_begins_that_could_not_end(checker):
    spent = Spent()
    with pytest.raises(RequestRefused, match=r"in 1 attempts.*no time for another"):
        complete(Client(*[tool_use({})] * 9), checker, spent, attempts=9, seconds=0.15)
    assert spent == Spent(419, 70, 1)


def test_a_connection_that_was_idle_for_too_long_is_made_anew(checker):
    closed = ConnectionClosedError(endpoint_url="https://x")
    answer = tool_use({"location": "Oslo", "unit": "celsius"})
    assert complete(Client(closed, answer), checker, Spent()).finish_reason == "stop"
    with pytest.raises(RequestRefused, match="cannot be reached"):
        complete(Client(closed, closed), checker, Spent())


def test_a_generation_longer_than_its_request_is_no_setting():
    with pytest.raises(ValueError, match="timeout_seconds 60 is above request_seconds 50"):
        BedrockSettings(models={"haiku": "x"}, request_seconds=50, timeout_seconds=60)


# --- what it cost -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status", "attempts"),
    [
        ([tool_use({})], 502, 2),
        ([tool_use({}), tool_use({}, stop="max_tokens")], 400, 2),
        ([text("no", stop="guardrail_intervened")], 400, 1),
    ],
)
def test_what_came_to_nothing_is_logged_with_its_tokens(bedrock, gateway, caplog, script, status, attempts):
    bedrock.script = script
    with caplog.at_level("INFO", logger="guided.requests"):
        error(chat(gateway(attempts=2), guided_json=WEATHER), status)
    (record,) = logged(caplog)
    assert record["attempts"] == attempts
    assert (record["input_tokens"], record["output_tokens"]) == (419 * attempts, 70 * attempts)
