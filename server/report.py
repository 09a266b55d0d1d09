"""In: a request that asks for a report (`guided_options.report`), and its response; out: the response with a `guided` object in it.

vLLM's serving layer writes the response, so the object is put into its JSON on the way out: beside `choices` and `usage`, or into the
chunk of a stream that says how the answer finished.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from starlette.types import Message, Send
from vllm.outputs import RequestOutput

from guided.vllm_adapters.reports import Reports
from server.errors import RequestRefused
from server.observation import Observation

FIELD = "guided"  # of the response


@dataclass(slots=True)
class Report:
    """What there is to tell of one constrained answer.

    Attributes:
        seen: the request, whose constraint has been obtained.
        name: under which the worker reports; not the request's id, which is the client's to choose.
        tokens: of the answer, the stop token included; None until it is there. By then `seen.measured` is too, if the worker can tell.
    """

    seen: Observation
    tokens: int | None = None
    name: str = field(default_factory=lambda: uuid4().hex)

    async def filled(
        self, outputs: AsyncGenerator[RequestOutput, None], reports: Reports, *, deltas: bool
    ) -> AsyncGenerator[RequestOutput, None]:
        """Passes outputs on; the last one waits until the worker has told what it measured, so that the response can.

        Args:
            deltas: each output holds the tokens since the last one, not all of them.
        """
        tokens = 0
        async with aclosing(outputs):
            async for output in outputs:
                (sample,) = output.outputs
                tokens = len(sample.token_ids) + (tokens if deltas else 0)
                if output.finished:
                    self.tokens = tokens
                    self.seen.measured = await reports.read(self.name, tokens)
                yield output

    def body(self) -> dict[str, Any]:
        """The `guided` object of the response."""
        obtained, measured = self.seen.obtained, self.seen.measured
        assert obtained is not None
        found = {
            "constraint": obtained.digest,
            "cache": obtained.tier,
            "compile_ms": round(1000 * (obtained.end - obtained.begin), 3),
            "tokens": self.tokens,
        }
        if measured is None:
            return found | dict.fromkeys(("states", "forced_tokens", "mass", "token_mass", "token_allowed"))
        return found | {
            "states": measured.states,
            "forced_tokens": measured.forced,
            "mass": {"mean": measured.mean, "min": measured.least},
            "token_mass": [float(f"{value:.4g}") for value in measured.mass],
            "token_allowed": measured.allowed,
        }


def refuse_several_answers(body: Mapping[str, Any]) -> None:
    """Raises RequestRefused where the request has more than one answer: a report is of one."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)
    for name, wrong in (("n", (body.get("n") or 1) != 1), ("prompt", several)):
        if wrong:
            message = f"guided_options.report is of one answer, and {name} asks for several"
            raise RequestRefused(message, "invalid_constraint", name)


def reporting(send: Send, report: Report) -> Send:
    """A `send` that puts the report into a JSON response, or into the last chunk of a stream of events."""
    start: Message | None = None  # of a JSON response: held back until its length is known
    held = bytearray()

    async def json_response(message: Message) -> None:
        assert start is not None
        held.extend(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = bytes(held)
        if report.tokens is not None:
            body = json.dumps({**json.loads(body), FIELD: report.body()}, ensure_ascii=False).encode()
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({**message, "body": body})

    async def passed(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"")
            if kind.startswith(b"application/json") and message["status"] < 400:
                start = message
                return
        elif start is not None:
            await json_response(message)
            return
        elif report.tokens is not None:
            message = {**message, "body": _with_report(message.get("body", b""), report)}
        await send(message)

    return passed


def _with_report(events: bytes, report: Report) -> bytes:
    """The report in whichever of these events says how the answer finished."""
    lines = events.split(b"\n")
    for number, line in enumerate(lines):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        choices = event.get("choices") or ()
        if any(choice.get("finish_reason") for choice in choices):
            event[FIELD] = report.body()
        elif event.get("type") == "response.completed":
            event["response"][FIELD] = report.body()
        else:
            continue
        lines[number] = b"data: " + json.dumps(event, ensure_ascii=False).encode()
    return b"\n".join(lines)
