"""Every error of every route is OpenAI's body: {"error": {"message", "type", "param", "code"}}, also where vLLM or FastAPI wrote it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm.exceptions import GenerationError, VLLMValidationError

from server import engine
from server.errors import RequestRefused
from tests.live_server import LiveServer

GENERATING = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
OTHERS = [
    "/tokenize",
    "/detokenize",
    "/v1/messages",
    "/invocations",
    "/v1/guided/compile",
    "/v1/chat/completions/batch",
]
JSON = {"Content-Type": "application/json"}


def post(gateway: LiveServer, path: str, body: Any, **options: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{gateway.url}{path}", content=content, headers=options.pop("headers", JSON), timeout=60, **options
    )


def error_of(answer: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) > 5 and "Traceback" not in error["message"]
    assert error["type"] in ("invalid_request_error", "rate_limit_error", "server_error")
    assert isinstance(error["code"], str) and error["code"]
    assert error["param"] is None or isinstance(error["param"], str)
    return error


@pytest.mark.parametrize("path", [*GENERATING, *OTHERS])
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe{}",
        b'{"a": ' + b"9" * 5000 + b"}",
        b"NaN",
        b"[" * 100_000,
        b"",
        b"[]",
        b'"text"',
        b"null",
        b"{}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_bodies_that_are_none(gateway, path, body):
    error_of(post(gateway, path, body))


@pytest.mark.parametrize("path", [*GENERATING, "/tokenize"])
def test_bodies_that_are_not_said_to_be_json(gateway, path):
    error = error_of(post(gateway, path, {"prompt": "x"}, headers={"Content-Type": "text/plain"}), 415)
    assert error["code"] == "unsupported_media_type"


def test_addresses_and_methods_that_do_not_exist(gateway):
    assert error_of(post(gateway, "/v1/nothing", {}), 404)["code"] == "unknown_url"
    answer = httpx.get(f"{gateway.url}/v1/completions")
    assert error_of(answer, 405)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "POST"


def test_models_that_do_not_exist(gateway):
    error = error_of(post(gateway, "/v1/completions", {"model": "gpt-9", "prompt": "x"}), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError) as raised:
        gateway.client.models.retrieve("gpt-9")
    assert raised.value.code == "model_not_found"


def test_anthropics_route_names_the_model_too(gateway):
    body = {"model": "gpt-9", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
    error = error_of(post(gateway, "/v1/messages", body), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize("parts", [[{"type": "text", "text": "x"}], []], ids=["second", "first"])
@pytest.mark.parametrize(
    ("part", "code"),
    [({"type": "text", "txt": "x"}, "missing_required_parameter"), ({"type": "text", "text": 5}, "invalid_type")],
)
def test_parts_of_messages_without_a_text(gateway, parts, part, code):
    body = {"messages": [{"role": "user", "content": [*parts, part]}], "max_tokens": 4}
    error = error_of(post(gateway, "/v1/chat/completions", body))
    assert (error["code"], error["param"]) == (code, f"messages#/0/content/{len(parts)}/text")


@pytest.mark.parametrize("kind", ["txt", "file", 5, ["text"]])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_parts_of_a_type_that_is_none(gateway, path, kind):
    parts = [{"type": "text", "text": "x"}, {"type": kind, "text": "x"}]
    error = error_of(post(gateway, path, {"messages": [{"role": "user", "content": parts}]}))
    assert error["message"].startswith("messages#/0/content/1 must be of type text, ")
    assert (error["code"], error["param"]) == ("invalid_value", "messages#/0/content/1")


ANTHROPICS = ["/v1/messages", "/v1/messages/count_tokens"]


@pytest.mark.parametrize(
    ("path", "body", "meant"),
    [
        ("/v1/messages", {"top_kk": 1}, "top_k"),
        ("/v1/messages", {"n": 2}, None),
        ("/v1/messages", {"seed": 1}, None),
        ("/v1/messages", {"mcp_servers": []}, None),
        ("/v1/messages/count_tokens", {"sytem": "x"}, "system"),
        ("/tokenize", {"prompt": "x", "add_specil_tokens": False}, "add_special_tokens"),
        ("/tokenize", {"messages": [{"role": "user", "content": "x"}], "prompt": "x"}, None),
        ("/tokenize", {"messages": [{"role": "user", "content": "x"}], "add_generaton_prompt": 1}, "add_generation_prompt"),
        ("/detokenize", {"tokens": [1], "skip_special_tokens": True}, None),
        ("/v1/guided/cache/flush", {"tier": "memory"}, None),
    ],
)  # fmt: skip
def test_names_that_nobody_knows_on_routes_without_constraints(gateway, path, body, meant):
    name = list(body)[-1]
    if path in ANTHROPICS:
        body = {"model": gateway.model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 2, **body}
    error = error_of(post(gateway, path, body))
    assert (error["code"], error["param"]) == ("unknown_parameter", name)
    assert error["message"] == f"{name} is unknown, and would be ignored" + (
        f"; did you mean {meant}?" if meant else ""
    )


@pytest.mark.parametrize("path", ANTHROPICS)
def test_what_anthropics_clients_send_beside_a_request(gateway, path):
    import anthropic

    asked = {"model": gateway.model, "messages": [{"role": "user", "content": "x"}]}
    beside = {
        "service_tier": "auto",
        "cache_control": {"type": "ephemeral"},
        "context_management": {"edits": []},
        "container": "c",
        "speed": "standard",
        "anthropic_version": "bedrock-2023-05-31",
        "inference_geo": None,
    }
    with anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as client:
        if path == ANTHROPICS[0]:
            beside |= {"metadata": {"user_id": "u"}}
            assert client.messages.create(**asked, max_tokens=2, extra_body=beside).usage.output_tokens == 2
            assert client.beta.messages.create(**asked, max_tokens=2, betas=["some"]).usage.output_tokens == 2
        else:
            plain = client.messages.count_tokens(**asked).input_tokens
            assert plain == client.messages.count_tokens(**asked, extra_body={**beside, "max_tokens": 2}).input_tokens


def test_an_engine_whose_size_is_fixed_says_so(gateway):
    error = error_of(post(gateway, "/scale_elastic_ep", {"new_data_parallel_size": 2}))
    assert "--enable-elastic-ep" in error["message"]
    assert post(gateway, "/scale_elastic_ep", {"new_data_parallel_size": 1}).status_code == 200, "as it is"


REFUSALS = [
    RequestRefused("4 wait; try again in 3 s", "overloaded", status=429, retry_seconds=3),
    RequestRefused("no room", "no_room_for_index", status=503, retry_seconds=60),
    RequestRefused("max_tokens is too small", "budget_too_small", "max_tokens"),
    VLLMValidationError("too many states", parameter="guided_regex"),
    GenerationError("it could not be completed"),
]


@pytest.mark.parametrize("path", GENERATING)
@pytest.mark.parametrize("refused", REFUSALS, ids=["load", "room", "budget", "client", "engine"])
def test_what_is_refused_after_the_route_began_is_the_same_with_stream(gateway, monkeypatch, path, refused):
    """The engine's answers are looked at when the first of them is there, and what vLLM's streams make of an error is its own."""

    async def verified(outputs, *args, **options):
        async for _ in outputs:
            raise refused
        yield

    monkeypatch.setattr(engine, "verified", verified)
    asked = {"messages": [{"role": "user", "content": "x"}]} if "chat" in path else {"prompt": "x"}
    body = {**(asked if "responses" not in path else {"input": "x"}), "guided_regex": "[ab]{4}"}
    whole, stream = (post(gateway, path, {**body, "stream": stream}) for stream in (False, True))
    assert error_of(stream, whole.status_code) == error_of(whole, whole.status_code)
    assert stream.headers.get("retry-after") == whole.headers.get("retry-after")
    if isinstance(refused, RequestRefused):
        assert (stream.status_code, stream.json()) == (refused.status, refused.body())


@pytest.mark.parametrize("path", GENERATING)
def test_what_is_refused_in_the_middle_of_a_stream_is_an_event_with_its_code(gateway, monkeypatch, path):
    async def verified(outputs, *args, **options):
        number = 0
        async for output in outputs:
            if number == 2:
                raise REFUSALS[0]
            yield output
            number += 1

    monkeypatch.setattr(engine, "verified", verified)
    asked = {"messages": [{"role": "user", "content": "x"}]} if "chat" in path else {"prompt": "x"}
    body = {**(asked if "responses" not in path else {"input": "x"}), "guided_regex": "(ab){40}"}
    if path == "/v1/completions":
        body["max_tokens"] = 100
    answer = post(gateway, path, {**body, "stream": True})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert answer.status_code == 200
    last = events[-1].get("error") or {name: events[-1][name] for name in ("code", "message", "param")}
    assert {**REFUSALS[0].body()["error"], **last} == REFUSALS[0].body()["error"] and len(last) >= 3
    assert "status" not in events[-1] and "retry_seconds" not in answer.text


def test_one_model(gateway):
    card = gateway.client.models.retrieve(gateway.model)
    assert (card.id, card.object) == (gateway.model, "model")
    assert card == gateway.client.models.list().data[0].model_copy(
        update={"permission": card.permission, "created": card.created}
    )


def test_embeddings_are_refused_by_name(gateway):
    with pytest.raises(openai.BadRequestError) as raised:
        gateway.client.embeddings.create(model=gateway.model, input="x")
    assert (raised.value.code, raised.value.param) == ("unsupported_model", "model")
    assert "embeddings" in str(raised.value)


def test_routes_for_other_kinds_of_models(gateway):
    error = error_of(post(gateway, "/v1/systemone", {"questions": {}, "state": None}))
    assert error["code"] == "unsupported_model" and "not support" in error["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [99_999_999]}, None),
        ({"prompt": [-1]}, None),
        ({"stop_token_ids": [99_999_999]}, "stop_token_ids"),
        ({"allowed_token_ids": [99_999_999]}, "allowed_token_ids"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"logprob_token_ids": [99_999_999], "logprobs": 1}, "logprob_token_ids"),
        ({"thinking_token_budget": 5}, None),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 5}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"seed": 10**30}, "seed"),
        ({"prompt": "x " * 5000}, None),
        ({"prompt": ""}, None),
        ({"stop": ["a"] * 200}, "stop"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_the_engine_would_refuse_is_a_400_before_the_stream(gateway, fields, param, stream):
    error = error_of(post(gateway, "/v1/completions", {"prompt": "x", "max_tokens": 4, "stream": stream, **fields}))
    assert param is None or error["param"] == param, error
    assert "parameter=" not in error["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_responses_are_refused_before_the_stream(gateway, stream):
    body = {
        "input": "x",
        "stream": stream,
        "max_output_tokens": 1,
        "guided_choice": ["a long answer that needs tokens"],
    }
    error = error_of(post(gateway, "/v1/responses", body))
    assert (error["code"], error["param"]) == ("budget_too_small", "max_output_tokens")
    error = error_of(post(gateway, "/v1/responses", {"input": "x", "stream": stream, "stop_token_ids": [99_999_999]}))
    assert error["param"] == "stop_token_ids"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_schema_that_the_answer_cannot_repeat_is_refused(gateway, stream):
    def ask(levels: int) -> httpx.Response:
        schema = "{" + '"items":{' * levels + "}" * levels + ', "type": "boolean"}'
        text = f'{{"format": {{"type": "json_schema", "name": "x", "schema": {schema}}}}}'
        body = f'{{"input": "x", "max_output_tokens": 8, "stream": {json.dumps(stream)}, "text": {text}}}'
        return post(gateway, "/v1/responses", body.encode())

    whole = ask(200 - 4)  # body, text, format and the schema itself
    assert whole.status_code == 200 and whole.text.count('"items":{') >= 196, whole.text
    assert error_of(ask(200 - 3))["code"] == "constraint_too_complex"


def test_a_status_that_no_standard_knows():
    from server.status_errors import of_status

    assert of_status(499, "", {}).body()["error"]["message"] == "the request was not answered"


@pytest.mark.parametrize("path", GENERATING)
def test_no_field_brings_it_down_and_no_message_speaks_python(gateway, path):
    """Each field of vLLM's models in turn, at values that most are not made for."""
    from server.request_fields import BUDGETS, MODELS

    prompts = [{"messages": [{"role": "user", "content": "hi"}]}, {"prompt": "hi"}, {"input": "hi"}]
    least = prompts[GENERATING.index(path)]
    with httpx.Client(base_url=gateway.url, timeout=60) as client:
        for name in MODELS[path].model_fields:
            for value in (5, -1, 0.5, "x", [], {}, True, 1e300, [[]], [{}], {"a": {}}, [5], ["x"]):
                answer = client.post(path, json={**least, BUDGETS[path][-1]: 2, name: value})
                assert answer.status_code == 200 or 400 <= answer.status_code < 500, (name, value, answer.text)
                if answer.status_code == 200:
                    continue
                error = answer.json()["error"]
                for word in (
                    "dict",
                    "NoneType",
                    "list[",
                    " str ",
                    "function-",
                    "Input should",
                    "object is not",
                    "parameter=",
                ):
                    assert word not in error["message"], (name, value, error)
                assert isinstance(error["code"], str) and error["message"]


def test_what_vllm_says_nothing_of_is_in_the_log(caplog):
    """By its kind and place: what it says may quote a prompt."""
    from vllm.v1.engine.exceptions import EngineGenerateError

    from server.error_bodies import install_handlers

    app = FastAPI()
    app.state.server = app.state.engine_client = SimpleNamespace(errored=False, is_running=True)
    install_handlers(app)

    @app.get("/")
    async def fail() -> None:
        try:
            raise OverflowError("the secret prompt")
        except OverflowError as error:
            raise EngineGenerateError from error

    answer = TestClient(app, raise_server_exceptions=False).get("/")
    assert answer.status_code == 500
    assert "a request failed in OverflowError at" in caplog.text and "secret" not in caplog.text + answer.text


def test_an_error_within_a_stream():
    """vLLM writes it as an event; clients of OpenAI read the same body there."""
    from server.error_bodies import _events

    event = b'data: {"error": {"message": "no (parameter=n)", "type": "BadRequestError", "param": "n", "code": 400}}\n\ndata: [DONE]\n\n'
    first, rest = _events(event).split(b"\n\n", 1)
    assert json.loads(first.removeprefix(b"data: "))["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "n",
        "code": "invalid_value",
    }
    assert rest == b"data: [DONE]\n\n"


ERROR_EVENT = b'data: {"error": {"message": "no more", "type": "BadRequestError", "param": "n", "code": 400}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("events", "status", "sent"),
    [
        ([ERROR_EVENT, DONE], 400, b'{"error": {"message": "no more", '),
        ([b"", ERROR_EVENT + DONE], 400, b'{"error": {"message": "no more", '),
        ([b"data: {}\n\n", ERROR_EVENT, DONE], 200, b'data: {}\n\ndata: {"error": {"message": "no more", '),
        ([b"data: {}\n\n", DONE], 200, b"data: {}\n\ndata: [DONE]\n\n"),
        ([], 200, b""),
    ],
)
def test_a_stream_that_begins_with_an_error_has_the_status_of_it(events, status, sent):
    """As the same request has without `stream`: what vLLM's backends and a request's own filters refuse comes from the engine."""
    from starlette.responses import StreamingResponse

    from server.error_bodies import OpenAIErrors

    async def route(scope, receive, send):
        async def parts():
            for event in events:
                yield event

        await StreamingResponse(parts(), media_type="text/event-stream")(scope, receive, send)

    answer = TestClient(OpenAIErrors(route)).get("/")
    assert answer.status_code == status and answer.content.startswith(sent)
    if status == 400:
        assert error_of(answer)["code"] == "invalid_value"


@pytest.mark.parametrize("path", GENERATING)
@pytest.mark.parametrize("penalty", [1e-300, "1e-300", 1e300])
@pytest.mark.parametrize("backend", ["guided", "xgrammar"])
def test_a_penalty_that_would_undo_the_masks_is_refused(gateway, path, penalty, backend):
    """vLLM applies it after the masks: -inf times 0 is no number, and any token may come then."""
    from server.request_fields import BUDGETS

    asked = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "input": "hi"}
    field = ("messages", "prompt", "input")[GENERATING.index(path)]
    body = {field: asked[field], BUDGETS[path][-1]: 4, "repetition_penalty": penalty}
    error = error_of(post(gateway, path, {**body, "guided_regex": "[ab]", "guided_decoding_backend": backend}))
    assert (error["param"], error["code"]) == ("repetition_penalty", "not_enforced")
    assert post(gateway, path, {**body, "guided_regex": "[ab]", "repetition_penalty": 1.1}).status_code == 200
    assert post(gateway, path, body).status_code == 200
