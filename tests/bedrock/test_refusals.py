"""What this gateway cannot honour is a 400 that names it, before Bedrock is asked and paid."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from server.bedrock.app import create_app
from server.bedrock.cache import NoCache
from server.bedrock.checker import Checker
from server.bedrock.engine import ERRORS
from server.bedrock.settings import BedrockSettings
from server.without_effect import WITHOUT_EFFECT
from tests.bedrock.stand_in import text, tool_use
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
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"logit_bias": {"1": 2}}, "unsupported_parameter", "logit_bias"),
        ({"seed": 1}, "unsupported_parameter", "seed"),
        ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
        ({"temperature": 1.5}, "unsupported_parameter", "temperature"),
        ({"temperature": "hot"}, "invalid_type", "temperature"),
        ({"temperature": True}, "invalid_type", "temperature"),
        ({"top_p": 2}, "invalid_value", "top_p"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "invalid_value", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
        ({"stream": "yes"}, "invalid_type", "stream"),
        ({"stop": [1]}, "invalid_type", "stop"),
        ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
        ({"stream": True, "stream_options": "usage"}, "invalid_type", "stream_options"),
        ({"stream": True, "stream_options": {"a": 1}}, "unsupported_parameter", "stream_options.a"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "invalid_type", "stream_options.include_usage"),
        ({"guided_json": WEATHER, "guided_decoding_backend": "xgrammar"}, "not_enforced", "guided_decoding_backend"),
        ({"guided_decoding_backend": "auto"}, "not_enforced", "guided_decoding_backend"),
        *(
            ({"guided_json": WEATHER, "guided_options": {name: value}}, "not_enforced", f"guided_options.{name}")
            for name, value in (("report", True), ("fit_budget", False), ("property_order", "schema"))
        ),
        ({"messages": None}, "missing_required_parameter", "messages"),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": "hi"}, "invalid_type", "messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "invalid_value", "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "unsupported_parameter", "messages#/0/role"),
        (
            {"messages": [{"role": "user", "content": "a", "tool_calls": []}]},
            "unsupported_parameter",
            "messages#/0/tool_calls",
        ),
        ({"messages": [{"role": "user", "content": "a", "name": "Ann"}]}, "unsupported_parameter", "messages#/0/name"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "unsupported_parameter",
            "messages#/0/content",
        ),
        ({"messages": [{"role": "user", "content": " "}]}, "invalid_value", "messages#/0/content"),
        ({"model": 5}, "invalid_type", "model"),
    ],
)
def test_refused_by_name(bedrock, gateway, fields, code, param):
    bedrock.script = [text("never")]
    told = error(chat(gateway(), **fields), 400)
    assert (told["code"], told["param"]) == (code, param)
    assert told["message"]
    assert bedrock.asked == []


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": OBJECT, "guided_decoding_backend": "guided"},
        {"guided_json": OBJECT, "guided_options": {"report": False, "fit_budget": True, "property_order": "any"}},
        *({"guided_json": OBJECT, "guided_options": {"whitespace": w}} for w in ("json_dumps", "compact", "any")),
        {"guided_json": OBJECT, "guided_options": {"escapes": "needed"}},
        {"messages": [{"role": "user", "content": "a", "name": None, "tool_calls": None}]},
        dict.fromkeys(WITHOUT_EFFECT, "x"),
    ],
)
def test_what_holds_anyway_is_taken(bedrock, gateway, fields):
    """Compact JSON without needless escapes is what every layout allows."""
    bedrock.script = [tool_use({"a": "é\n"}) if "guided_json" in fields else text("ok")]
    answer = chat(gateway(), **fields)
    assert answer.status_code == 200, answer.text
    if "guided_json" in fields:
        assert answer.json()["choices"][0]["message"]["content"] == '{"a":"é\\n"}'


def test_an_unknown_model_is_a_404(bedrock, gateway):
    assert error(chat(gateway(), model="gpt-4"), 404)["param"] == "model"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "invalid_type"),
        (b"[]", 400, "invalid_type"),
        (b"{", 400, "invalid_json"),
        (b'{"max_tokens": NaN}', 400, "invalid_json"),
        (b'{"model": "\\ud800"}', 400, "invalid_constraint"),
        (b'{"a":' * 100_000, 400, "constraint_too_complex"),
        (b'{"model": "' + b"x" * 2_000_000 + b'"}', 413, "request_too_large"),
    ],
    ids=["empty", "list", "half", "nan", "surrogate", "deep", "large"],
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


def test_one_model(bedrock, gateway):
    client = gateway(models={"haiku": "x", "a/b:1": "y"})
    assert client.get("/v1/models/a/b:1").json() == {"id": "a/b:1", "object": "model", "owned_by": "bedrock"}
    assert error(client.get("/v1/models/gpt"), 404)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/embeddings", 404, "unknown_url"),
        ("GET", "/openapi.json", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
    ],
)
def test_errors_of_routes_have_the_same_body(bedrock, gateway, method, path, status, code):
    answer = gateway().request(method, path)
    assert error(answer, status)["code"] == code
    assert ("allow" in answer.headers) is (status == 405)


def test_every_code_is_in_the_documentation():
    root = Path(__file__).resolve().parents[2]
    codes = {code for _, code in ERRORS.values()}
    for path in (root / "server" / "bedrock").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RequestRefused":
                codes |= {a.value for a in node.args[1:2] if isinstance(a, ast.Constant)}
    assert {"constraint_not_met", "rate_limit_exceeded", "client_left", "invalid_type"} <= codes
    assert codes <= set(re.findall(r"`([a-z_]+)`", (root / "docs" / "errors.md").read_text(encoding="utf-8")))


def test_our_bug_is_an_error_without_details(bedrock, gateway, monkeypatch):
    from server.bedrock.engine import BedrockEngine

    async def broken(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(BedrockEngine, "complete", broken)
    answer = chat(gateway())
    assert error(answer, 500)["code"] == "internal_error"
    assert "secret" not in answer.text


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
        async def complete(self, conversation, spent):
            return Answer(conversation.arguments["messages"][0]["content"][0]["text"], "stop")

    client = TestClient(create_app(BedrockSettings(models={"haiku": "x"}), Parrot(), NoCache(), Checker(1, 1)))
    assert chat(client).json()["choices"][0]["message"]["content"] == "Weather in Oslo?"
