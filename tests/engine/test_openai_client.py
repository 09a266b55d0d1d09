"""The official Python client over the whole surface: each route, whole and streamed, with each spelling of a constraint."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.engine.cases import CASES, CHOICE, REGEX, SENTIMENTS, WEATHER_PROMPT, Case, WeatherQuery
from tests.engine.requests import Answer, chat, complete, together
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine


def respond(server: LiveServer, prompt: str, *, stream: bool = False, **options: Any) -> str:
    """/v1/responses."""
    if not stream:
        return server.client.responses.create(model=server.model, input=prompt, **options).output_text
    with server.client.responses.stream(model=server.model, input=prompt, **options) as events:
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert events.get_final_response().output_text == "".join(pieces)
    return "".join(pieces)


def test_responses_obey_every_kind(server):
    def check(asked: tuple[Case, bool]) -> None:
        case, stream = asked
        options = {"temperature": 1.0, "max_output_tokens": 300, "extra_body": {"seed": 7, **case.fields}}
        case.check(respond(server, case.prompt, stream=stream, **options))

    together(check, itertools.product(CASES, (False, True)))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_text_format_of_responses(server, stream):
    schema = {"type": "json_schema", "name": "weather", "schema": WeatherQuery.model_json_schema(), "strict": True}
    WeatherQuery.model_validate_json(respond(server, WEATHER_PROMPT, stream=stream, text={"format": schema}))
    options = {"max_output_tokens": 60, "text": {"format": {"type": "json_object"}}}
    assert isinstance(json.loads(respond(server, "A JSON object about Oslo:", stream=stream, **options)), dict)


def test_parse_helpers(server):
    class Sum(BaseModel):
        terms: tuple[int, int]
        total: int

    options: Any = {"model": server.model}
    messages: Any = [{"role": "user", "content": "2 + 3 as JSON with terms and total"}]
    parsed = server.client.chat.completions.parse(messages=messages, response_format=Sum, max_tokens=120, **options)
    assert isinstance(parsed.choices[0].message.parsed, Sum)
    answered = server.client.responses.parse(
        input="2 + 3 as JSON with terms and total", text_format=Sum, max_output_tokens=120, **options
    )
    assert isinstance(answered.output_parsed, Sum)


@pytest.mark.parametrize("way", [chat, complete])
def test_logprobs_usage_and_samples(server, way):
    client = server.client
    if way is chat:
        made: Any = client.chat.completions.create(
            model=server.model,
            messages=CHOICE.messages,
            n=3,
            temperature=1.0,
            logprobs=True,
            top_logprobs=3,
            extra_body=CHOICE.fields,
        )
        texts = [choice.message.content for choice in made.choices]
        assert all(len(choice.logprobs.content) >= 1 for choice in made.choices)
    else:
        made = client.completions.create(
            model=server.model, prompt=CHOICE.text, n=3, temperature=1.0, logprobs=3, extra_body=CHOICE.fields
        )
        texts = [choice.text for choice in made.choices]
        assert all(len(choice.logprobs.tokens) >= 1 for choice in made.choices)
    assert set(texts) <= set(SENTIMENTS) and len(texts) == 3
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens


def test_a_stream_with_usage(server):
    options: Any = {"stream": True, "stream_options": {"include_usage": True}, "extra_body": REGEX.fields}
    chunks = list(server.client.chat.completions.create(model=server.model, messages=REGEX.messages, **options))
    assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices
    REGEX.check("".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices))


def test_replacement_characters_are_not_held_back(server):
    patterns = {"\ufffd": "\ufffd", "a\ufffd\ufffd": "a\ufffd\ufffd", "(\ufffdb){2}": "\ufffdb\ufffdb"}

    def check(asked: tuple[str, bool, Callable[..., Answer]]) -> None:
        pattern, stream, way = asked
        answer = way(server, "Say it:", stream=stream, max_tokens=20, extra_body={"guided_regex": pattern})
        assert (answer.text, answer.finish_reason) == (patterns[pattern], "stop")

    together(check, itertools.product(patterns, (False, True), (chat, complete)))


def test_backends_by_name(server):
    """In one server, in one batch: each request has the backend that it names."""
    together(lambda backend: check_backend(server, backend), ["xgrammar", "guidance", "outlines", "auto", "guided"])


def check_backend(server: LiveServer, backend: str) -> None:
    fields = {"guided_decoding_backend": backend}
    answer = chat(server, REGEX, max_tokens=40, temperature=0.0, extra_body={**fields, **REGEX.fields})
    REGEX.check(answer.text)
    answer = complete(server, CHOICE.text, stream=True, max_tokens=10, extra_body={**fields, **CHOICE.fields})
    assert answer.text in SENTIMENTS
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = chat(
        server,
        "Is it raining? As JSON:",
        max_tokens=60,
        temperature=0.0,
        extra_body={**fields, "response_format": wanted},
    )
    assert answer.finish_reason == "length" or set(json.loads(answer.text)) == {"ok"}


@pytest.mark.parametrize("backend", ["xgrammar", "guidance", "outlines", "auto"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_another_backend_refuses_is_a_400(server, backend, stream):
    with pytest.raises(openai.BadRequestError) as raised:
        chat(server, "hi", stream=stream, extra_body={"guided_regex": "(a", "guided_decoding_backend": backend})
    assert raised.value.param == "guided_regex" and raised.value.code == "invalid_constraint"


def test_tokenize_and_back(server):
    import httpx

    tokens = httpx.post(f"{server.url}/tokenize", json={"model": server.model, "prompt": "Grüße, 😀"}).json()
    assert tokens["count"] == len(tokens["tokens"]) > 3
    back = httpx.post(f"{server.url}/detokenize", json={"model": server.model, "tokens": tokens["tokens"]}).json()
    assert back["prompt"] == "Grüße, 😀"
    versions = httpx.get(f"{server.url}/version").json()
    assert re.match(r"0\.32", versions["version"]) and re.match(r"\d+\.\d+", versions["guided_server"])
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_beam_search_without_a_constraint(server):
    made = server.client.completions.create(
        model=server.model,
        prompt="The capital of France is",
        max_tokens=4,
        n=2,
        temperature=0.0,
        extra_body={"use_beam_search": True},
    )
    assert len(made.choices) == 2 and "Paris" in made.choices[0].text
