"""What vLLM's request models refuse, said in JSON's words and with the place in the request."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.exceptions import VLLMValidationError

from server.errors import RequestRefused
from server.request_fields import CHAT, COMPLETIONS, RESPONSES, refuse_dropped_fields
from server.validation import from_validation, from_vllm_validation, pointer, without_place

HI = [{"role": "user", "content": "hi"}]


def refused(model: type, body: Any) -> RequestRefused:
    try:
        TypeAdapter(model).validate_python(body)
    except ValidationError as error:
        return from_validation(error.errors(), body)
    except VLLMValidationError as error:  # pydantic lets it pass
        return from_vllm_validation(error)
    raise AssertionError("the model takes it")


@pytest.mark.parametrize(
    ("model", "body", "param", "code", "message"),
    [
        (ChatCompletionRequest, {}, "messages", "missing_required_parameter", "messages is missing"),
        (CompletionRequest, [], None, "invalid_type", "the body must be an object, not an array"),
        (CompletionRequest, None, None, "invalid_type", "the body must be an object, not null"),
        (
            ChatCompletionRequest,
            {"messages": HI, "temperature": "hot"},
            "temperature",
            "invalid_type",
            "temperature must be a number, not 'hot'",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "n": 1.5},
            "n",
            "invalid_type",
            "n must be an integer, not a number",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "stream": []},
            "stream",
            "invalid_type",
            "stream must be a boolean, not an array",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "stop": {"a": 1}},
            "stop",
            "invalid_type",
            "stop must be a string or an array, not an object",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "stop": ["a", 3]},
            "stop#/1",
            "invalid_type",
            "stop#/1 must be a string, not an integer",
        ),
        (
            ChatCompletionRequest,
            {"messages": [HI[0], {"role": "user", "content": 5}]},
            "messages#/1/content",
            "invalid_type",
            "messages#/1/content must be a string or an array, not an integer",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "logit_bias": {"a/b": []}},
            "logit_bias#/a~1b",
            "invalid_type",
            "logit_bias#/a~1b must be a number, not an array",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "truncation_side": "up"},
            "truncation_side",
            "invalid_value",
            "truncation_side must be 'left' or 'right', not 'up'",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "stream_interval": 0},
            "stream_interval",
            "invalid_value",
            "stream_interval must be at least 1, not 0",
        ),
        (
            ChatCompletionRequest,
            {"messages": HI, "top_logprobs": -5},
            "top_logprobs",
            "invalid_value",
            "`top_logprobs` must be a positive value or -1.",
        ),
        (
            CompletionRequest,
            {"prompt": "a", "cache_salt": "x" * 2000},
            "cache_salt",
            "invalid_value",
            "Parameter 'cache_salt' must be at most 128",
        ),
        (
            ResponsesRequest,
            {"input": "a", "presence_penalty": 7},
            "presence_penalty",
            "invalid_value",
            "presence_penalty must be at most 2.0, not 7",
        ),
    ],
    ids=str,
)
def test_place_code_and_words(model, body, param, code, message):
    found = refused(model, body)
    assert (found.param, found.code) == (param, code), found.message
    assert found.message.startswith(message)


def test_pointers_are_escaped():
    assert pointer(("a", "b/c", 0, "d~e")) == "a#/b~1c/0/d~0e"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("too few (parameter=n, value=-1)", ("too few", "n")),
        ("too few (parameter=n)", ("too few", "n")),
        ("odd (value=[1, (2)])", ("odd", None)),
        ("a (b) c", ("a (b) c", None)),
    ],
)
def test_places_at_the_end_of_vllms_messages(message, found):
    assert without_place(message) == found


def dropped(body: dict[str, Any], path: str = CHAT) -> RequestRefused | None:
    try:
        refuse_dropped_fields(body, path, lambda name: name.startswith("guided"), ["guided_json", "guided_choice"])
    except RequestRefused as refused:
        return refused
    return None


@pytest.mark.parametrize(
    ("body", "path", "param", "words"),
    [
        ({"best_of": 3}, COMPLETIONS, "best_of", "n answers"),
        ({"functions": [{"name": "f"}]}, CHAT, "functions", "send tools"),
        ({"function_call": {"name": "f"}}, CHAT, "function_call", "tool_choice"),
        ({"max_completion_token": 5}, CHAT, "max_completion_token", "did you mean max_completion_tokens?"),
        ({"giuded_choice": ["a"]}, COMPLETIONS, "giuded_choice", "did you mean guided_choice?"),
        ({"guide-json": {}}, RESPONSES, "guide-json", "did you mean guided_json?"),
        ({"json_schema": {}}, CHAT, "json_schema", "here it is guided_json"),
        ({"max_tokens": 5}, RESPONSES, "max_tokens", "max_output_tokens"),
        ({"max_completion_tokens": 5}, COMPLETIONS, "max_completion_tokens", "would be ignored"),
        ({"response_format": {"type": "json_object"}}, RESPONSES, "response_format", "text.format"),
        ({"text": {"verbosity": "low"}}, RESPONSES, "text#/verbosity", "prompt"),
        ({"text": {"formt": {"type": "json_object"}}}, RESPONSES, "text.formt", "did you mean format?"),
        ({"text": {"type": "json_schema", "schema": {}}}, RESPONSES, "text.type", "would be ignored"),
        ({"reasoning": {"efort": "low"}}, RESPONSES, "reasoning.efort", "did you mean effort?"),
        (
            {"stream_options": {"include_usagee": True}},
            CHAT,
            "stream_options.include_usagee",
            "did you mean include_usage?",
        ),
        ({"verbosity": "low"}, CHAT, "verbosity", "prompt"),
        ({"modalities": ["text", "audio"]}, CHAT, "modalities", "unknown"),
        ({"extra_body": {"top_k": 1}}, CHAT, "extra_body", "beside model"),
        ({"length_penalty": 2.0}, CHAT, "length_penalty", "use_beam_search"),
        ({"use_beam_search": True, "stop": ["x"]}, CHAT, "stop", "use_beam_search"),
        ({"use_beam_search": True, "logit_bias": {"5": 1}}, CHAT, "logit_bias", "use_beam_search"),
    ],
    ids=str,
)
def test_what_nobody_would_read_is_refused(body, path, param, words):
    found = dropped(body, path)
    assert found is not None and found.param == param
    assert words in found.message


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"best_of": 1}, COMPLETIONS),
        ({"best_of": 2, "n": 2}, COMPLETIONS),
        ({"metadata": {"a": "b"}, "store": True, "user": "u", "service_tier": "auto"}, CHAT),
        ({"safety_identifier": "x", "prompt_cache_key": "y"}, COMPLETIONS),
        ({"functions": None, "function_call": None, "anything": None}, CHAT),
        ({"functions": [], "function_call": "none"}, CHAT),
        ({"modalities": ["text"], "verbosity": "medium"}, CHAT),
        ({"text": {"format": {"type": "text"}, "verbosity": "medium"}}, RESPONSES),
        ({"stream_options": {"include_obfuscation": False}}, RESPONSES),
        ({"guided_json": {}, "structured_outputs": {}}, CHAT),
        ({"use_beam_search": True, "n": 2, "length_penalty": 2.0, "top_p": 1, "stop": []}, CHAT),
    ],
    ids=str,
)
def test_what_asks_for_nothing_or_is_read_passes(body, path):
    assert dropped(body, path) is None
