"""In: an OpenAI endpoint; out: how many answers satisfy a schema by asking nicely, by asking up to three times, and by guidance.

    python -m loadtests.compliance [--url http://127.0.0.1:8000] [--requests 20] [--streams 4]

The same prompts for all three, which show the schema and ask for JSON alone. An answer counts where the text as it came is JSON that
satisfies the schema (`jsonschema`, Draft 2020-12). Tokens and seconds are per request, those of failed tries included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jsonschema

from loadtests.first_look import make_serve
from loadtests.report import finish, show
from tests.live_server import LiveServer

TRIES = 3
MAX_TOKENS = 220
# Published for such a comparison: percent of valid answers, simple and complex schemas.
PUBLISHED_PERCENT = {"prompt only": (72, 31), "retry": (94, 78), "guided": (100, 100)}
SIMPLE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "degrees": {"type": "integer"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "degrees", "unit"],
    "additionalProperties": False,
}
COMPLEX = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 30}, "vip": {"type": "boolean"}},
            "required": ["name", "vip"],
            "additionalProperties": False,
        },
        "lines": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "pattern": "^[a-z0-9]{6}$"},
                    "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
                    "price": {"type": "number", "minimum": 0},
                },
                "required": ["sku", "quantity", "price"],
                "additionalProperties": False,
            },
        },
        "status": {"enum": ["open", "paid", "shipped"]},
        "placed": {"type": "string", "format": "date"},
    },
    "required": ["id", "customer", "lines", "status", "placed"],
    "additionalProperties": False,
}
TOPICS = [
    "Oslo in January",
    "a cold day in Lima",
    "Cairo at noon",
    "rain in Bergen",
    "a warm night in Rome",
    "Quito",
    "Perth in May",
    "fog in Delft",
]
TASKS: dict[str, tuple[dict[str, Any], str]] = {
    "simple": (SIMPLE, "Report the weather of {topic}."),
    "complex": (COMPLEX, "Invent an order of camping gear by a customer from {topic}."),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    valid: bool
    tokens: int
    seconds: float
    tries: int


def ask(server: LiveServer, task: str, seed: int, **fields: Any) -> tuple[str, int]:
    schema, text = TASKS[task]
    prompt = text.format(topic=TOPICS[seed % len(TOPICS)])
    content = (
        f"{prompt} Answer with JSON only, without any other text, that satisfies this JSON Schema: {json.dumps(schema)}"
    )
    made = server.client.chat.completions.create(
        model=server.model,
        messages=[{"role": "user", "content": content}],
        max_tokens=MAX_TOKENS,
        temperature=0.7,
        seed=seed,
        extra_body=fields or None,
    )
    assert made.usage is not None
    return made.choices[0].message.content or "", made.usage.completion_tokens


def is_valid(text: str, schema: dict[str, Any]) -> bool:
    try:
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        jsonschema.validate(json.loads(text), schema, format_checker=checker)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def until_valid(server: LiveServer, task: str, seed: int, tries: int, **fields: Any) -> Outcome:
    begin, tokens = time.perf_counter(), 0
    for number in range(tries):
        text, used = ask(server, task, seed + 1000 * number, **fields)
        tokens += used
        if is_valid(text, TASKS[task][0]):
            return Outcome(True, tokens, time.perf_counter() - begin, number + 1)
    return Outcome(False, tokens, time.perf_counter() - begin, tries)


def until_guided(server: LiveServer, task: str, seed: int) -> Outcome:
    return until_valid(server, task, seed, 1, structured_outputs={"json": TASKS[task][0]})  # which plain vLLM reads too


METHODS: dict[str, Callable[[LiveServer, str, int], Outcome]] = {
    "prompt only": lambda server, task, seed: until_valid(server, task, seed, 1),
    "retry": lambda server, task, seed: until_valid(server, task, seed, TRIES),
    "guided": until_guided,
}


def measure(server: LiveServer, requests: int, streams: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rows = []
    for task in TASKS:
        until_guided(server, task, 0)  # the index is there before the clock starts
        for method, run in METHODS.items():
            print(f"{task}, {method}", file=sys.stderr, flush=True)
            with ThreadPoolExecutor(streams) as pool:
                found = list(pool.map(lambda seed, run=run, task=task: run(server, task, seed), range(requests)))
            kept = {
                "valid_percent": round(100 * sum(f.valid for f in found) / requests, 1),
                "tokens": round(sum(f.tokens for f in found) / requests, 1),
                "seconds": round(sum(f.seconds for f in found) / requests, 2),
                "tries": round(sum(f.tries for f in found) / requests, 2),
            }
            figures.setdefault(task, {})[method] = kept
            rows.append([f"{task}, {method}", *kept.values(), PUBLISHED_PERCENT[method][task == "complex"]])
    show(f"{requests} requests each", ["schema, method", "valid %", "tokens", "seconds", "tries", "published %"], rows)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that is running; without it `make serve` is started and stopped")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--streams", type=int, default=4)
    args = parser.parse_args()
    if args.url:
        figures = measure(LiveServer.at(args.url), args.requests, args.streams)
    else:
        with make_serve() as server:
            figures = measure(server, args.requests, args.streams)
    finish({"schemas": figures, "requests": args.requests})


if __name__ == "__main__":
    main()
