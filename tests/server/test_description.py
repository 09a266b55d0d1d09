"""/openapi.json tells of every field of a constraint that the code reads, on every route that takes one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

from guided.constraint import Constraint
from server.description import CONSTRAINT_PATHS, FIELDS, OPTIONS, describe_constraints
from server.enforcement import read_constraint
from server.guided_fields import GUIDED_FIELDS, JSON_OPTIONS, OTHER_FIELDS
from server.request_fields import CHAT, COMPLETIONS, MODELS, RESPONSES
from server.request_options import DEFAULTS, NAMES
from server.routes import guided
from tests.live_server import ROOT

READERS = (
    "enforcement.py",
    "guided_fields.py",
    "handover.py",
    "request_options.py",
    "vllm_backends.py",
    "tools/request.py",
)


async def chat(request: ChatCompletionRequest) -> None: ...
async def complete(request: CompletionRequest) -> None: ...
async def respond(request: ResponsesRequest) -> None: ...
async def batch(request: ChatCompletionRequest) -> None: ...


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    app = FastAPI()
    for path, route in ((CHAT, chat), (COMPLETIONS, complete), (RESPONSES, respond), (f"{CHAT}/batch", batch)):
        app.post(path)(route)
    app.include_router(guided.router)
    describe_constraints(app)
    assert app.openapi() is app.openapi()
    return app.openapi()


def fields_of(description: dict[str, Any], path: str) -> dict[str, Any]:
    """The properties of the body that a route takes, through references and `allOf`."""
    found: dict[str, Any] = {}

    def collect(schema: dict[str, Any]) -> None:
        if "$ref" in schema:
            collect(description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
        for part in schema.get("allOf", []):
            collect(part)
        found.update(schema.get("properties", {}))

    collect(description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])
    return found


@pytest.mark.parametrize("path", [*MODELS, *CONSTRAINT_PATHS])
def test_every_route_that_takes_constraints_says_so(description, path):
    fields = fields_of(description, path)
    assert set(fields) >= set(FIELDS)
    assert ("model" in fields) == (path in MODELS)


@pytest.mark.parametrize("path", CONSTRAINT_PATHS)
def test_a_constraint_without_a_prompt_comes_in_any_spelling(description, path):
    assert set(fields_of(description, path)) == {*FIELDS, "structured_outputs", "response_format", "text"}


def test_a_route_that_refuses_constraints_does_not_offer_them(description):
    assert not set(fields_of(description, f"{CHAT}/batch")) & set(FIELDS)


def test_every_field_that_is_read_is_described():
    assert set(FIELDS) == {*GUIDED_FIELDS, *OTHER_FIELDS}
    assert set(OPTIONS) == {*JSON_OPTIONS, *NAMES}
    for file in READERS:
        source = (ROOT / "server" / file).read_text(encoding="utf-8")
        assert set(re.findall(r'"(guided_\w+)"', source)) <= set(FIELDS), file
        assert set(re.findall(r"guided_options\.(\w+)", source)) <= set(OPTIONS), file


def test_the_defaults_are_those_of_the_code():
    options = Constraint.json_schema({}).options | {name: getattr(DEFAULTS, name) for name in NAMES}
    for name, schema in OPTIONS.items():
        if "default" in schema:
            assert schema["default"] == options.get(name, "any"), (
                name
            )  # an option at "any" may be left out of the constraint


@pytest.mark.parametrize(("name", "values"), [(name, s["enum"]) for name, s in OPTIONS.items() if "enum" in s])
def test_the_values_are_those_that_are_taken(name, values):
    for value in values:
        assert read_constraint({"guided_json": {"type": "object"}, "guided_options": {name: value}}) is not None
