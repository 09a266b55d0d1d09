"""Constrained answers from Bedrock: what is asked of it, what is checked, and what the client sees when it does not fit."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.bedrock.conftest import MODEL_ID
from tests.bedrock.stand_in import text, tool_use

WEATHER = {
    "type": "object",
    "properties": {"location": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["location", "unit"],
}
OSLO = {"location": "Oslo", "unit": "celsius"}


def chat(client, **body):
    body = {"model": "haiku", "messages": [{"role": "user", "content": "Weather in Oslo?"}], **body}
    return client.post("/v1/chat/completions", json=body)


def content(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def error(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


# --- what is asked, what is returned ----------------------------------------------------------------------------------


def test_a_schema_is_asked_for_as_a_tool(bedrock, gateway):
    bedrock.script = [tool_use(OSLO)]
    answer = chat(gateway(), guided_json=WEATHER, max_tokens=50, temperature=0.5, top_p=0.9)
    assert json.loads(content(answer)) == OSLO
    model, asked = bedrock.asked[0]
    assert model == MODEL_ID
    assert asked["inferenceConfig"] == {"maxTokens": 50, "temperature": 0.5, "topP": 0.9}
    (tool,) = asked["toolConfig"]["tools"]
    assert asked["toolConfig"]["toolChoice"] == {"tool": {"name": tool["toolSpec"]["name"]}}
    assert tool["toolSpec"]["inputSchema"]["json"] == {**WEATHER, "additionalProperties": False}
    body = answer.json()
    assert body["usage"] == {"prompt_tokens": 419, "completion_tokens": 70, "total_tokens": 489}
    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": WEATHER},
        {"guided_json": json.dumps(WEATHER)},
        {"structured_outputs": {"json": WEATHER}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": WEATHER, "strict": True}}},
    ],
)
def test_every_spelling_of_a_schema(bedrock, gateway, fields):
    bedrock.script = [tool_use(OSLO)]
    assert json.loads(content(chat(gateway(), **fields))) == OSLO
    assert "toolConfig" in bedrock.asked[0][1]


def test_a_choice_is_an_enum(bedrock, gateway):
    bedrock.script = [tool_use({"value": "NEUTRAL"})]
    assert content(chat(gateway(), guided_choice=["POSITIVE", "NEUTRAL"])) == "NEUTRAL"
    schema = bedrock.asked[0][1]["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]
    assert schema["properties"]["value"]["enum"] == ["POSITIVE", "NEUTRAL"]


def test_a_schema_that_is_no_object_travels_in_one(bedrock, gateway):
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3}
    bedrock.script = [tool_use({"value": [1, 2]})]
    assert json.loads(content(chat(gateway(), guided_json=schema))) == [1, 2]
    sent = bedrock.asked[0][1]["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]
    jsonschema.validate({"value": [1]}, sent)  # the reference still leads to its definition
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"value": ["x"]}, sent)


def test_plain_text_passes_through(bedrock, gateway):
    bedrock.script = [text("It rains.")]
    assert content(chat(gateway())) == "It rains."
    assert "toolConfig" not in bedrock.asked[0][1]


def test_turns_and_system_texts(bedrock, gateway):
    bedrock.script = [text("ok")]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    content(chat(gateway(), messages=messages, stop="END"))
    asked = bedrock.asked[0][1]
    assert asked["system"] == [{"text": "Be brief."}]
    assert [m["role"] for m in asked["messages"]] == ["user", "assistant", "user"]
    assert asked["messages"][0]["content"] == [{"text": "a"}, {"text": "b"}]
    assert asked["inferenceConfig"]["stopSequences"] == ["END"]


def test_a_stream_brings_the_same_answer(bedrock, gateway):
    bedrock.script = [tool_use(OSLO)]
    answer = chat(gateway(), guided_json=WEATHER, stream=True, stream_options={"include_usage": True})
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(e) for e in events[:-1]]
    told = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    assert json.loads(told) == OSLO
    assert chunks[-1]["usage"]["total_tokens"] == 489
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"


def test_the_official_client(bedrock, gateway):
    import openai

    bedrock.script = [tool_use({"value": "yes"})]
    client = openai.OpenAI(base_url="http://testserver/v1", api_key="k", http_client=gateway())
    made = client.chat.completions.create(
        model="haiku", messages=[{"role": "user", "content": "?"}], extra_body={"guided_choice": ["yes", "no"]}
    )
    assert made.choices[0].message.content == "yes"
    assert [m.id for m in client.models.list()] == ["haiku"]


# --- every answer is validated ----------------------------------------------------------------------------------------

BROKEN = [
    {"location": "Oslo"},
    {"location": "Oslo", "unit": "kelvin"},
    {"location": "x" * 21, "unit": "celsius"},
    {"location": "Oslo", "unit": "celsius", "more": 1},
    "Oslo",
]


@pytest.mark.parametrize("broken", BROKEN[:4])
def test_an_answer_that_does_not_fit_is_asked_for_again(bedrock, gateway, broken):
    bedrock.script = [tool_use(broken), text("I will not call a tool."), tool_use(OSLO)]
    answer = chat(gateway(), guided_json=WEATHER)
    assert json.loads(content(answer)) == OSLO
    assert len(bedrock.asked) == 3
    assert answer.json()["usage"]["completion_tokens"] == 210  # all that is paid for


@pytest.mark.parametrize("broken", BROKEN[:4])
def test_what_never_fits_is_an_error_and_not_an_answer(bedrock, gateway, broken):
    bedrock.script = [tool_use(broken)]
    told = error(chat(gateway(attempts=2), guided_json=WEATHER), 502)
    assert told["code"] == "constraint_not_met"
    assert len(bedrock.asked) == 2


def test_a_choice_that_is_none(bedrock, gateway):
    for value in ({"value": "maybe"}, {"value": ["yes"]}, {}, {"answer": "yes"}):
        bedrock.script = [tool_use(value)]
        assert error(chat(gateway(attempts=1), guided_choice=["yes", "no"]), 502)["code"] == "constraint_not_met"


def test_half_an_answer_is_refused(bedrock, gateway):
    bedrock.script = [tool_use(OSLO, stop="max_tokens")]
    told = error(chat(gateway(), guided_json=WEATHER, max_tokens=5), 400)
    assert (told["code"], told["param"]) == ("budget_too_small", "max_tokens")


def test_half_a_plain_text_says_so(bedrock, gateway):
    bedrock.script = [text("It ra", stop="max_tokens")]
    assert chat(gateway()).json()["choices"][0]["finish_reason"] == "length"


def test_a_pattern_cannot_hold_the_server_up(bedrock, gateway):
    bedrock.script = [tool_use({"a": "a" * 60 + "!"})]
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|a|aa)+$"}}}
    assert "takes too long" in error(chat(gateway(attempts=1), guided_json=schema), 502)["message"]


def test_formats_are_checked(bedrock, gateway):
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    for value, fits in (("2026-11-30T12:00:00Z", True), ("2026-11-30T12:00:00", False), ("yesterday", False)):
        bedrock.script = [tool_use({"at": value})]
        assert (chat(gateway(attempts=1), guided_json=schema).status_code == 200) is fits, value


def test_objects_are_closed_everywhere_or_nowhere(bedrock, gateway):
    schema = {
        "$defs": {"inner": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/inner"},
            "b": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/inner"}]}},
        },
    }
    for value in ({"a": {"x": 1, "y": 2}}, {"b": [{"y": 2}]}, {"c": 1}):
        bedrock.script = [tool_use(value)]
        assert chat(gateway(attempts=1), guided_json=schema).status_code == 502, value
        open_ = {"additional_properties": "allow"}
        assert json.loads(content(chat(gateway(attempts=1), guided_json=schema, guided_options=open_))) == value


# --- Bedrock's own errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "ours", "code"),
    [
        (429, "ThrottlingException", 429, "rate_limit_exceeded"),
        (400, "ValidationException", 400, "invalid_value"),
        (403, "AccessDeniedException", 502, "upstream_refused"),
        (408, "ModelTimeoutException", 504, "timeout"),
        (418, "TeapotException", 502, "upstream_error"),
    ],
)
def test_errors_of_bedrock(bedrock, gateway, status, kind, ours, code):
    bedrock.script = [(status, kind, "No.")]
    answer = chat(gateway())
    told = error(answer, ours)
    assert told["code"] == code
    assert kind in told["message"]
    assert ("Retry-After" in answer.headers) is (ours in (429, 503))


def test_bedrock_cannot_be_reached(bedrock, gateway):
    client = gateway(endpoint_url="http://127.0.0.1:9")
    assert error(chat(client), 502)["code"] == "upstream_error"


@pytest.mark.parametrize("stop", ["guardrail_intervened", "content_filtered"])
def test_a_filter_is_named(bedrock, gateway, stop):
    bedrock.script = [text("Sorry.", stop=stop)]
    assert error(chat(gateway(), guided_json=WEATHER), 400)["code"] == "content_filter"
    assert chat(gateway()).json()["choices"][0]["finish_reason"] == "content_filter"
