"""Names within messages: one that is misspelt is refused, one that other servers or templates know is not."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.chat import ChatCompletionMessageParam
from vllm.renderers.chat_utils import ConversationMessage, CustomChatCompletionMessageParam

from server import message_fields
from server.errors import RequestRefused
from server.message_fields import NAMES, refuse_unread_in_messages

HELLO = {"role": "user", "content": "hello"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def refused(*messages: Any) -> RequestRefused:
    with pytest.raises(RequestRefused) as raised:
        refuse_unread_in_messages(messages)
    return raised.value


@pytest.mark.parametrize(
    ("message", "name", "meant"),
    [
        ({"role": "user", "contnt": "x"}, "contnt", "content"),
        ({"role": "user", "Content": "x"}, "Content", "content"),
        ({"role": "developer", "contents": "x"}, "contents", "content"),
        ({"role": "assistant", "tool_call": [CALL]}, "tool_call", "tool_calls"),
        ({"role": "assistant", "content": "x", "toolCalls": [CALL]}, "toolCalls", "tool_calls"),
        ({"role": "tool", "content": "x", "toolCallId": "c"}, "toolCallId", "tool_call_id"),
        ({"role": "assistant", "content": "x", "reasonin": "y"}, "reasonin", "reasoning"),
    ],
)
def test_misspelt_names(message, name, meant):
    error = refused(HELLO, message)
    assert (error.code, error.param) == ("unknown_parameter", f"messages#/1/{name}")
    assert error.message.endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize("beside", [{}, {"content": None}, {"name": "n"}, {"parts": ["x"]}])
def test_messages_without_content(role, beside):
    error = refused(HELLO, {"role": role, **beside})
    assert (error.code, error.param) == ("missing_required_parameter", "messages#/1/content")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": [], "audio": None},
        {"role": "assistant", "content": "x", "reasoning_details": [], "thinking_blocks": [], "reasoning_signature": "s"},
        {"role": "assistant", "content": "x", "thinking": "y", "tool_plan": "z", "prefix": True, "partial": True},
        {"role": "assistant", "content": "x", "id": "m", "created_at": 1, "metadata": {}, "provider_specific_fields": {}},
        {"role": "tool", "content": None, "tool_call_id": "c", "tool_name": "f", "is_error": False},
        {"role": "user", "content": "x", "contents": "said twice", "images": []},
        {"role": "user", "content": "x", "contnt": None},
        {"role": "developer", "tools": []},
        {"role": "user", "content": []},
        {"role": "user", "content": ["x", {"image_url": "y"}, {"type": "text", "text": ""}]},
        {"role": "user", "content": [{"type": "picture", "image_url": "y", "uuid": "u"}]},
        "no message",
    ],
)  # fmt: skip
def test_what_passes(message):
    refuse_unread_in_messages([message])


def test_all_names_of_the_models_are_known():
    kinds = [*get_args(ChatCompletionMessageParam), CustomChatCompletionMessageParam, ConversationMessage]
    assert {name for kind in kinds for name in kind.__annotations__} <= set(NAMES)


def test_so_many_unknown_names_are_compared_and_no_more(monkeypatch):
    """Comparing takes time that all requests wait for, and a body has room for hundreds of thousands."""
    compared = []
    monkeypatch.setattr(message_fields, "nearest", lambda name, known, alike: compared.append(name))
    said = {"role": "assistant", "content": "x"}
    message_fields.refuse_unread_in_messages([said | {f"q{n}": 1, "same": 1} for n in range(2000)])
    assert len(compared) == len(set(compared)) == message_fields._MOST_NAMES
