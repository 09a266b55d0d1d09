"""Every field of vLLM's three request models at a value that it is made for: an answer, or a refusal for the reason given here."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from server.request_fields import MODELS

PATHS = list(MODELS)
HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FLAT_TOOL = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}

VALUES: dict[str, Any] = {
    "add_generation_prompt": True,
    "add_special_tokens": True,
    "allowed_token_ids": [100, 101, 102],
    "bad_words": ["word"],
    "cache_salt": "salt",
    "chat_template_kwargs": {"x": 1},
    "continue_final_message": False,
    "documents": [{"title": "t", "text": "x"}],
    "echo": True,
    "enable_response_messages": True,
    "frequency_penalty": 0.5,
    "ignore_eos": True,
    "include": ["message.output_text.logprobs"],
    "include_reasoning": False,
    "include_stop_str_in_output": True,
    "input": "hi",
    "instructions": "be brief",
    "length_penalty": 1.0,
    "logit_bias": {"100": 5.0},
    "max_completion_tokens": 5,
    "max_output_tokens": 5,
    "max_tokens": 5,
    "max_tool_calls": 1,
    "messages": HI,
    "metadata": {"a": "b"},
    "min_p": 0.1,
    "min_tokens": 1,
    "mm_payload": "none",
    "n": 2,
    "parallel_tool_calls": False,
    "presence_penalty": 0.5,
    "prompt": "hi",
    "prompt_cache_key": "k",
    "reasoning": {"effort": "low"},
    "reasoning_effort": "low",
    "repetition_detection": {"max_pattern_size": 5, "min_pattern_size": 2, "min_count": 3},
    "repetition_penalty": 1.1,
    "request_id": "a-request",
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "return_token_ids": True,
    "return_prompt_text": True,
    "return_tokens_as_token_ids": True,
    "seed": 7,
    "service_tier": "auto",
    "session_id": "s",
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "stop": ["zebra"],
    "stop_token_ids": [2],
    "store": False,
    "stream": True,
    "stream_interval": 2,
    "structured_outputs": {"json": SCHEMA},
    "temperature": 0.5,
    "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
    "tool_choice": "none",
    "top_k": 5,
    "top_logprobs": 0,
    "top_p": 0.9,
    "truncate_prompt_tokens": 3,
    "truncation": "auto",
    "truncation_side": "left",
    "user": "u",
    "vllm_xargs": {"x": 1},
}
BY_PATH: dict[str, dict[str, Any]] = {
    PATHS[0]: {"logprobs": True, "tools": [TOOL]},
    PATHS[1]: {"logprobs": 2},
    PATHS[2]: {"tools": [FLAT_TOOL]},
}
BESIDE: dict[str, dict[str, Any]] = {  # what else the request needs for the field to mean something
    "stream_options": {"stream": True},
    "tools": {"tool_choice": "required"},
    "tool_choice": {"tools": [TOOL]},
    "stream_interval": {"stream": True},
}
VALUES["stream_options"] = {"include_usage": True}
NOT_HERE = {  # field -> why this server, started as it is, does not take it; each is refused by name, or does nothing as vLLM documents
    "background": "a store of responses (VLLM_ENABLE_RESPONSES_API_STORE)",
    "chat_template": "--trust-request-chat-template",
    "ec_transfer_params": "a connector",
    "kv_transfer_params": "a connector",
    "logprob_token_ids": "beside logprobs; tested with the errors",
    "media_io_kwargs": "--trust-request-mm-kwargs",
    "mm_processor_kwargs": "--trust-request-mm-kwargs",
    "model": "every other test has it",
    "previous_input_messages": "harmony models",
    "previous_response_id": "a store of responses",
    "priority": "--scheduling-policy priority",
    "prompt_embeds": "--enable-prompt-embeds",
    "prompt_logprobs": "the engine without a model computes none",
    "return_mm_kwargs": "multimodal models",
    "return_token_offsets": "the render routes only, as vLLM documents",
    "routed_experts_prompt_start": "mixture models",
    "suffix": "models that fill in the middle",
    "thinking_token_budget": "--reasoning-parser",
    "use_beam_search": "the engine without a model has no log probabilities to search; tested on the engine",
    "watermarking": "a watermarking engine",
}


def test_every_field_is_in_one_of_the_tables():
    for path in PATHS:
        for name in MODELS[path].model_fields:
            assert name in VALUES or name in BY_PATH[path] or name in NOT_HERE, f"{name} of {path} is new"


@pytest.mark.parametrize("path", PATHS)
def test_every_field_works(gateway, path):
    least = [
        {"messages": HI, "max_tokens": 40},
        {"prompt": "hi", "max_tokens": 40},
        {"input": "hi", "max_output_tokens": 40},
    ]
    known = MODELS[path].model_fields
    with httpx.Client(base_url=gateway.url, timeout=60) as client:
        for name, value in {**VALUES, **BY_PATH[path]}.items():
            if name not in known or (path, name) == (PATHS[2], "prompt"):  # OpenAI's stored prompts, which vLLM refuses
                continue
            beside = BESIDE.get(name, {})
            if path == PATHS[2] and name.startswith("tool"):
                beside = {"tool_choice": "none"}  # calls on this route are not enforced
            answer = client.post(path, json={**least[PATHS.index(path)], **beside, name: value})
            assert answer.status_code == 200, f"{name}: {answer.text}"
            assert '"error":{' not in answer.text.replace(" ", ""), f"{name}: {answer.text}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["suffix", "thinking_token_budget", "priority", "chat_template", "prompt_embeds"])
def test_what_another_configuration_would_take_is_refused_by_name(gateway, path, name):
    values = {
        "suffix": "x",
        "thinking_token_budget": 5,
        "priority": 3,
        "chat_template": "{{ 1 }}",
        "prompt_embeds": "AAAA",
    }
    if name not in MODELS[path].model_fields:
        return
    prompts = [{"messages": HI}, {"prompt": "hi"}, {"input": "hi"}]
    answer = httpx.post(f"{gateway.url}{path}", json={**prompts[PATHS.index(path)], name: values[name]}, timeout=60)
    if name == "priority":  # the engine itself knows its policy, and there is none here
        assert answer.status_code < 500
        return
    assert answer.status_code == 400, answer.text
    assert name.replace("_", " ") in answer.json()["error"]["message"].replace("_", " "), answer.text


@pytest.mark.parametrize("on", [True, 1, "true", "yes"])
def test_beam_search_is_on_as_vllm_reads_it(gateway, on):
    body = {"prompt": "hi", "max_tokens": 4, "use_beam_search": on, "seed": 5}
    answer = httpx.post(f"{gateway.url}{PATHS[1]}", json=body, timeout=60)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "seed")
