"""Who is let in: by path, key, port, what was used, and whether the server takes requests at all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from server.access import Access, access_to
from server.allowance import Allowance
from server.availability import Availability
from server.callers import caller_of
from server.gate import ADMIN_PORT, LISTENER, Gate
from server.keys import ApiKey, KeyRing, read_text
from tests.server.asgi import ask, echo

TEAM_KEY, ADMIN_KEY, OWN_KEY = "sk-team-0123456789", "sk-admin-0123456789", "sk-own-0123456789"
TEAM, ADMIN = {"Authorization": f"Bearer {TEAM_KEY}"}, {"Authorization": f"bearer {ADMIN_KEY}"}
KEYS = KeyRing([*read_text(f"team={TEAM_KEY}", "k"), *read_text(f"operator={ADMIN_KEY}", "k", admin=True)])
OPEN = Allowance()
CHAT, FLUSH, METRICS = "/v1/chat/completions", "/v1/guided/cache/flush", "/metrics"
ON_ADMIN_PORT = {LISTENER: ADMIN_PORT}


def gate(app=echo, keys=KEYS, *, errored=False, allowance=OPEN, **options) -> Gate:
    return Gate(
        app,
        keys=keys,
        availability=Availability(SimpleNamespace(errored=errored, stall=None)),
        allowance=allowance,
        **options,
    )


def status(door: Gate, path: str, headers=None, **scope) -> int:
    return asyncio.run(ask(door, "POST", path, headers, **scope)).status


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/ping", "/playground/main.js"])
def test_public(path):
    assert status(gate(), path) == 200


@pytest.mark.parametrize(
    "path",
    [CHAT, "/v1/models", "/v1/guided/compile", "/invocations", "/tokenize", "/docs", "/openapi.json", "/version"],
)
def test_for_callers(path):
    door = gate()
    refused = asyncio.run(ask(door, "POST", path))
    assert (refused.status, refused.error["code"], refused.headers["www-authenticate"]) == (
        401,
        "missing_api_key",
        "Bearer",
    )
    assert asyncio.run(ask(door, "POST", path, {"Authorization": "Bearer sk-other"})).error["code"] == "invalid_api_key"
    assert status(door, path, {"Authorization": f"Basic {TEAM_KEY}"}) == 401
    assert status(door, path, TEAM) == status(door, path, ADMIN) == status(door, path, {"X-Api-Key": TEAM_KEY}) == 200


@pytest.mark.parametrize(
    "path", [FLUSH, FLUSH + "/", METRICS, "/metrics/", "/start_profile", "/health/x", "/unheard/of"]
)
def test_for_operators(path):
    door = gate()
    assert status(door, path) == 401
    assert asyncio.run(ask(door, "POST", path, TEAM)).error["code"] == "admin_key_required"
    assert status(door, path, ADMIN) == 200


def test_without_keys_everything_is_open():
    door = gate(keys=KeyRing())
    assert status(door, CHAT) == status(door, METRICS) == status(door, FLUSH) == 200


def test_paths_that_a_setting_opens():
    door = gate(open_paths={METRICS, "/docs"})
    assert status(door, METRICS) == status(door, "/docs") == 200
    assert status(door, FLUSH) == status(door, CHAT) == 401


def test_on_a_port_of_their_own():
    door = gate(admin_port=True)
    assert status(door, METRICS, ADMIN) == status(door, FLUSH, ADMIN) == 404
    assert status(door, CHAT, TEAM, **ON_ADMIN_PORT) == 404
    assert status(door, METRICS, **ON_ADMIN_PORT) == status(door, "/ready", **ON_ADMIN_PORT) == 200
    assert status(door, FLUSH, **ON_ADMIN_PORT) == 401
    assert status(door, FLUSH, TEAM, **ON_ADMIN_PORT) == 403
    assert status(door, FLUSH, ADMIN, **ON_ADMIN_PORT) == 200
    callers_only = gate(keys=KeyRing(read_text(TEAM_KEY, "k")), admin_port=True)
    assert status(callers_only, FLUSH, **ON_ADMIN_PORT) == 200


def test_behind_the_prefix_of_a_proxy():
    door = gate()
    assert status(door, "/llm/health", root_path="/llm") == 200
    assert status(door, "/llm/v1/models", root_path="/llm") == 401


def test_websockets_need_a_key_too():
    sent = []

    async def send(message) -> None:
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/v1/realtime", "headers": [], "extensions": {"websocket.http.response": {}}}
    asyncio.run(gate()(scope, receive, send))
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 401)


def test_requests_take_turns_and_are_logged_by_the_name_of_the_key():
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(caller_of(scope))
        await echo(scope, receive, send)

    asyncio.run(ask(gate(app), "POST", CHAT, TEAM))
    asyncio.run(ask(gate(app, keys=KeyRing()), "POST", CHAT))
    assert seen == ["team", "10.0.0.1"]


def test_limits_of_a_key_go_before_those_of_all():
    own = ApiKey("own", read_text(OWN_KEY, "k")[0].digest, requests_per_minute=3)
    door = gate(keys=KeyRing([own, *KEYS.keys]), allowance=Allowance(requests_per_minute=1))
    assert [status(door, CHAT, {"Authorization": f"Bearer {OWN_KEY}"}) for _ in range(4)] == [200, 200, 200, 429]
    first, second = (asyncio.run(ask(door, "POST", CHAT, TEAM)) for _ in range(2))
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    assert second.status == 429 and second.error["type"] == "rate_limit_error"
    assert second.headers["retry-after"] == "60" and second.headers["x-ratelimit-limit-requests"] == "1"
    assert status(door, METRICS, ADMIN) == status(door, METRICS, ADMIN) == 200  # a scrape is no request of a caller


def test_requests_at_a_time_end_with_their_answers_and_with_their_errors():
    async def main() -> None:
        inside, go = asyncio.Event(), asyncio.Event()

        async def app(scope, receive, send) -> None:
            inside.set()
            await go.wait()
            raise RuntimeError

        door = gate(app, allowance=Allowance(concurrent_requests=1))
        first = asyncio.create_task(ask(door, "POST", CHAT, TEAM))
        await inside.wait()
        assert (await ask(door, "POST", CHAT, TEAM)).status == 429
        assert door._availability.running == 1
        go.set()
        with pytest.raises(RuntimeError):
            await first
        assert door._availability.running == 0
        await asyncio.wait_for(door._availability.idle(), 1)
        with pytest.raises(RuntimeError):
            await ask(door, "POST", CHAT, TEAM)

    asyncio.run(main())


def test_a_server_that_shuts_down_takes_nothing_new():
    door = gate()
    door._availability.draining = True
    refused = asyncio.run(ask(door, "POST", CHAT, TEAM))
    assert (refused.status, refused.error["code"]) == (503, "shutting_down")
    assert refused.headers["connection"] == "close" and refused.headers["retry-after"]
    assert status(door, "/health") == status(door, METRICS, ADMIN) == 200


def test_nor_does_one_whose_engine_died():
    refused = asyncio.run(ask(gate(errored=True), "POST", CHAT, TEAM))
    assert (refused.status, refused.error["code"], refused.error["type"]) == (503, "engine_dead", "server_error")


@pytest.mark.parametrize("path", ["/V1/models", "//v1/models", "/v1", "/health/", "/ready2", "/docs/x", "/playground"])
def test_what_is_not_exactly_a_known_path_is_not_open(path):
    assert access_to(path) is Access.ADMIN
