"""What clients really send for structured output, recorded from their releases: each is read as the constraint that it means.

LangChain 1.7, LlamaIndex 0.8, Instructor 1.17, PydanticAI 2.68, the Vercel AI SDK 7 and LiteLLM 1.110, for one model of two fields.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from guided.constraint import Constraint
from server.enforcement import read_constraint
from server.request_fields import CHAT, refuse_dropped_fields
from server.tools.request import read_tools

FIELDS = {"name": {"title": "Name", "type": "string"}, "age": {"title": "Age", "type": "integer"}}
PYDANTIC = {"properties": FIELDS, "required": ["name", "age"], "title": "User", "type": "object"}
STRICT = {**PYDANTIC, "additionalProperties": False}
ZOD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def json_schema(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "User", "schema": schema, **more}}}


FORMATS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "langchain json_schema": (json_schema(STRICT, strict=True), STRICT),
    "langchain json_schema without strict": (json_schema(PYDANTIC, description="A user", strict=False), PYDANTIC),
    "langchain json_mode": ({"response_format": {"type": "json_object"}}, {"type": "object"}),
    "instructor JSON_SCHEMA": (json_schema(PYDANTIC), PYDANTIC),
    "instructor JSON": ({"response_format": {"type": "json_object"}}, {"type": "object"}),
    "pydantic_ai native": (json_schema(STRICT, description="The final response", strict=True), STRICT),
    "vercel structured": (json_schema(ZOD, strict=True), ZOD),
    "vercel without": ({"response_format": {"type": "json_object"}}, {"type": "object"}),
    "litellm": ({**json_schema(STRICT, strict=True), "user": "u", "metadata": {"a": "b"}, "store": False}, STRICT),
    "llama_index": (json_schema(STRICT, strict=True), STRICT),
    "llama.cpp style": ({"response_format": {"type": "json_object", "schema": PYDANTIC}}, PYDANTIC),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    fields, schema = FORMATS[name]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **copy.deepcopy(fields)}
    wanted = read_constraint(body)
    assert wanted is not None and wanted.constraint == Constraint.json_schema(schema)
    refuse_dropped_fields(body, CHAT, lambda name: False)


TOOL = {"type": "function", "function": {"name": "User", "description": "A user", "parameters": PYDANTIC}}
NAMED = {"type": "function", "function": {"name": "User"}}
TOOLS: dict[str, dict[str, Any]] = {
    "langchain function_calling": {"tools": [TOOL], "tool_choice": NAMED, "parallel_tool_calls": False},
    "instructor TOOLS": {"tools": [TOOL], "tool_choice": NAMED},
    "pydantic_ai tool": {"tools": [TOOL], "tool_choice": "required"},
    "vercel tools": {"tools": [TOOL], "tool_choice": "required"},
    "llama_index": {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    "litellm": {"tools": [TOOL], "tool_choice": "auto"},
}


@pytest.mark.parametrize("name", TOOLS)
def test_tools(name):
    body = {"model": "m", "messages": [], **copy.deepcopy(TOOLS[name])}
    found = read_tools(body)
    assert found is not None and [tool.parameters for tool in found.tools] == [PYDANTIC]
    assert found.choice == ("auto" if body["tool_choice"] == "auto" else "required")
    refuse_dropped_fields(body, CHAT, lambda name: False)
