"""In: a `Conversation`; out: an `Answer` that satisfies its constraint, or an error. The one file that talks to Bedrock.

`Engine` is what the gateway needs of a place where answers come from. vLLM, whose logits are masked, needs no second try; here a
model is asked for a tool call and its answer is validated, and asked again when it does not fit. Nothing unvalidated is returned.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, ReadTimeoutError

from server.bedrock.request import TOOL, Conversation
from server.bedrock.schema import AnswerInvalid
from server.errors import RequestRefused

FINISH = {
    "end_turn": "stop",
    "tool_use": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
# Bedrock's error -> status, code. What is not here is a bad gateway.
ERRORS = {
    "ThrottlingException": (429, "rate_limit_exceeded"),
    "ServiceQuotaExceededException": (429, "rate_limit_exceeded"),
    "ValidationException": (400, "invalid_value"),
    "ModelTimeoutException": (504, "timeout"),
    "ModelNotReadyException": (503, "unavailable"),
    "ServiceUnavailableException": (503, "unavailable"),
    "AccessDeniedException": (502, "upstream_refused"),
    "ResourceNotFoundException": (502, "upstream_refused"),
}
RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer, and why it ends."""

    text: str
    finish_reason: str


@dataclass(slots=True)
class Spent:
    """What one request has cost so far, which has to be paid however it ends. Attempts: generations that were begun."""

    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 0


class Engine(Protocol):
    async def complete(self, conversation: Conversation, spent: Spent) -> Answer:
        """Adds to `spent` as it goes. Raises RequestRefused, with the status that the client gets."""
        ...


@dataclass(slots=True)
class BedrockEngine:
    """Answers from Bedrock's Converse.

    Attributes:
        client: boto3's `bedrock-runtime`; safe to share between threads.
        models: name that clients give -> model id.
        attempts: most generations per request.
        seconds: of one request; no generation begins that would not end within them if it took as long as the longest one before.
        connections: generations at once, each of which holds a thread and a connection.
    """

    client: Any
    models: dict[str, str]
    attempts: int = 3
    seconds: float = 110.0
    connections: int = 80
    _threads: ThreadPoolExecutor = field(init=False)
    _free: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.connections, "bedrock")
        self._free = threading.Semaphore(self.connections)

    async def complete(self, conversation: Conversation, spent: Spent) -> Answer:
        model_id = self.models.get(conversation.model)
        if model_id is None:
            known = ", ".join(self.models)
            raise RequestRefused(
                f"model {conversation.model!r} is unknown; there are {known}", "model_not_found", "model", 404
            )
        begin, longest, problem = time.monotonic(), 0.0, ""
        for _ in range(self.attempts):
            at = time.monotonic()
            if at - begin + longest > self.seconds:
                problem += "; there is no time for another"
                break
            spent.attempts += 1
            response = await self._converse(model_id, conversation.arguments)
            usage = response.get("usage", {})
            spent.input_tokens += usage.get("inputTokens", 0)
            spent.output_tokens += usage.get("outputTokens", 0)
            try:
                return Answer(*await read_response(response, conversation))
            except AnswerInvalid as error:
                problem = str(error)
            longest = max(longest, time.monotonic() - at)
        raise RequestRefused(
            f"the model gave no answer that satisfies the constraint in {spent.attempts} attempts: {problem}",
            "constraint_not_met",
            None,
            502,
        )

    async def _converse(self, model_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self._free.acquire(blocking=False):
            message = f"{self.connections} answers are being generated, and that is as many as may be at once"
            raise RequestRefused(message, "overloaded", None, 503, RETRY_SECONDS)
        call = self._threads.submit(self._call, modelId=model_id, **arguments)
        call.add_done_callback(lambda _: self._free.release())  # when the call ends, not when its client leaves
        try:
            return await asyncio.wrap_future(call)
        except ClientError as error:
            raise _refusal(error) from error
        except ReadTimeoutError as error:
            raise RequestRefused("Bedrock: the model did not answer in time", "timeout", None, 504) from error
        except BotoCoreError as error:
            raise RequestRefused(f"Bedrock cannot be reached: {error}", "upstream_error", None, 502) from error

    def _call(self, **arguments: Any) -> dict[str, Any]:
        """In a thread. boto3 itself tries nothing twice, since a second generation would go beyond the time of the request."""
        try:
            return self.client.converse(**arguments)
        except ConnectionClosedError:  # one that was idle for too long
            return self.client.converse(**arguments)


def _refusal(error: ClientError) -> RequestRefused:
    code = error.response.get("Error", {}).get("Code", "")
    status, ours = ERRORS.get(code, (502, "upstream_error"))
    message = f"Bedrock: {code}: {error.response['Error'].get('Message', '')}"
    return RequestRefused(message, ours, None, status, RETRY_SECONDS if status in (429, 503) else None)


async def read_response(response: dict[str, Any], conversation: Conversation) -> tuple[str, str]:
    """Text and finish reason.

    Raises:
        AnswerInvalid: the answer does not satisfy the constraint; another attempt may.
        RequestRefused: no other attempt will: too few tokens, or a filter.
    """
    stop = response.get("stopReason", "")
    reason = FINISH.get(stop)
    blocks = response.get("output", {}).get("message", {}).get("content", [])
    if conversation.shape is None:
        if reason is None:
            raise AnswerInvalid(f"Bedrock stopped with {stop}")
        return "".join(block.get("text", "") for block in blocks), reason
    if reason == "length":
        raise RequestRefused(
            "the answer did not fit into max_tokens, and half an answer does not satisfy the constraint",
            "budget_too_small",
            "max_tokens",
        )
    if reason == "content_filter":
        raise RequestRefused("a content filter of Bedrock held the answer back", "content_filter", None)
    calls = [block["toolUse"]["input"] for block in blocks if block.get("toolUse", {}).get("name") == TOOL]
    if len(calls) != 1:
        raise AnswerInvalid("the model did not give exactly one answer")
    return await conversation.shape.read(calls[0]), "stop"
