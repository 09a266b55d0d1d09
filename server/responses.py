"""In: vLLM's serving object of /v1/responses; out: the same, which keeps what the other generating routes keep. Knows no constraint.

It asks the engine only when its stream is read: the status is sent by then, and so are two events; here these wait for what the engine
says first. It says "completed" of calls that were cut off, and gives out the raw JSON of those of custom tools. Of an assistant's message
it reads the first part, and fails where that has no text. Of what it stores (VLLM_ENABLE_RESPONSES_API_STORE) `previous_response_id`
brings back the messages without the calls, and anybody finds it who knows, or has chosen, an id.
"""

from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any

from openai.types.responses import ResponseErrorEvent, ResponseOutputMessage, ResponseOutputText, ResponseReasoningItem
from starlette.datastructures import State
from vllm.entrypoints.openai.responses import streaming_events, utils
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest, ResponsesResponse
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.exceptions import GenerationError, VLLMValidationError

from server.background_responses import BackgroundResponses
from server.engine import Pending, pending_constraint
from server.errors import RequestRefused
from server.logs import caller_name
from server.report import FIELD
from server.tools.custom import cut_input
from server.tools.serving import is_whole
from server.validation import from_vllm_validation

logger = logging.getLogger(__name__)

_BEFORE_THE_ENGINE = 2  # events of a stream: response.created and response.in_progress
_of_whole_call = utils.decode_custom_tool_input
_STORES = ("response_store", "msg_store", "event_store", "background_tasks")  # of vLLM's object: id -> something


def serve_responses(state: State) -> None:
    """Changes the serving object that vLLM has put into the application's state; None is left alone: the model generates nothing."""
    serving = getattr(state, "openai_serving_responses", None)
    if serving is None:
        return
    serving.__class__ = Responses  # vLLM builds it deep inside; this is the same object with other methods
    for name in _STORES:
        setattr(serving, name, OfCallers())
    for module in (utils, streaming_events):  # which call it by its name
        module.decode_custom_tool_input = input_of


class Responses(BackgroundResponses):
    """vLLM's, with what is said above put right."""

    def _validate_create_responses_input(self, request: ResponsesRequest) -> ErrorResponse | None:
        if not self.use_harmony:
            if request.previous_input_messages:
                message = "previous_input_messages are read for gpt-oss only; send the turns in input"
                raise RequestRefused(message, "unsupported_parameter", "previous_input_messages")
            if not isinstance(request.input, str):
                request.input = [in_one_part(item, f"input#/{n}") for n, item in enumerate(request.input)]
        return super()._validate_create_responses_input(request)

    async def _render_resolved_response_inputs(
        self, request: ResponsesRequest, prev_response: ResponsesResponse | None, **options: Any
    ) -> Any:
        if prev_response is None or self.use_harmony:
            return await super()._render_resolved_response_inputs(request, prev_response, **options)
        # As if the client had sent the items itself, those that vLLM brings back among them.
        given = request.input
        message = [{"role": "user", "content": given}] if isinstance(given, str) else given
        request.input = [*said_before(prev_response), *message]
        try:
            nothing = prev_response.model_copy(update={"output": []})
            return await super()._render_resolved_response_inputs(request, nothing, **options)
        finally:
            request.input = given

    def _generate_with_builtin_tools(self, **request: Any) -> Any:
        self.engine_client.admit(request["engine_input"], request["sampling_params"])
        return super()._generate_with_builtin_tools(**request)

    async def _process_simple_streaming_events(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._process_simple_streaming_events(*args, **options):
            if event.type == "response.output_item.done":
                _say_if_cut(event.item)
            yield event

    async def responses_stream_generator(
        self, request: ResponsesRequest, *args: Any, **options: Any
    ) -> AsyncGenerator[Any, None]:
        number = 0
        held: list[Any] = []
        waits = 0 if request.background else _BEFORE_THE_ENGINE
        try:
            async for event in super().responses_stream_generator(request, *args, **options):
                held.append(event)
                number += 1
                while held and number > waits:
                    yield held.pop(0)
            for event in held:
                yield event
        except Exception as error:  # noqa: BLE001 - without an event the connection breaks off
            yield _error_event(error, number, first=not request.background and number == len(held))

    def _convert_generation_error_to_streaming_response(self, error: GenerationError) -> str:
        """Raises it: what vLLM makes of it is none of its own events, and fails."""
        raise error

    async def responses_full_generator(self, *args: Any, **options: Any) -> Any:
        response = await super().responses_full_generator(*args, **options)
        if isinstance(response, ResponsesResponse):
            for item in response.output:
                _say_if_cut(item)
            _report_in(response)
        return response


def _error_event(error: Exception, number: int, *, first: bool) -> ResponseErrorEvent:
    """OpenAI's last event of a stream that fails; where it is the `first` one too, `server.error_bodies` makes an answer of it."""
    refused = _refusal(error, "internal_error" if first else "server_error")
    event = ResponseErrorEvent(
        type="error", code=refused.code, message=refused.message, param=refused.param, sequence_number=number
    )
    return event.model_copy(update=asdict(refused)) if first else event


def _refusal(error: Exception, of_the_server: str) -> RequestRefused:
    """What clients are told of an error. What an unexpected one says may quote a prompt, which is for nobody.

    Args:
        of_the_server: code of what is no fault of the request.
    """
    if isinstance(error, RequestRefused):
        return error
    if isinstance(error, VLLMValidationError):
        return from_vllm_validation(error)
    logger.error("a stream of /v1/responses ends in an error: %s", type(error).__name__)
    if isinstance(error, GenerationError):
        return RequestRefused(str(error), of_the_server, status=int(error.status_code))
    return RequestRefused("the server failed to answer; its log says why", of_the_server, status=500)


def input_of(arguments: str) -> str:
    """The input of a custom call, as far as it came, where vLLM gives out the arguments as they are."""
    found = None if is_whole(arguments) else cut_input(arguments)
    return _of_whole_call(arguments) if found is None else found


def said_before(response: ResponsesResponse) -> list[Any]:
    """The items of a response that are read again with the next request: not its reasoning."""
    return [
        in_one_part(item, "previous_response_id")
        for item in response.output
        if not isinstance(item, ResponseReasoningItem)
    ]


def _report_in(response: ResponsesResponse) -> None:
    """A response in the background is asked for later, when the request that wanted the report is over."""
    pending = pending_constraint.get()
    report = pending.report if isinstance(pending, Pending) else None
    if response.background and report is not None and report.tokens is not None:
        setattr(response, FIELD, report.body())


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
