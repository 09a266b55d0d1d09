"""The gateway on a stand-in for Bedrock, as an HTTP client sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from server.bedrock.checker import Checker
from server.bedrock.settings import BedrockSettings
from server.bedrock.start import application
from tests.bedrock.stand_in import StandIn, serving

MODEL_ID = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """No automaton runs here: overrides the fixture that compiles for them."""


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "y"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with serving() as stand_in:
        yield stand_in


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    """One for all gateways with the usual limit, since a process takes half a second to start."""
    checker = Checker(2, BedrockSettings(models={"haiku": MODEL_ID}).check_seconds)
    yield checker
    checker.close()


@pytest.fixture
def gateway(bedrock: StandIn, checker: Checker) -> Iterator[Callable[..., TestClient]]:
    """A function: settings -> a client of a gateway with them."""
    clients, checkers = [], []

    def start(**settings: object) -> TestClient:
        given = {"models": {"haiku": MODEL_ID}, "region": "eu-central-1", "endpoint_url": bedrock.url} | settings
        own = checker
        if "check_seconds" in given:
            checkers.append(own := Checker(1, given["check_seconds"]))
        client = TestClient(application(BedrockSettings(**given), own), raise_server_exceptions=False)
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()
    for own in checkers:
        own.close()
