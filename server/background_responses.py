"""In: vLLM's serving of /v1/responses with `background`; out: the same, whose answers come to an end whatever happens. Knows no constraint.

vLLM leaves an answer that fails "queued" for ever, and who reads its events waits for one that never comes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses
from vllm.exceptions import VLLMValidationError

from server.observation import current, in_background

logger = logging.getLogger(__name__)


class BackgroundResponses(OpenAIServingResponses):
    """Says of an answer in the background that it failed, and ends its events."""

    def _run_background_request(self, request: ResponsesRequest, *args: Any, **options: Any) -> Any:
        return self._to_its_end(request, super()._run_background_request(request, *args, **options))

    def _run_background_request_stream(self, request: ResponsesRequest, *args: Any, **options: Any) -> Any:
        return self._to_its_end(request, super()._run_background_request_stream(request, *args, **options))

    def _to_its_end(self, request: ResponsesRequest, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """What vLLM makes a task of. Noted now: the task begins at any time."""
        seen = current.get()
        if seen is None:
            return self._answered(request, work)
        seen.background = True
        return in_background(seen, self._answered(request, work))

    async def _answered(self, request: ResponsesRequest, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody asks for the answer
            await self._failed(request, error)

    async def _failed(self, request: ResponsesRequest, error: Exception) -> None:
        is_of_request = isinstance(error, VLLMValidationError)
        if not is_of_request:  # what it says may quote a prompt
            logger.error("response %s failed in the background: %s", request.request_id, type(error).__name__)
        message = str(error) if is_of_request else "the server failed to answer; its log says why"
        async with self.response_store_lock:
            stored = self.response_store.get(request.request_id)
            if stored is not None and stored.status != "cancelled":
                stored.status = "failed"
                stored.error = {"code": "invalid_prompt" if is_of_request else "server_error", "message": message}

    async def responses_background_stream_generator(
        self, response_id: str, starting_after: int | None = None
    ) -> AsyncGenerator[Any, None]:
        if response_id not in self.event_store:
            message = f"there are no events of {response_id}: it was not made with stream and background"
            raise VLLMValidationError(message, parameter="response_id")
        events, more = self.event_store[response_id]
        task = self.background_tasks.get(response_id)
        position = 0 if starting_after is None else starting_after + 1
        while True:
            more.clear()
            while position < len(events):
                yield events[position]
                position += 1
            if task is None or task.done():
                return
            await more.wait()
