"""What this gateway cannot honour is a 400 that names it, before Bedrock is asked and paid."""

from __future__ import annotations

import pytest

from server.bedrock.app import create_app
from server.bedrock.cache import NoCache
from server.bedrock.settings import BedrockSettings
from tests.bedrock.stand_in import text
from tests.bedrock.test_answers import WEATHER, chat, error

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"guided_regex": "[0-9]+"}, "not_enforced", "guided_regex"),
        ({"guided_grammar": 'start: "a"'}, "not_enforced", "guided_grammar"),
        ({"guided_ref": "0" * 64}, "not_enforced", "guided_ref"),
        ({"structured_outputs": {"regex": "a"}}, "not_enforced", "structured_outputs.regex"),
        ({"guided_choise": ["a"]}, "invalid_constraint", "guided_choise"),
        ({"guided_choice": []}, "invalid_constraint", "guided_choice"),
        ({"guided_json": WEATHER, "guided_choice": ["a"]}, "conflicting_constraints", "guided_choice"),
        ({"guided_json": WEATHER, "guided_whitespace_pattern": " "}, "not_enforced", "guided_json"),
        ({"guided_json": WEATHER, "stop": "x"}, "not_enforced", "stop"),
        (
            {"guided_json": WEATHER, "guided_options": {"after": "</think>"}},
            "not_enforced",
            "guided_options.after",
        ),
        ({"guided_json": {"type": "objekt"}}, "invalid_constraint", "guided_json#/type"),
        ({"guided_json": {**OBJECT, "patternProperties": {}}}, "unsupported_keyword", "guided_json#/patternProperties"),
        ({"guided_json": {**OBJECT, "minLenght": 3}}, "unsupported_keyword", "guided_json#/minLenght"),
        ({"guided_json": {**OBJECT, "allOf": [{}]}}, "unsupported_keyword", "guided_json#/allOf"),
        (
            {"guided_json": {"type": "object", "properties": {"a/b": {"$ref": "https://example.com/x"}}}},
            "unsupported_keyword",
            "guided_json#/properties/a~1b/$ref",
        ),
        ({"guided_json": {"$ref": "#/$defs/none", "$defs": {}}}, "unsupported_keyword", "guided_json#/$ref"),
        ({"guided_json": {"$ref": "#"}}, "unsupported_keyword", "guided_json#/$ref"),
        ({"guided_json": {"type": "string", "format": "postcode"}}, "unsupported_keyword", "guided_json#/format"),
        ({"guided_json": {"type": "string", "pattern": "(a"}}, "invalid_constraint", "guided_json#/pattern"),
        ({"n": 2}, "not_enforced", "n"),
        ({"logprobs": True}, "not_enforced", "logprobs"),
        ({"logit_bias": {"1": 2}}, "not_enforced", "logit_bias"),
        ({"seed": 1}, "not_enforced", "seed"),
        ({"tools": [{"type": "function"}]}, "not_enforced", "tools"),
        ({"temperature": 1.5}, "not_enforced", "temperature"),
        ({"temperature": "hot"}, "invalid_request", "temperature"),
        ({"temperature": True}, "invalid_request", "temperature"),
        ({"top_p": 2}, "invalid_request", "top_p"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_request", "max_tokens"),
        ({"stream": "yes"}, "invalid_request", "stream"),
        ({"stop": [1]}, "invalid_request", "stop"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": "hi"}, "invalid_request", "messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "invalid_request", "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "not_enforced", "messages.0.role"),
        ({"messages": [{"role": "user", "content": "a", "tool_calls": []}]}, "not_enforced", "messages.0.tool_calls"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "not_enforced", "messages.0.content"),
        ({"messages": [{"role": "user", "content": " "}]}, "invalid_request", "messages.0.content"),
        ({"model": 5}, "invalid_request", "model"),
    ],
)
def test_refused_by_name(bedrock, gateway, fields, code, param):
    bedrock.script = [text("never")]
    told = error(chat(gateway(), **fields), 400)
    assert (told["code"], told["param"]) == (code, param)
    assert told["message"]
    assert bedrock.asked == []


def test_an_unknown_model_is_a_404(bedrock, gateway):
    assert error(chat(gateway(), model="gpt-4"), 404)["param"] == "model"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "invalid_request"),
        (b"[]", 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        (b'{"model": "\\ud800"}', 400, "invalid_request"),
        (b'{"a":' * 100_000, 400, "constraint_too_complex"),
        (b'{"model": "' + b"x" * 2_000_000 + b'"}', 413, "request_too_large"),
    ],
    ids=["empty", "list", "half", "surrogate", "deep", "large"],
)
def test_a_body_that_is_no_request(bedrock, gateway, raw, status, code):
    assert error(gateway().post("/v1/chat/completions", content=raw), status)["code"] == code


def test_a_deep_schema(bedrock, gateway):
    schema = {"type": "string"}
    for _ in range(400):
        schema = {"type": "array", "items": schema}
    told = error(chat(gateway(), guided_json=schema), 400)
    assert told["code"] == "constraint_too_complex"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "one", "Bearer öne"])
def test_without_a_key_nothing_is_revealed(bedrock, gateway, header):
    client = gateway(api_keys="one, two")
    headers = {"Authorization": header.encode()} if header else {}
    for answer in (client.get("/v1/models", headers=headers), client.post("/v1/chat/completions", headers=headers)):
        if header != "one":  # the scheme may be left out
            assert error(answer, 401)["code"] == "invalid_api_key"


@pytest.mark.parametrize("key", ["one", "two"])
def test_every_key_opens(bedrock, gateway, key):
    answer = gateway(api_keys="one, two").get("/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert answer.json()["data"][0]["id"] == "haiku"


def test_health_needs_no_key(bedrock, gateway):
    assert gateway(api_keys="one").get("/health").status_code == 200


def test_the_log_has_tokens_and_no_text(bedrock, gateway, caplog):
    import json

    bedrock.script = [text("a secret answer")]
    with caplog.at_level("INFO", logger="guided.requests"):
        chat(gateway())
        chat(gateway(), guided_regex="a")
    first, second = (json.loads(r.message) for r in caplog.records)
    assert (first["status"], first["input_tokens"], first["output_tokens"], first["attempts"]) == (200, 419, 70, 1)
    assert (second["status"], second["code"]) == (400, "not_enforced")
    assert "secret" not in caplog.text
    assert "Oslo" not in caplog.text


def test_any_engine_will_do():
    """The gateway needs of an engine what `Engine` says, and no more."""
    from fastapi.testclient import TestClient

    from server.bedrock.engine import Answer

    class Parrot:
        async def complete(self, conversation):
            return Answer(conversation.arguments["messages"][0]["content"][0]["text"], "stop")

    client = TestClient(create_app(BedrockSettings(models={"haiku": "x"}), Parrot(), NoCache()))
    assert chat(client).json()["choices"][0]["message"]["content"] == "Weather in Oslo?"
