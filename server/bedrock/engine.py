"""In: a `Conversation`; out: an `Answer` that satisfies its constraint, or an error. The one file that talks to Bedrock.

`Engine` is what the gateway needs of a place where answers come from. vLLM, whose logits are masked, needs no second try; here a
model is asked for a tool call and its answer is validated, and asked again when it does not fit. Nothing unvalidated is returned.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

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
    "ThrottlingException": (429, "rate_limited"),
    "ServiceQuotaExceededException": (429, "rate_limited"),
    "ValidationException": (400, "invalid_request"),
    "ModelTimeoutException": (504, "timeout"),
    "ModelNotReadyException": (503, "not_ready"),
    "ServiceUnavailableException": (503, "not_ready"),
    "AccessDeniedException": (502, "upstream_refused"),
    "ResourceNotFoundException": (502, "upstream_refused"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. Tokens are those of all attempts, which is what is paid for."""

    text: str
    finish_reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1


class Engine(Protocol):
    async def complete(self, conversation: Conversation) -> Answer:
        """Raises RequestRefused, with the status that the client gets."""
        ...


@dataclass(slots=True)
class BedrockEngine:
    """Answers from Bedrock's Converse.

    Attributes:
        client: boto3's `bedrock-runtime`; safe to share between threads.
        models: name that clients give -> model id.
        attempts: generations per request.
    """

    client: Any
    models: dict[str, str]
    attempts: int = 3

    async def complete(self, conversation: Conversation) -> Answer:
        model_id = self.models.get(conversation.model)
        if model_id is None:
            known = ", ".join(self.models)
            raise RequestRefused(
                f"model {conversation.model!r} is unknown; there are {known}", "model_not_found", "model", 404
            )
        spent_in = spent_out = 0
        problem = ""
        for attempt in range(1, self.attempts + 1):
            response = await self._converse(model_id, conversation.arguments)
            usage = response.get("usage", {})
            spent_in += usage.get("inputTokens", 0)
            spent_out += usage.get("outputTokens", 0)
            try:
                text, finish_reason = read_response(response, conversation)
            except AnswerInvalid as error:
                problem = str(error)
                continue
            return Answer(text, finish_reason, spent_in, spent_out, attempt)
        raise RequestRefused(
            f"the model gave no answer that satisfies the constraint in {self.attempts} attempts: {problem}",
            "constraint_not_met",
            None,
            502,
        )

    async def _converse(self, model_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return await asyncio.to_thread(self.client.converse, modelId=model_id, **arguments)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status, ours = ERRORS.get(code, (502, "upstream_error"))
            raise RequestRefused(
                f"Bedrock: {code}: {error.response['Error'].get('Message', '')}", ours, None, status
            ) from error
        except BotoCoreError as error:
            raise RequestRefused(f"Bedrock cannot be reached: {error}", "upstream_error", None, 502) from error


def read_response(response: dict[str, Any], conversation: Conversation) -> tuple[str, str]:
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
    return conversation.shape.read(calls[0]), "stop"
