"""In: the JSON body of a generation request; out: nothing, or a refusal of the first field that would be dropped in silence.

vLLM's request models take any field and read only those they know, and beam search reads only some of these. Whoever sends a field
wants something by it, so what nobody would read is refused by name. Knows no constraint: those fields are `guided_fields`' matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

from guided.errors import json_type
from server.errors import RequestRefused
from server.inner_fields import refuse_unread_within
from server.message_fields import refuse_unread_in_messages
from server.near_names import did_you_mean
from server.request_options import is_on
from server.without_effect import WITHOUT_EFFECT

Body = Mapping[str, Any]

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
INVOCATIONS = "/invocations"  # SageMaker's name for the first two, by what is in the body
MODELS: dict[str, type[BaseModel]] = {
    CHAT: ChatCompletionRequest,
    COMPLETIONS: CompletionRequest,
    RESPONSES: ResponsesRequest,
}
BUDGETS = {  # route -> the fields that limit the answer, the one that counts first
    CHAT: ("max_completion_tokens", "max_tokens"),
    COMPLETIONS: ("max_tokens",),
    RESPONSES: ("max_output_tokens",),
}

INSTEAD = {  # field -> what to do instead of sending it
    "functions": "send tools",
    "function_call": "send tool_choice",
    "extra_body": "it is an argument of OpenAI's client; put its fields beside model",
    "audio": "this server answers with text",
    "web_search_options": "this server does not search",
    "verbosity": "say it in the prompt",
    "conversation": "send the turns in input",
    "best_of": "ask for n answers and choose",
}
ELSEWHERE = {  # as SGLang, llama.cpp and Ollama call it, and vLLM within structured_outputs -> as it is called here
    "regex": "guided_regex",
    "json": "guided_json",
    "json_schema": "guided_json",
    "format": "guided_json",
    "choice": "guided_choice",
    "ebnf": "guided_grammar",
    "grammar": "guided_grammar",
}
READ_BY_BEAM_SEARCH = "n, max_tokens, temperature, length_penalty, include_stop_str_in_output and skip_special_tokens"
NOT_READ_BY_BEAM_SEARCH: dict[str, tuple[Any, ...]] = {  # field -> values that ask for nothing
    "stop": ([], ""),
    "stop_token_ids": ([],),
    "seed": (),
    "top_p": (1, 1.0),
    "top_k": (0, -1),
    "min_p": (0, 0.0),
    "min_tokens": (0,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "logit_bias": ({},),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "prompt_logprobs": (),
    "repetition_detection": (),
    "thinking_token_budget": (-1,),
}


def route_of(path: str, body: Body) -> str:
    """The route whose request this is: of `/invocations` the one that vLLM hands it on to."""
    if path != INVOCATIONS:
        return path
    if "messages" in body:
        return CHAT
    return COMPLETIONS if "prompt" in body or "prompt_embeds" in body else path


def refuse_dropped_fields(body: Body, path: str, is_ours: Callable[[str], bool], ours: Iterable[str] = ()) -> None:
    """Raises RequestRefused for a field that changes the answer elsewhere and would change nothing here.

    Args:
        path: one of MODELS.
        is_ours: is this the name of a field that the gateway itself reads?
        ours: these fields, for those who misspell one.
    """
    known = MODELS[path].model_fields
    for name, value in body.items():
        if value is None or name in known or name in WITHOUT_EFFECT or is_ours(name):
            continue
        if not _asks_for_nothing(name, value, body):
            raise _unknown(name, path, [*ours, *known])
    refuse_unread_within(body)
    if path == CHAT:
        refuse_unread_in_messages(body.get("messages", []))
    text = body.get("text")
    if path == RESPONSES and isinstance(text, Mapping) and text.get("verbosity") not in (None, "medium"):
        raise RequestRefused(
            "text.verbosity is not supported: say it in the prompt", "unsupported_parameter", "text#/verbosity"
        )
    _refuse_beside_beam_search(body)


def refuse_beside_a_constraint_alone(body: Body, is_ours: Callable[[str], bool], ours: Iterable[str] = ()) -> None:
    """Raises RequestRefused for what a route without a prompt does not read: a field that no route has, or one that constrains too.

    Arguments as for `refuse_dropped_fields`.
    """
    everywhere = {name: None for model in MODELS.values() for name in model.model_fields}
    for name, value in body.items():
        if value is None or is_ours(name) or name in WITHOUT_EFFECT:
            continue
        if name not in everywhere:
            raise _unknown(name, "this route", [*ours, *everywhere])
        if name in ("tools", "tool_choice") and value not in ([], "none", "auto"):
            why = f"{name} is not read here: tools are compiled with the first request that brings them"
            raise RequestRefused(why, "unsupported_parameter", name)


def refuse_what_is_no_array(body: Body) -> None:
    """Raises RequestRefused where vLLM would iterate over what is no array, and fail with Python's words for it."""
    for name in ("messages", "tools"):
        value = body.get(name, [])
        if not isinstance(value, list) and not (value is None and name == "tools"):
            raise RequestRefused(f"{name} must be an array, not {json_type(value)}", "invalid_type", name)
    for position, message in enumerate(body.get("messages", [])):
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        if calls is not None and not isinstance(calls, list):
            place = f"messages#/{position}/tool_calls"
            raise RequestRefused(f"{place} must be an array, not {json_type(calls)}", "invalid_type", place)


def _asks_for_nothing(name: str, value: Any, body: Body) -> bool:
    """A field that vLLM does not know, at a value that it would not have to."""
    if name == "best_of":
        return value == (body.get("n") or 1)
    if name == "modalities":
        return value == ["text"]
    if name == "verbosity":
        return value == "medium"
    if name == "stream_options":  # of /v1/responses
        return isinstance(value, Mapping) and set(value) <= {"include_obfuscation"}
    return name in INSTEAD and value in ([], {}, "none", "auto")


def _unknown(name: str, path: str, known: Iterable[str]) -> RequestRefused:
    shown = name[:80]
    if name in INSTEAD:
        return RequestRefused(f"{shown} is not supported: {INSTEAD[name]}", "unsupported_parameter", shown)
    if name == "response_format":
        return RequestRefused(f"{path} has text.format in place of response_format", "unknown_parameter", shown)
    here = ELSEWHERE.get(name)
    hint = f"; here it is {here}" if here else did_you_mean(name, [*known, *WITHOUT_EFFECT])
    return RequestRefused(f"{shown} is unknown on {path}, and would be ignored{hint}", "unknown_parameter", shown)


def _refuse_beside_beam_search(body: Body) -> None:
    if not is_on(body.get("use_beam_search")):
        if body.get("length_penalty") not in (None, 1, 1.0):
            why = "length_penalty has an effect with use_beam_search only"
            raise RequestRefused(why, "unsupported_parameter", "length_penalty")
        return
    for name, nothing in NOT_READ_BY_BEAM_SEARCH.items():
        if body.get(name) is not None and body[name] not in nothing:
            why = f"{name} has no effect with use_beam_search, which reads {READ_BY_BEAM_SEARCH}"
            raise RequestRefused(why, "unsupported_parameter", name)
