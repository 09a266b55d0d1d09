"""In: the body of a request to a route of vLLM's that enforces no constraint; out: nothing, or a refusal of the first field that nobody
would read there. What they do not know they drop, as the generating routes do (`request_fields`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm.entrypoints.anthropic.protocol import AnthropicCountTokensRequest, AnthropicMessagesRequest
from vllm.entrypoints.serve.tokenize.protocol import DetokenizeRequest, TokenizeChatRequest, TokenizeCompletionRequest

from server.inner_fields import refuse_unread
from server.message_fields import refuse_unread_in_messages
from server.without_effect import WITHOUT_EFFECT, WITHOUT_EFFECT_FOR_ANTHROPIC

_MESSAGES = frozenset(AnthropicMessagesRequest.model_fields)
_TO_COUNT = frozenset(AnthropicCountTokensRequest.model_fields)
_OF_A_CHAT = frozenset(TokenizeChatRequest.model_fields)
ROUTES = {  # path -> the names that it reads, and those that it takes beside them
    "/v1/messages": (_MESSAGES, WITHOUT_EFFECT_FOR_ANTHROPIC),
    "/v1/messages/count_tokens": (_TO_COUNT, WITHOUT_EFFECT_FOR_ANTHROPIC | _MESSAGES),  # how to generate is no token
    "/tokenize": (frozenset(TokenizeCompletionRequest.model_fields), WITHOUT_EFFECT),
    "/detokenize": (frozenset(DetokenizeRequest.model_fields), WITHOUT_EFFECT),
}


def refuse_dropped_elsewhere(body: Mapping[str, Any], path: str) -> None:
    """Raises RequestRefused for a field that would change nothing on `path`; a path that is not one of ROUTES takes any."""
    if path == "/tokenize" and body.get("messages") is not None:
        refuse_unread(body, "", _OF_A_CHAT, WITHOUT_EFFECT)
        refuse_unread_in_messages(body["messages"])
    elif path in ROUTES:
        refuse_unread(body, "", *ROUTES[path])
