"""A real client, a real model, every kind of constraint: all answers that finish satisfy what was asked for."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.engine.cases import CASES, CHOICE, JSON_OBJECT, REGEX, SENTIMENTS, Case
from tests.engine.requests import MAX_TOKENS, PARALLEL, ask, chat, complete, curl, together
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_many_seeds_at_temperature_one(server, case: Case):
    answers = together(lambda seed: ask(server, case, seed), range(PARALLEL))
    finished = [answer for answer in answers if answer.finish_reason == "stop"]
    for answer in finished:
        case.check(answer.text)
    assert len(finished) >= 0.75 * len(answers), [answer.text[-80:] for answer in answers if answer not in finished]
    assert all(answer.finish_reason in ("stop", "length") for answer in answers)


def ask_with_curl(server: LiveServer, case: Case, endpoint: str) -> None:
    body = {"model": server.model, "temperature": 0, "max_tokens": 200, **case.fields}
    if endpoint == "chat":
        body["messages"] = case.messages
        status, answer = curl(server, "/v1/chat/completions", body)
    else:
        body["prompt"] = case.text
        status, answer = curl(server, "/v1/completions", body)
    assert status == 200, answer
    choice = json.loads(answer)["choices"][0]
    text = choice["message"]["content"] if endpoint == "chat" else choice["text"]
    if choice["finish_reason"] == "stop":
        case.check(text)


def test_with_curl(server):
    together(lambda asked: ask_with_curl(server, *asked), itertools.product(CASES, ("chat", "completions")))


def test_curl_streams(server):
    body = {"model": server.model, "prompt": CHOICE.prompt, "stream": True, **CHOICE.fields}
    status, answer = curl(server, "/v1/completions", body)
    assert status == 200
    events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]) in SENTIMENTS


@pytest.mark.parametrize("case", [REGEX, JSON_OBJECT], ids=lambda case: case.name)
@pytest.mark.parametrize("way", [chat, complete])
def test_stream_and_whole_answer_are_the_same(server, case: Case, way):
    options = {"temperature": 0.0, "max_tokens": 60, "extra_body": case.fields}
    assert way(server, case.prompt, stream=True, **options) == way(server, case.prompt, **options)


def test_other_spellings(server):
    advisory = {"name": "advisory", "schema": JSON_OBJECT.fields["guided_json"]}
    spellings = [
        ({"structured_outputs": {"regex": REGEX.fields["guided_regex"]}}, REGEX),
        ({"structured_outputs": {"choice": SENTIMENTS}}, CHOICE),
        ({"response_format": {"type": "json_schema", "json_schema": advisory}}, JSON_OBJECT),
    ]

    def check(asked: tuple[dict[str, Any], Case]) -> None:
        fields, case = asked
        answer = chat(server, case.prompt, temperature=1.0, seed=3, max_tokens=MAX_TOKENS, extra_body=fields)
        assert answer.finish_reason == "stop"
        case.check(answer.text)

    together(check, spellings)


def test_json_object_means_a_json_object(server):
    fields = {"response_format": {"type": "json_object"}}

    def check(seed: int) -> None:
        answer = chat(server, "Give me JSON about Oslo.", temperature=1.0, seed=seed, max_tokens=300, extra_body=fields)
        if answer.finish_reason == "stop":
            assert isinstance(json.loads(answer.text), dict)

    together(check, (1, 2))


def test_several_samples_and_prompts(server):
    made = server.client.completions.create(
        model=server.model,
        prompt=[CHOICE.prompt, "Sentiment of: great! One word:"],
        n=3,
        temperature=1.0,
        extra_body=CHOICE.fields,
    )
    assert len(made.choices) == 6
    assert all(choice.text in SENTIMENTS and choice.finish_reason == "stop" for choice in made.choices)


def test_constrained_and_plain_in_one_batch(server):
    def one(number: int):
        options = {"temperature": 1.0, "seed": number, "max_tokens": 60}
        if number % 2:
            return chat(server, CHOICE.prompt, **options, extra_body=CHOICE.fields)
        return chat(server, "Tell me a story about a ship.", **options)

    answers = together(one, range(16))
    assert all(answer.text in SENTIMENTS for answer in answers[1::2])
    assert all(len(answer.text) > 60 and answer.text not in SENTIMENTS for answer in answers[::2])
