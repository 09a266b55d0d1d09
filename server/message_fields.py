"""In: the messages of a chat; out: nothing, or a refusal of the first thing in them that vLLM would leave out in silence.

vLLM's models take any name in a message, and its templates see the names that it copies. Clients send back what other servers gave
them, so only a name that is almost one of those is refused: a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vllm.renderers.chat_utils import MM_PARSER_MAP

from guided.errors import json_type
from server.errors import RequestRefused
from server.near_names import nearest

NAMES = (  # of OpenAI's messages and vLLM's, by all roles; then what models' templates and other servers have beside those
    *("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning", "tools", "task"),
    *("reasoning_content", "reasoning_details", "reasoning_text", "thinking", "thinking_blocks", "thinking_content", "tool_plan"),
    *("tool", "tool_name", "annotations", "prefix", "partial", "author", "recipient", "channel", "content_type"),
)  # fmt: skip
_ALIKE = 0.8  # as difflib measures it: `contnt` is, `reasoning_signature` is not
_MOST_NAMES = 256  # unknown ones of a request that are compared: a body has room for hundreds of thousands, and others wait meanwhile
_SAY_SOMETHING = ("user", "system")  # roles of messages that are nothing without content
_TYPES = tuple(MM_PARSER_MAP)  # of parts of a message
_TEXTS = ("text", "input_text", "output_text")


def refuse_unread_in_messages(messages: Iterable[Any]) -> None:
    """Raises RequestRefused for a misspelt name, for what has no content, and for a part that is of no type or has no text."""
    compared: dict[str, str | None] = {}  # unknown name -> the one that is meant
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue  # vLLM's models refuse it
        place = f"messages#/{number}"
        _refuse_misspelt(message, place, compared)
        content = message.get("content")
        if content is None and message.get("role") in _SAY_SOMETHING:
            raise RequestRefused(f"{place}/content is missing", "missing_required_parameter", f"{place}/content")
        for position, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, Mapping):
                _refuse_part(part, f"{place}/content/{position}")


def _refuse_misspelt(message: Mapping[str, Any], place: str, compared: dict[str, str | None]) -> None:
    for name, value in message.items():
        if name in NAMES or value is None:
            continue
        if name not in compared and len(compared) < _MOST_NAMES:
            compared[name] = nearest(name, NAMES, _ALIKE)
        meant = compared.get(name)
        if meant is not None and message.get(meant) is None:
            field = f"{place}/{name}"
            raise RequestRefused(
                f"{field} is unknown, and would be ignored; did you mean {meant}?", "unknown_parameter", field
            )


def _refuse_part(part: Mapping[str, Any], place: str) -> None:
    kind = part.get("type")
    if kind is not None and kind not in _TYPES and part.get("uuid") is None:  # vLLM looks at other names beside a uuid
        said = repr(kind[:40]) if isinstance(kind, str) else json_type(kind)
        message = f"{place} must be of type {', '.join(_TYPES)}, not {said}"
        raise RequestRefused(message, "invalid_value", place)
    if kind not in _TEXTS or isinstance(part.get("text"), str):
        return
    if part.get("text") is None:
        raise RequestRefused(f"{place}/text is missing", "missing_required_parameter", f"{place}/text")
    raise RequestRefused(
        f"{place}/text must be a string, not {json_type(part['text'])}", "invalid_type", f"{place}/text"
    )
