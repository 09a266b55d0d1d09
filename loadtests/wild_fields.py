"""In: a live server; out: what it answered to every field of every route at values that nobody would send, and to bodies that are none.

    python -m loadtests.wild_fields --url http://127.0.0.1:8000 [--parallel 16] [--only FIELD] [--every 1]

Each field of vLLM's request models and of ours is sent at each of VALUES, alone beside an ordinary request, and some within messages, tools
and options; then come bodies that are broken or too large, clients that hang up at a random moment, and many clients at a time, each with a
key that the server does not know. A 5xx other than 503, an answer that is no answer of OpenAI's, a stack trace, and an answer that takes
longer than PATIENCE_S are faults, and printed. The last line has "calls", "faults", "hangs", "status_5xx".
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx

from loadtests.report import finish, show
from tests.live_server import LiveServer

PATIENCE_S = 120.0
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES = [{"role": "user", "content": "x"}]
ORDINARY: dict[str, dict[str, Any]] = {
    CHAT: {"messages": MESSAGES, "max_tokens": 2},
    TEXT: {"prompt": "x", "max_tokens": 2},
    RESPONSES: {"input": "x", "max_output_tokens": 2},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [1]},
    "/v1/guided/compile": {"guided_regex": "a"},
    "/v1/guided/plot": {"guided_regex": "a"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 2},
    "/invocations": {"messages": MESSAGES, "max_tokens": 2},
}
DEEP: Any = "deep"
for _ in range(300):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308,
    "", "x", "\x00", "\ud800", "\U0010ffff" * 9, "x" * 100_000, "null", "1", "NaN",
    [], [None], [0], [-1], [2**40], [1.5], [""], ["x"], ["\ud800"], [[]], [{}], [True], ["x"] * 5000, list(range(3000)),
    {}, {"": None}, {"x": 1}, {"\x00": "\ud800"}, {"type": "x"}, {"type": None}, {"type": {}}, {"0": 1e308}, {"-1": 1}, DEEP,
)  # fmt: skip
NOT_JSON = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b'{"a":1,"a":2}',
    b'"\\ud800"',
    b'"\\u0000"',
    b"[" * 400 + b"]" * 400,
)


def fields(path: str) -> list[str]:
    """The names of all fields that anybody reads on this route."""
    from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
    from vllm.entrypoints.serve.tokenize.protocol import (
        DetokenizeRequest,
        TokenizeChatRequest,
        TokenizeCompletionRequest,
    )

    from server.guided_fields import FIELDS
    from server.request_fields import INSTEAD, MODELS

    models: dict[str, list[Any]] = {
        "/tokenize": [TokenizeChatRequest, TokenizeCompletionRequest],
        "/detokenize": [DetokenizeRequest],
        "/v1/messages": [AnthropicMessagesRequest],
        **{path: [model] for path, model in MODELS.items()},
    }
    of_vllm = {name for model in models.get(path, MODELS.values()) for name in model.model_fields}
    return sorted({*of_vllm, *FIELDS, *INSTEAD, "structured_outputs", "response_format", "tools", "tool_choice"})


def inner(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Places within a request that have a form of their own: route, fields."""
    yield CHAT, {"messages": [value]}
    for name in ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning", "refusal", "function_call"):
        yield CHAT, {"messages": [{"role": "assistant", "content": "x", name: value}, *MESSAGES]}
    for part in ({"type": "text", "text": value}, {"type": "image_url", "image_url": value}, {"type": value}, value):
        yield CHAT, {"messages": [{"role": "user", "content": [part]}]}
        yield RESPONSES, {"input": [{"role": "user", "content": [part]}]}
    for name in ("type", "function", "custom"):
        yield CHAT, {"tools": [{"type": "function", "function": {"name": "f"}, name: value}], "tool_choice": "required"}
    for name in ("name", "description", "parameters", "strict"):
        function = {"name": "f", name: value}
        yield CHAT, {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
        yield RESPONSES, {"tools": [{"type": "function", **function}], "tool_choice": "required"}
    for name in ("type", "name", "arguments", "call_id", "output", "input", "content", "summary", "status", "id"):
        for kind in ("message", "function_call", "function_call_output", "custom_tool_call", "reasoning"):
            yield RESPONSES, {"input": [{"type": kind, name: value}]}
    for name in ("name", "schema", "strict", "description"):
        wanted = {"name": "x", "schema": {"type": "boolean"}, name: value}
        yield CHAT, {"response_format": {"type": "json_schema", "json_schema": wanted}}
        yield RESPONSES, {"text": {"format": {"type": "json_schema", **wanted}}}
    for name in (
        "whitespace",
        "whitespace_pattern",
        "additional_properties",
        "property_order",
        "escapes",
        "after",
        "report",
    ):
        yield TEXT, {"guided_json": {"type": "boolean"}, "guided_options": {name: value}}
    for name in ("json", "regex", "choice", "grammar", "json_object", "structural_tag", "disable_fallback", "_backend"):
        yield TEXT, {"structured_outputs": {name: value}}
    for name in ("include_usage", "continuous_usage_stats"):
        yield CHAT, {"stream": True, "stream_options": {name: value}}
    yield CHAT, {"logit_bias": {"1": value}}
    yield CHAT, {"chat_template_kwargs": {"messages": value}}
    yield CHAT, {"vllm_xargs": {"x": value}}
    for kind in ("guided_json", "guided_regex", "guided_choice", "guided_grammar"):
        for backend in ("xgrammar", "guidance", "outlines", "auto"):
            yield TEXT, {kind: value, "guided_decoding_backend": backend}


def calls(model: str) -> Iterator[tuple[str, bytes]]:
    """Routes and bodies."""
    for path, ordinary in ORDINARY.items():
        for name in fields(path):
            for value in VALUES:
                yield path, json.dumps({"model": model, **ordinary, name: value}).encode()
            for raw in NOT_JSON:
                rest = json.dumps({"model": model, **{n: v for n, v in ordinary.items() if n != name}})
                yield path, rest[:-1].encode() + b', "' + name.encode() + b'": ' + raw + b"}"
        whole = json.dumps({"model": model, **ordinary}).encode()
        for body in (
            b"",
            b"\x00",
            b"\xff" * 9,
            whole[:-1],
            whole + b"}",
            b"[" * 10**6,
            whole[:-1] + b', "x": "' + b"y" * 10**7 + b'"}',
        ):
            yield path, body
    for value in VALUES:
        for path, changed in inner(value):
            yield path, json.dumps({"model": model, **ORDINARY[path], **changed}).encode()


def fault(answer: httpx.Response) -> str | None:
    """What is wrong with an answer, if anything is."""
    status, text = answer.status_code, answer.text
    if "Traceback" in text or "site-packages" in text:
        return "a stack trace"
    if status >= 500 and status != 503:
        return f"status {status}"
    if status < 400:
        return "an error within the stream" if '"code": "internal_error"' in text else None
    try:
        error = answer.json()["error"]
        return None if error["message"].strip() and isinstance(error["code"], str) else "an empty error"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "no error of OpenAI's"


class Attack:
    """Counts what came back."""

    def __init__(self, server: LiveServer, client: httpx.AsyncClient) -> None:
        self.server, self.client = server, client
        self.statuses: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()

    async def send(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                all_headers = {"Content-Type": "application/json", **self.server.headers, **(headers or {})}
                answer = await self.client.post(f"{self.server.url}{path}", content=body, headers=all_headers)
        except TimeoutError:
            self._count("no answer in time", 0, path, body, "")
            return
        except httpx.HTTPError as error:  # a body that is too large may be cut off before it is sent
            wrong = None if len(body) > 8 << 20 else repr(error)
            self._count(wrong, -1, path, body, "")
            return
        self._count(fault(answer), answer.status_code, path, body, answer.text)

    def _count(self, wrong: str | None, status: int, path: str, body: bytes, text: str) -> None:
        self.statuses[status] += 1
        if wrong is not None:
            self.faults[wrong] += 1
            print(f"{wrong}: {path} {body[:400]!r} -> {text[:300]}", file=sys.stderr, flush=True)

    async def hang_up(self, draw: random.Random) -> None:
        """Sends a request and leaves at any time."""
        path = draw.choice([CHAT, TEXT, RESPONSES])
        budget = "max_output_tokens" if path == RESPONSES else "max_tokens"
        constraint: dict[str, Any] = draw.choice([{}, {"guided_regex": f"[a-z]{{{draw.randint(50, 400)}}}"}])
        body = {"model": self.server.model, **ORDINARY[path], budget: 500, "stream": draw.random() < 0.7, **constraint}
        try:
            async with asyncio.timeout(draw.random() ** 3 * 5):
                await self.client.post(f"{self.server.url}{path}", json=body, headers=self.server.headers)
        except (TimeoutError, httpx.HTTPError):
            pass
        self.statuses[-2] += 1

    async def with_many_keys(self, clients: int) -> None:
        body = json.dumps({"model": self.server.model, **ORDINARY[TEXT], "guided_choice": ["a", "b"]}).encode()
        keys = ({"Authorization": f"Bearer key-{number}"} for number in range(clients))
        await asyncio.gather(*(self.send(TEXT, body, key) for key in keys))


async def attack(server: LiveServer, parallel: int, only: str | None, every: int) -> Attack:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:
        made = Attack(server, client)
        chosen = (one for one in calls(server.model) if only is None or f'"{only}"'.encode() in one[1])
        waiting = itertools.islice(chosen, 0, None, every)

        async def worker() -> None:
            for path, body in waiting:
                await made.send(path, body)
                if sum(made.statuses.values()) % 2000 == 0:
                    print(f"{dict(made.statuses)}", file=sys.stderr, flush=True)

        await asyncio.gather(*(worker() for _ in range(parallel)))
        if only is None:
            draw = random.Random(0)
            for _ in range(10):
                await asyncio.gather(*(made.hang_up(draw) for _ in range(20)))
            await made.with_many_keys(200)
        return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--only", help="one field")
    parser.add_argument(
        "--every", type=int, default=1, help="of so many calls one is made; a prime leaves none of the values out"
    )
    args = parser.parse_args()
    server = LiveServer.at(args.url)
    made = asyncio.run(attack(server, args.parallel, args.only, args.every))
    show("-2: left early, -1: connection closed, 0: no answer", ["status", "calls"], sorted(made.statuses.items()))
    alive = server.is_healthy()
    failed = sum(count for status, count in made.statuses.items() if status >= 500 and status != 503)
    figures = {"calls": sum(made.statuses.values()), "faults": sum(made.faults.values()), "hangs": made.statuses[0]}
    finish(figures | {"status_5xx": failed, "alive": alive})
    raise SystemExit(0 if alive and not made.faults else 1)


if __name__ == "__main__":
    main()
