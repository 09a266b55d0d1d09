"""In: vLLM's serving object of /v1/responses; out: the same, which keeps what the other generating routes keep. Knows no constraint.

It asks the engine only when its stream is read: the status is sent by then, and so are two events. It says "completed" of calls that
were cut off. Of an assistant's message it reads the first part, and fails where that has no text. And what it stores
(VLLM_ENABLE_RESPONSES_API_STORE) anybody finds who knows, or has chosen, an id.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import AsyncGenerator
from typing import Any

from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from starlette.datastructures import State
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest, ResponsesResponse
from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses
from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from server.errors import RequestRefused
from server.logs import caller_name
from server.tools.serving import is_whole

_STORES = ("response_store", "msg_store", "event_store", "background_tasks")  # of vLLM's object: id -> something


def serve_responses(state: State) -> None:
    """Changes the serving object that vLLM has put into the application's state; None is left alone: the model generates nothing."""
    serving = getattr(state, "openai_serving_responses", None)
    if serving is None:
        return
    serving.__class__ = Responses  # vLLM builds it deep inside; this is the same object with other methods
    for name in _STORES:
        setattr(serving, name, OfCallers())


class Responses(OpenAIServingResponses):
    """vLLM's, with what is said above put right."""

    def _validate_create_responses_input(self, request: ResponsesRequest) -> ErrorResponse | None:
        if not self.use_harmony:
            if request.previous_input_messages:
                message = "previous_input_messages are read for gpt-oss only; send the turns in input"
                raise RequestRefused(message, "unsupported_parameter", "previous_input_messages")
            if not isinstance(request.input, str):
                request.input = [in_one_part(item, f"input#/{n}") for n, item in enumerate(request.input)]
        return super()._validate_create_responses_input(request)

    def _generate_with_builtin_tools(self, **request: Any) -> Any:
        self.engine_client.admit(request["engine_input"], request["sampling_params"])
        return super()._generate_with_builtin_tools(**request)

    async def _process_simple_streaming_events(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._process_simple_streaming_events(*args, **options):
            if event.type == "response.output_item.done":
                _say_if_cut(event.item)
            yield event

    async def responses_full_generator(self, *args: Any, **options: Any) -> Any:
        response = await super().responses_full_generator(*args, **options)
        if isinstance(response, ResponsesResponse):
            for item in response.output:
                _say_if_cut(item)
        return response


def in_one_part(item: Any, place: str) -> Any:
    """An item of a request's input; the parts of an assistant's message are one, since vLLM reads no more.

    Args:
        place: of the item in the request.

    Raises:
        RequestRefused: a part has no text.
    """
    is_message = isinstance(item, ResponseOutputMessage)
    if not is_message and not (isinstance(item, dict) and item.get("role") == "assistant"):
        return item
    content = item.content if is_message else item.get("content")
    if not isinstance(content, list):
        return item
    text = "".join(_text_of(part, f"{place}/content/{n}") for n, part in enumerate(content))
    if not is_message:
        return {**item, "content": text}
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return item.model_copy(update={"content": [part]})


def _text_of(part: Any, place: str) -> str:
    for name in ("text", "refusal"):
        text = part.get(name) if isinstance(part, dict) else getattr(part, name, None)
        if isinstance(text, str):
            return text
    raise RequestRefused(f"{place} has no text", "invalid_value", place)


def _say_if_cut(item: Any) -> None:
    if item.type == "function_call" and not is_whole(item.arguments):
        item.status = "incomplete"


class OfCallers(UserDict):
    """Id -> what the caller at hand has under it: of others' it finds nothing. Without keys there is one caller."""

    def __getitem__(self, identity: str) -> Any:
        return super().__getitem__((caller_name.get(), identity))

    def __setitem__(self, identity: str, value: Any) -> None:
        super().__setitem__((caller_name.get(), identity), value)

    def __delitem__(self, identity: str) -> None:
        super().__delitem__((caller_name.get(), identity))

    def __contains__(self, identity: object) -> bool:
        return super().__contains__((caller_name.get(), identity))
