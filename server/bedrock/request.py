"""In: the JSON body of an OpenAI chat request; out: the arguments of Bedrock's Converse, or a refusal by name. Calls nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guided.constraint import Constraint
from server.bedrock.checker import CallersChecker
from server.bedrock.schema import Shape, shape_of
from server.enforcement import read_constraint, without_constraint
from server.errors import RequestRefused
from server.guided_fields import REFERENCE
from server.without_effect import WITHOUT_EFFECT

TOOL = "answer"
ONLY = {"n": 1, "logprobs": False, "frequency_penalty": 0, "presence_penalty": 0, "tool_choice": "none", "best_of": 1}
KNOWN = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "stream",
        "stream_options",
    }
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One request, ready for Bedrock.

    Attributes:
        model: the name that the client gave.
        arguments: of `converse`, all but modelId.
        shape: what the answer has to look like; None for plain text.
        kind: of the constraint, or "none"; for the log.
        digest: of the constraint, or None.
        stream, with_usage: how the client wants the answer.
    """

    model: str
    arguments: dict[str, Any]
    shape: Shape | None
    kind: str
    digest: str | None
    stream: bool
    with_usage: bool

    def cache_key(self, model_id: str | None) -> str | None:
        """Equal for requests that must have equal answers; None where the answer is left to chance.

        The constraint counts beside the tool that is made of it: a list of choices and a schema may ask for equal tools, and their
        answers are written differently.

        Args:
            model_id: what answers under the model's name today.
        """
        if self.arguments["inferenceConfig"].get("temperature") != 0:
            return None
        text = json.dumps([self.model, model_id, self.digest, self.arguments], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


async def read_request(
    body: Mapping[str, Any], checker: CallersChecker, *, max_tokens: int, strict: bool
) -> Conversation:
    """Raises RequestRefused: a field that Bedrock cannot honour, or a malformed one. Nothing is dropped."""
    _refuse_guided(body)
    wanted = read_constraint(body)
    plain = without_constraint(body)
    plain.pop("response_format", None)
    _refuse_unknown(plain)
    system, messages = _messages(plain.get("messages"))
    arguments: dict[str, Any] = {"messages": messages, "inferenceConfig": _inference(plain, max_tokens)}
    if system:
        arguments["system"] = system
    shape = None
    if wanted is not None:
        _refuse_around(wanted.constraint)
        shape = await shape_of(wanted.constraint, wanted.field, checker)
        arguments["toolConfig"] = _tool(shape, strict)
    stream = bool(_typed(plain, "stream", bool))
    return Conversation(
        model=_typed(plain, "model", str) or "",
        arguments=arguments,
        shape=shape,
        kind=wanted.constraint.kind if wanted else "none",
        digest=wanted.constraint.digest if wanted else None,
        stream=stream,
        with_usage=_with_usage(plain.get("stream_options"), stream),
    )


def _refuse_guided(body: Mapping[str, Any]) -> None:
    """What the gateway on vLLM honours around a constraint and this one cannot. Any `whitespace` and `escapes` fit what it writes."""
    options = body.get("guided_options")
    options = options if isinstance(options, Mapping) else {}
    cannot = {
        REFERENCE: (body.get(REFERENCE) is not None, "send the constraint"),
        "guided_decoding_backend": (body.get("guided_decoding_backend") not in (None, "guided"), "there is no vLLM"),
        "guided_options.report": (options.get("report") is True, "there are no masks to report of"),
        "guided_options.fit_budget": (options.get("fit_budget") is False, "half an answer would not be valid"),
        "guided_options.property_order": (options.get("property_order") == "schema", "the order is the model's"),
    }
    for field, (is_asked, why) in cannot.items():
        if is_asked:
            raise RequestRefused(f"{field} is not supported on Bedrock: {why}", "not_enforced", field)


def _with_usage(options: Any, stream: bool) -> bool:
    if options is None:
        return False
    if not isinstance(options, Mapping):
        raise RequestRefused("stream_options must be an object", "invalid_type", "stream_options")
    if not stream:
        raise RequestRefused("stream_options needs stream: true beside it", "invalid_value", "stream_options")
    for name, value in options.items():
        field = f"stream_options.{name}"
        if name != "include_usage":
            raise RequestRefused(f"{field} is not supported on Bedrock", "unsupported_parameter", field)
        if value is not None and not isinstance(value, bool):
            raise RequestRefused(f"{field} must be true or false", "invalid_type", field)
    return options.get("include_usage") is True


def _refuse_around(constraint: Constraint) -> None:
    """What has to hold around or all over the answer can be enforced where logits are masked, but not in a tool's input."""
    for option, param in (("avoid", "stop"), ("after", "guided_options.after")):
        if option in constraint.options:
            raise RequestRefused(f"{param} beside a constraint is not supported on Bedrock", "not_enforced", param)


def _tool(shape: Shape, strict: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": TOOL,
        "description": "Gives the answer to the user in the form that is asked for.",
        "inputSchema": {"json": shape.tool_schema},
    }
    if strict:
        spec["strict"] = True
    return {"tools": [{"toolSpec": spec}], "toolChoice": {"tool": {"name": TOOL}}}


def _refuse_unknown(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name in KNOWN or name in WITHOUT_EFFECT or value is None or value == ONLY.get(name, ...):
            continue
        raise RequestRefused(f"{name} {value!r} is not supported on Bedrock"[:300], "unsupported_parameter", name)


def _inference(body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    asked = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    if any(isinstance(value, bool) or not isinstance(value, int) for value in asked):
        raise RequestRefused("max_tokens must be an integer", "invalid_type", "max_tokens")
    if any(value < 1 for value in asked) or len(set(asked)) > 1:
        message = "max_tokens must be positive, and max_completion_tokens the same where both are there"
        raise RequestRefused(message, "invalid_value", "max_tokens")
    config: dict[str, Any] = {"maxTokens": asked[0] if asked else max_tokens}
    for name, theirs, most in (("temperature", "temperature", 2), ("top_p", "topP", 1)):
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RequestRefused(f"{name} must be a number", "invalid_type", name)
        if not 0 <= value <= most:
            raise RequestRefused(f"{name} must be a number from 0 to {most}", "invalid_value", name)
        if value > 1:
            raise RequestRefused(f"{name} above 1 is not supported on Bedrock", "unsupported_parameter", name)
        config[theirs] = value
    stop = body.get("stop")
    if stop is not None:
        stops = [stop] if isinstance(stop, str) else stop
        if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in stops):
            raise RequestRefused("stop must be a string or a list of strings", "invalid_type", "stop")
        config["stopSequences"] = stops
    return config


def _messages(messages: Any) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Bedrock's system texts and turns. Neighbours of one role become one turn, as Converse wants them to alternate."""
    if messages is None:
        raise RequestRefused("messages is missing", "missing_required_parameter", "messages")
    if not isinstance(messages, list):
        raise RequestRefused("messages must be an array", "invalid_type", "messages")
    system: list[dict[str, str]] = []
    turns: list[dict[str, Any]] = []
    for position, message in enumerate(messages):
        place = f"messages#/{position}"
        if not isinstance(message, Mapping):
            raise RequestRefused(f"{place} must be an object", "invalid_type", place)
        _refuse_beside_text(message, place)
        role, texts = message.get("role"), _texts(message.get("content"), f"{place}/content")
        if role in ("system", "developer"):
            system += texts
        elif role not in ("user", "assistant"):
            place += "/role"
            raise RequestRefused(f"{place}: {role!r} is not supported on Bedrock", "unsupported_parameter", place)
        elif turns and turns[-1]["role"] == role:
            turns[-1]["content"] += texts
        else:
            turns.append({"role": role, "content": texts})
    if not turns or turns[0]["role"] != "user":
        raise RequestRefused("the first message after the system's must be the user's", "invalid_value", "messages")
    return system, turns


def _refuse_beside_text(message: Mapping[str, Any], place: str) -> None:
    """Names and calls of tools are no part of Converse's turns of text."""
    for name, value in message.items():
        if name not in ("role", "content") and value is not None:
            field = f"{place}/{name}"
            raise RequestRefused(f"{field} is not supported on Bedrock", "unsupported_parameter", field)


def _texts(content: Any, place: str) -> list[dict[str, str]]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not parts:
        raise RequestRefused(f"{place} must be text or a list of parts", "invalid_type", place)
    for part in parts:
        if not (isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)):
            message = f"{place}: only parts of type text are supported on Bedrock"
            raise RequestRefused(message, "unsupported_parameter", place)
        if not part["text"].strip():
            raise RequestRefused(f"{place} must not be blank: Bedrock refuses blank texts", "invalid_value", place)
    return [{"text": part["text"]} for part in parts]


def _typed(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if value is not None and not isinstance(value, kind):
        raise RequestRefused(f"{name} must be of type {kind.__name__}", "invalid_type", name)
    return value
