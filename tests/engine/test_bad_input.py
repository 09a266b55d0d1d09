"""What cannot be enforced is a 400 that says what and where, before the first byte of a stream, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.engine.cases import SENTIMENTS
from tests.engine.requests import chat, curl

pytestmark = pytest.mark.engine
CODES = {
    "invalid_constraint",
    "unsupported_keyword",
    "unsatisfiable",
    "constraint_too_complex",
    "conflicting_constraints",
    "not_enforced",
    "budget_too_small",
}
BAD_PATTERN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(b"}}}

# request fields, start of `param`, words of the message
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"guided_regex": "(a"}, "guided_regex", ""),
    ({"guided_regex": "a{3,1}"}, "guided_regex", ""),
    ({"guided_regex": "[z-a]"}, "guided_regex", ""),
    ({"guided_regex": "(?=a)a*\\1"}, "guided_regex", ""),
    ({"guided_regex": 5}, "guided_regex", "string"),
    ({"guided_choice": []}, "guided_choice", "empty"),
    ({"guided_choice": "yes"}, "guided_choice", "list"),
    ({"guided_json": "{"}, "guided_json", "JSON"),
    ({"guided_json": {"type": "objekt"}}, "guided_json#", "objekt"),
    (
        {"guided_json": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(b"}}}},
        "guided_json#/properties/a",
        "",
    ),
    ({"guided_json": {"$ref": "#/nowhere"}}, "guided_json#", "nowhere"),
    ({"guided_json": {"not": {}}}, "guided_json#", ""),
    ({"guided_grammar": 'start: "a'}, "guided_grammar", ""),
    ({"guided_grammar": "start: missing"}, "guided_grammar", "missing"),
    ({"guided_grammar": ""}, "guided_grammar", ""),
    ({"guided_choise": SENTIMENTS}, "guided_choise", "unknown"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_", "one constraint"),
    ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "response_format", "one constraint"),
    ({"guided_json": {"type": "object"}, "guided_decoding_backend": "outline"}, "guided_decoding_backend", "outlines"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag", "is missing"),
    ({"structured_outputs": {"regx": "a"}}, "structured_outputs.regx", "not enforced"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "missing"),
    ({"guided_regex": "a+", "stop": ["a"]}, "guided_regex", "without containing 'a'"),
    ({"response_format": {"type": "json_object"}, "stop": "x"}, "response_format", "recursive"),
    ({"guided_regex": "a+", "ignore_eos": True}, "ignore_eos", "not supported"),
    ({"guided_regex": "a+", "use_beam_search": True}, "use_beam_search", "not supported"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("fields", "param", "words"), BAD, ids=[json.dumps(bad[0])[:70] for bad in BAD])
def test_bad_input(server, fields, param, words, stream):
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "hi"}],
        "stream": stream,
        "max_tokens": 5,
        **fields,
    }
    status, answer = curl(server, "/v1/chat/completions", body)
    assert status == 400, answer
    error = json.loads(answer)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] in CODES
    assert error["param"].startswith(param), error
    assert words in error["message"], error
    assert len(error["message"]) > 15
    assert "Traceback" not in error["message"]


def test_an_integer_that_does_not_reach_the_engine_is_named(server):
    status, answer = curl(server, "/v1/completions", {"model": server.model, "prompt": "hi", "top_k": 10**300})
    assert (status, json.loads(answer)["error"]["param"]) == (400, "top_k"), answer


def test_the_client_library_sees_a_bad_request(server):
    with pytest.raises(openai.BadRequestError) as raised:
        chat(server, "hi", extra_body={"guided_regex": "(a"})
    assert raised.value.param is not None and raised.value.param.startswith("guided_regex")
    assert raised.value.code == "invalid_constraint"


def test_the_server_goes_on_after_all_that(server):
    assert server.is_healthy()
    answer = chat(server, "Good or bad?", extra_body={"guided_choice": SENTIMENTS})
    assert answer.text in SENTIMENTS
    assert chat(server, "Say hello.", max_tokens=5).text


def test_other_routes_refuse_constraints(server):
    status, answer = curl(server, "/v1/messages", {"model": server.model, "messages": [], "guided_regex": "a"})
    assert status == 400
    assert json.loads(answer)["error"]["param"] == "guided_regex"
