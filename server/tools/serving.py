"""In: vLLM's serving of chat and completions; out: the same, which says where an answer was cut off in the middle of a call, and what
was refused. Knows no constraint.

vLLM says of such an answer that calls were made. Here the finish reason is the engine's: "length", or "stop" where a stop string cut
the call, which is there as far as it came (`server.tools.parser`). And calls of custom tools are given back as OpenAI has them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from pydantic import Field
from starlette.datastructures import State
from vllm.entrypoints.generate.base.serving import GenerateBaseServing
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionResponse, ChatMessage
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.outputs import RequestOutput

from server.errors import RequestRefused
from server.tools.custom import CustomCalls, stands_for_custom
from server.tools.parser import may_call


def serve_honestly(state: State) -> None:
    """Changes the serving objects that vLLM has put into the application's state; None is left alone."""
    for name, kind in (("openai_serving_chat", HonestChat), ("openai_serving_completion", HonestCompletion)):
        serving = getattr(state, name, None)
        if serving is not None:
            serving.__class__ = kind  # vLLM builds it deep inside; this is the same object with other methods


class _WithRefusals(GenerateBaseServing):
    """Says in a stream what was refused, with its code; to vLLM a refusal of ours is a fault of the server."""

    def create_streaming_error_response(self, message: str | Exception, *args: Any, **options: Any) -> str:
        if isinstance(message, RequestRefused):
            return message.event()
        return super().create_streaming_error_response(message, *args, **options)


class HonestCompletion(_WithRefusals, OpenAIServingCompletion):
    """Says in a stream what was refused."""


class HonestChat(_WithRefusals, OpenAIServingChat):
    """Says what the engine says where that cut an answer off, whatever was called."""

    async def chat_completion_full_generator(
        self, request: Any, result_generator: AsyncIterator[RequestOutput], *args: Any, **options: Any
    ) -> Any:
        cut: set[int] = set()

        async def watched() -> AsyncIterator[RequestOutput]:
            async for result in result_generator:
                cut.update(sample.index for sample in result.outputs if sample.finish_reason == "length")
                yield result

        response = await super().chat_completion_full_generator(request, watched(), *args, **options)
        if isinstance(response, ChatCompletionResponse):
            for choice in response.choices:
                calls = choice.message.tool_calls
                if choice.index in cut:
                    choice.finish_reason = "length"
                elif calls and _cut_by_stop(choice.finish_reason, choice.stop_reason, calls[-1].function.arguments):
                    choice.finish_reason = "stop"
            _as_custom(response, _custom_names(request))
        return response

    def chat_completion_stream_generator(
        self, request: Any, result_generator: AsyncIterator[RequestOutput], *args: Any, **options: Any
    ) -> AsyncGenerator[str, None]:
        stream = super().chat_completion_stream_generator(request, result_generator, *args, **options)
        if getattr(request, "stop", None) and may_call(request):
            stream = _cut_stream(stream)
        names = _custom_names(request)
        return _custom_stream(stream, CustomCalls(names)) if names else stream


def _custom_names(request: Any) -> frozenset[str]:
    tools = getattr(request, "tools", None) or ()
    return frozenset(tool.function.name for tool in tools if stands_for_custom(tool.function.parameters))


def _cut_by_stop(finish_reason: str | None, stop_reason: Any, arguments: str) -> bool:
    """Did a stop string of the request end the answer within its last call, which has these arguments?"""
    return finish_reason == "tool_calls" and isinstance(stop_reason, str) and not is_whole(arguments)


def is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments, parse_int=str)  # Python refuses to read integers of thousands of digits
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


async def _edited(
    stream: AsyncGenerator[str, None], edit: Callable[[dict[str, Any]], bool]
) -> AsyncGenerator[str, None]:
    """The events of a stream; `edit` gets the chunk of each that has calls, and says whether it changed it."""
    async with aclosing(stream):
        async for event in stream:
            if '"tool_calls"' in event:
                chunk = json.loads(event.removeprefix("data: "))
                if edit(chunk):
                    event = f"data: {json.dumps(chunk)}\n\n"
            yield event


def _cut_stream(stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """The events of a stream, whose last one says "stop" where a stop string cut a call.

    With the finish reason vLLM may send a closing of arguments that the model never wrote, so what counts came before.
    """
    last: dict[int, tuple[int, list[str]]] = {}  # choice -> its last call, and the parts of its arguments

    def edit(chunk: dict[str, Any]) -> bool:
        changed = False
        for choice in chunk["choices"]:
            calls = choice["delta"].get("tool_calls") or ()
            before = "".join(last.get(choice["index"], (0, []))[1]) if choice["finish_reason"] else ""
            if _cut_by_stop(choice["finish_reason"], choice.get("stop_reason"), before):
                choice["finish_reason"] = "stop"
                changed = True
            for call in calls:
                number, parts = last.get(choice["index"], (None, []))
                if call["index"] != number:
                    parts = []
                    last[choice["index"]] = call["index"], parts
                parts.append((call.get("function") or {}).get("arguments") or "")
        return changed

    return _edited(stream, edit)


class _Message(ChatMessage):
    """A message whose calls may be of custom tools."""

    tool_calls: list[Any] = Field(default_factory=list)


def _as_custom(response: ChatCompletionResponse, names: frozenset[str]) -> None:
    for choice in response.choices if names else ():
        calls = [CustomCalls(names).in_message(call.model_dump()) for call in choice.message.tool_calls or ()]
        choice.message = _Message(**{**choice.message.model_dump(), "tool_calls": calls})


def _custom_stream(stream: AsyncGenerator[str, None], calls: CustomCalls) -> AsyncGenerator[str, None]:
    """The events of a stream, with the calls of custom tools as OpenAI has them."""

    def edit(chunk: dict[str, Any]) -> bool:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            delta["tool_calls"] = [calls.in_chunk(choice["index"], call) for call in delta.get("tool_calls") or ()]
        return True

    return _edited(stream, edit)
