"""In: a live server and a case; out: the finished answers, by every way in which a client can ask."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.engine.cases import Case
from tests.live_server import LiveServer

One, Found = TypeVar("One"), TypeVar("Found")

PARALLEL = 16
MAX_TOKENS = 250  # enough for nearly every answer to finish at temperature 1


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    finish_reason: str | None


def chat(server: LiveServer, prompt: str | Case, *, stream: bool = False, **options: Any) -> Answer:
    """/v1/chat/completions through the official client."""
    messages: Any = prompt.messages if isinstance(prompt, Case) else [{"role": "user", "content": prompt}]
    made: Any = server.client.chat.completions.create(model=server.model, messages=messages, stream=stream, **options)
    if not stream:
        return Answer(made.choices[0].message.content, made.choices[0].finish_reason)
    chunks = [chunk.choices[0] for chunk in made if chunk.choices]
    return Answer("".join(c.delta.content or "" for c in chunks), chunks[-1].finish_reason)


def complete(server: LiveServer, prompt: str | Case, *, stream: bool = False, **options: Any) -> Answer:
    """/v1/completions through the official client."""
    text = prompt.text if isinstance(prompt, Case) else prompt
    made: Any = server.client.completions.create(model=server.model, prompt=text, stream=stream, **options)
    if not stream:
        return Answer(made.choices[0].text, made.choices[0].finish_reason)
    chunks = [chunk.choices[0] for chunk in made if chunk.choices]
    return Answer("".join(c.text for c in chunks), chunks[-1].finish_reason)


def ask(server: LiveServer, case: Case, seed: int) -> Answer:
    """One answer at temperature 1; the seed also decides the endpoint and whether it is streamed."""
    way = chat if seed % 2 else complete
    options = {"temperature": 1.0, "seed": seed, "max_tokens": MAX_TOKENS, "extra_body": case.fields}
    return way(server, case, stream=seed % 4 >= 2, **options)


def together(ask: Callable[[One], Found], asked: Iterable[One]) -> list[Found]:
    """What `ask` returns for each, all at the same time, since the engine answers many as fast as one. An error says what was asked."""

    def one(what: One) -> Found:
        try:
            return ask(what)
        except BaseException as error:
            error.add_note(f"asked for: {what!r}")
            raise

    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(one, asked))


def curl(server: LiveServer, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and raw answer of a POST with the curl program."""
    command = ["curl", "-sS", "-m", "300", "-w", "\n%{http_code}", f"{server.url}{path}"]
    command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer, _, status = done.stdout.rpartition("\n")
    return int(status), answer
