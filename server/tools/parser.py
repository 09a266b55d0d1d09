"""In: vLLM's parser of a request with tools; out: the same, honest about calls that were cut off. Knows no constraint.

Of such an answer vLLM makes text with the raw markup of the call. Here it is the call as far as it came, as it is in a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaMessage, FunctionCall
from vllm.parser.abstract_parser import Parser

Parsed = tuple[str | None, str | None, list[FunctionCall] | None]


def may_call(request: Any) -> bool:
    """Has the request tools that the model may call?"""
    return bool(request.tools) and request.tool_choice not in (None, "none")


class CallsParser(Parser):
    """In front of a parser, whose calls are whole."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._built_from = args, options
        super().__init__(*args, **options)

    def _apply_structural_tag(self, request: Any) -> Any:
        """The request as it is: calls are constrained by this server, and vLLM would have xgrammar read schemas on the event loop."""
        return request

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> Parsed:
        parsed = super().parse(model_output, request, enable_auto_tools, model_output_token_ids)
        reasoning, content, calls = parsed
        if calls or self.tool_parser is None or not may_call(request):
            return parsed
        if content is None:  # vLLM gives up a list of calls that is not complete
            content = model_output if reasoning is None else ""
        args, options = self._built_from
        text, found = _as_streamed(type(self)(*args, **options), content, request) if content else (None, [])
        if not found and request.tool_choice == "auto":
            return parsed
        return reasoning, text, found


def _as_streamed(parser: Any, text: str, request: Any) -> tuple[str | None, list[FunctionCall]]:
    """Content and calls of a text that is streamed in one piece."""
    parser._stream_state.prompt_reasoning_checked = parser._stream_state.reasoning_ended = True
    token_ids = parser.model_tokenizer.encode(text, add_special_tokens=False)
    # At the end vLLM gives "{}" to calls whose arguments have not begun; only parsers that hold text back need the end.
    finished = parser._engine_based
    delta: DeltaMessage | None = parser.parse_delta(text, token_ids, request, None, finished=finished)
    calls: dict[int, FunctionCall] = {}
    for part in delta.tool_calls if delta is not None else ():
        call = calls.setdefault(part.index, FunctionCall(id=part.id, name="", arguments=""))
        if part.function is not None:
            call.name += part.function.name or ""
            call.arguments += part.function.arguments or ""
    content = delta.content if delta is not None else None
    return content or None, [call for call in calls.values() if call.name]
