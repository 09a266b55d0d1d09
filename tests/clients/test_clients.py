"""Clients as their documentation shows them, unchanged but for the address: each gets an object of its model, whatever it sends for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.fetch_clients import target
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine
PROGRAMS = Path(__file__).parent / "programs"
SENTIMENTS = {"POSITIVE", "NEUTRAL", "NEGATIVE"}


def run(server: LiveServer, client: str, program: str, way: str) -> Any:
    """What the program printed, as JSON."""
    folder = target() / client
    if not (folder / ".finished").exists():
        pytest.skip(f"{client} could not be fetched: python -m scripts.fetch_clients says why")
    command = ["node"] if program.endswith(".mjs") else [str(folder / "bin" / "python")]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"CLIENTS_FOLDER": str(folder)}
    done = subprocess.run(
        [*command, str(PROGRAMS / program), server.url, server.model, way],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "stream"])
def test_langchain(server, method):
    found = run(server, "langchain", "langchain_program.py", method)
    assert set(found) == {"name", "height_in_meters"} and isinstance(found["height_in_meters"], float)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_instructor(server, mode):
    found = run(server, "instructor", "instructor_program.py", mode)
    assert set(found) == {"name", "age", "occupation"} and isinstance(found["age"], int)


@pytest.mark.parametrize("way", ["plain", "tool", "native"])
def test_pydantic_ai(server, way):
    assert set(run(server, "pydantic_ai", "pydantic_ai_program.py", way)) == {"city", "country"}


@pytest.mark.parametrize("way", ["chat", "stream"])
def test_node_generates(server, way):
    assert run(server, "node", "node_program.mjs", way) in SENTIMENTS


@pytest.mark.parametrize("way", ["schema", "responses"])
def test_node_gets_an_object(server, way):
    found = run(server, "node", "node_program.mjs", way)
    assert set(found) == {"x", "y"} and all(0 <= value <= 9 for value in found.values())


def test_node_calls_a_tool(server):
    found = run(server, "node", "node_program.mjs", "tools")
    assert found["name"] == "add" and found["reason"] == "tool_calls"
    assert set(found["arguments"]) == {"x", "y"} and all(0 <= value <= 9 for value in found["arguments"].values())


def test_node_sees_the_place_of_an_error(server):
    found = run(server, "node", "node_program.mjs", "error")
    assert found == {
        "status": 400,
        "code": "invalid_constraint",
        "param": found["param"],
        "type": "invalid_request_error",
    }
    assert found["param"].startswith("guided_regex")
