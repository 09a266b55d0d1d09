"""In: a live server; out: how many of many hostile requests got a 5xx, or no answer at all. Neither may happen.

    python -m loadtests.fuzz --calls 2000 --url http://127.0.0.1:8000 [--seed 0] [--parallel 8]

What is random are the constraints, in every field that takes one, and some of the other fields: random JSON, schemas, patterns and
grammars that are nearly right, Unicode with lone surrogates and NUL, huge and deeply nested values, bytes that are no JSON. Call number
N of a seed is always the same request, and what went wrong is printed with it. Status 0 is no answer. The last
line has "calls", "status_5xx", "hangs".
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from loadtests.report import finish, show
from tests.live_server import LiveServer

PATIENCE_S = 90.0  # a compilation is killed after 30 seconds, and may wait as long for its turn
MOST_DEEP = 20_000
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/guided/compile")
KEYWORDS = [
    "type",
    "const",
    "enum",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "prefixItems",
    "items",
    "contains",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "$ref",
    "$defs",
    "$id",
    "$anchor",
    "$dynamicRef",
    "unevaluatedItems",
    "unevaluatedProperties",
    "format",
    "contentEncoding",
    "nullable",
    "title",
    "x-odd",
]
TYPES = ["string", "integer", "number", "object", "array", "boolean", "null", "strng", 7]
PATTERN_PARTS = [
    *"ab.^$|()[]{}*+?\\-,:=!<>P&#",
    r"\d",
    r"\w",
    r"\b",
    r"\p{Lu}",
    "(?:",
    "(?=",
    "(?P<x>",
    "(?i)",
    "{2,5}",
    "{0,1000}",
    "[^a]",
    "é",
    "😀",
    r"\u00e9",
    r"\1",
]
GRAMMAR_PARTS = [
    "start:",
    "root ::=",
    " a",
    " b",
    '"x"',
    "/[a-z]+/",
    "|",
    "(",
    ")",
    "*",
    "+",
    "?",
    "\n",
    "~3",
    "~0..9",
    "%ignore WS",
    "%import common.WORD",
    "[a-z]",
    "A:",
    "a:",
    "b:",
    "//",
    "</think>",
    '"',
    "\\",
]
LEAST = {"guided_json": {}, "guided_regex": "a", "guided_choice": ["a"], "guided_grammar": 'start: "a"'}


class Draw:
    """Random values from one seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def one(self, *makers: Callable[[], Any]) -> Any:
        return self.random.choice(makers)()

    def text(self) -> str:
        """Any code points, lone surrogates and NUL among them; mostly short."""
        ranges = [
            (0x20, 0x7E),
            (0, 0x1F),
            (0x80, 0x7FF),
            (0xD800, 0xDFFF),
            (0x1F300, 0x1FAFF),
            (0x202A, 0x202E),
            (0xFFF0, 0xFFFF),
        ]
        length = self.random.choice([0, 1, 3, 10, 40])
        return "".join(chr(self.random.randint(*self.random.choice(ranges))) for _ in range(length))

    def number(self) -> Any:
        integers = [0, 1, -1, 7, 2**31, 2**63, -(2**64), 10**30, self.random.randint(-100, 100)]
        return self.random.choice([*integers, 0.5, -0.0, 1e-300, 1.7e308, 3.14])

    def value(self, depth: int = 3) -> Any:
        """Any JSON."""
        flat = [self.text, self.number, lambda: None, lambda: True, lambda: False]
        if depth == 0:
            return self.one(*flat)
        count = self.random.randint(0, 4)
        return self.one(
            *flat,
            lambda: [self.value(depth - 1) for _ in range(count)],
            lambda: {self.text(): self.value(depth - 1) for _ in range(count)},
        )

    def schema(self, depth: int = 4) -> Any:
        """Keywords that exist, at values that fit them about half of the time."""
        if depth == 0 or self.random.random() < 0.1:
            return self.one(
                lambda: {}, lambda: True, lambda: {"type": self.random.choice(TYPES)}, lambda: self.value(1)
            )
        names = self.random.sample(KEYWORDS, self.random.randint(1, 5))
        return {name: self.keyword(name, depth - 1) for name in names}

    def keyword(self, name: str, depth: int) -> Any:
        if self.random.random() < 0.1:
            return self.value(2)
        if name == "type":
            return self.random.choice([*TYPES, self.random.sample(TYPES, 3)])
        if name in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            key = self.pattern if name == "patternProperties" else self.text
            return {key(): self.schema(depth) for _ in range(self.random.randint(0, 3))}
        if name in ("allOf", "anyOf", "oneOf", "prefixItems"):
            return [self.schema(depth) for _ in range(self.random.randint(0, 3))]
        if name in ("required", "enum"):
            return [self.text() if name == "required" else self.value(2) for _ in range(self.random.randint(0, 4))]
        if name == "pattern":
            return self.pattern()
        if name in ("$ref", "$dynamicRef"):
            return self.random.choice(["#", "#/$defs/a", "#/properties/a", "https://example.org/x", "##", "#/~2"])
        if name.startswith(("max", "min", "exclusive", "multiple")):
            return self.number()
        if name in ("format", "contentEncoding", "$id", "$anchor", "title"):
            return self.random.choice(["date", "email", "uuid", "regex", "base64", "http://x", self.text()])
        return self.schema(depth)

    def pattern(self) -> str:
        return "".join(self.random.choice(PATTERN_PARTS) for _ in range(self.random.randint(0, 25)))

    def grammar(self) -> str:
        return "".join(self.random.choice(GRAMMAR_PARTS) for _ in range(self.random.randint(0, 40)))

    def huge(self) -> Any:
        """Large in one way or another, up to about a megabyte."""
        count = self.random.choice([1_000, 10_000, 50_000])
        return self.one(
            lambda: "a" * 20 * count,
            lambda: "(" * count + "a" + ")" * count,
            lambda: [f"choice {i}" for i in range(count)],
            lambda: {"enum": [self.random.random() for _ in range(count // 10)]},
            lambda: {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count // 10)}},
            lambda: {"type": "string", "minLength": count, "maxLength": 10 * count},
            lambda: {"type": "array", "minItems": count, "items": {"type": "integer", "minimum": -count}},
            lambda: f"[a-z]{{{count}}}{{{count}}}",
        )

    def deep(self) -> Any:
        """A marker that `body` replaces: Python itself cannot write what is meant."""
        return {"\x00deep": self.random.choice([50, 500, MOST_DEEP])}

    def constraint(self, field: str) -> Any:
        fitting = {
            "guided_json": self.schema,
            "guided_regex": self.pattern,
            "guided_choice": lambda: [self.text() for _ in range(self.random.randint(0, 5))],
            "guided_grammar": self.grammar,
        }
        return self.one(
            fitting[field], fitting[field], fitting[field], fitting[field], self.value, self.huge, self.deep
        )

    def fields(self) -> dict[str, Any]:
        """A constraint in one of the spellings."""
        field = self.random.choice(list(LEAST))
        value = self.constraint(field)
        schema = self.constraint("guided_json")
        return self.one(
            lambda: {field: value},
            lambda: {field: value},
            lambda: {field: json.dumps(value)},
            lambda: {"structured_outputs": {field.removeprefix("guided_"): value}},
            lambda: {"structured_outputs": self.value()},
            lambda: {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": schema, "strict": True},
                }
            },
            lambda: {"response_format": self.value()},
            lambda: {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}},
            lambda: {
                "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
                "tool_choice": "required",
            },
            lambda: {"tools": self.value(), "tool_choice": self.value(1)},
            lambda: {"guided_json": {}, "guided_whitespace_pattern": self.pattern()},
            lambda: {field: LEAST[field], "guided_options": self.value()},
            lambda: {field: LEAST[field], "guided_decoding_backend": self.value(1)},
            lambda: {field: LEAST[field], "stop": self.value()},
            lambda: {"guided_ref": self.value(1)},
            lambda: {"guided_" + self.text(): value},
        )

    def others(self) -> dict[str, Any]:
        """Fields beside the constraint, mostly none."""
        names = [
            "temperature",
            "top_p",
            "n",
            "seed",
            "stop",
            "logit_bias",
            "logprobs",
            "max_tokens",
            "stream",
            "min_tokens",
            "bad_words",
        ]
        names += [
            "allowed_token_ids",
            "stop_token_ids",
            "prompt_logprobs",
            "repetition_penalty",
            "echo",
            "priority",
            "messages",
            "prompt",
            "input",
        ]
        count = self.random.choice([0, 0, 0, 1, 2])
        return {name: self.value(2) for name in self.random.sample(names, count)}

    def body(self, path: str, model: str) -> bytes:
        prompt = {"/v1/completions": {"prompt": "x"}, "/v1/responses": {"input": "x"}, "/v1/guided/compile": {}}
        budget = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
        request = {"model": model, **prompt.get(path, {"messages": [{"role": "user", "content": "x"}]})}
        if path != "/v1/guided/compile":
            request |= {budget: self.random.choice([1, 4, 40]), "stream": self.random.random() < 0.3}
            request |= self.others()
        text = json.dumps(request | self.fields())
        for depth in (50, 500, MOST_DEEP):
            text = text.replace(json.dumps({"\x00deep": depth}), '{"items":' * depth + "{}" + "}" * depth)
        raw = text.encode()
        if self.random.random() < 0.03:  # bytes that are no JSON
            place = self.random.randrange(len(raw))
            raw = raw[:place] + self.random.randbytes(self.random.randint(0, 3)) + raw[place + 1 :]
        return raw


def request_of(seed: int, number: int, model: str) -> tuple[str, bytes]:
    """Route and body of one call."""
    draw = Draw(f"{seed}/{number}")
    path = draw.random.choice(PATHS)
    return path, draw.body(path, model)


async def call(client: httpx.AsyncClient, server: LiveServer, seed: int, number: int) -> int:
    """The status of one call; 0 where no answer came in time, or none at all."""
    path, body = request_of(seed, number, server.model)
    try:
        async with asyncio.timeout(PATIENCE_S):
            headers = {"Content-Type": "application/json", **server.headers}
            answer = await client.post(f"{server.url}{path}", content=body, headers=headers)
    except (TimeoutError, httpx.HTTPError) as error:
        print(f"call {number}: {error!r}: {path} {body[:300]!r}", file=sys.stderr, flush=True)
        return 0
    if answer.status_code >= 500 or (answer.status_code >= 400 and not _is_openai(answer)):
        print(
            f"call {number}: {answer.status_code} {answer.text[:300]}: {path} {body[:300]!r}",
            file=sys.stderr,
            flush=True,
        )
    return answer.status_code


def _is_openai(answer: httpx.Response) -> bool:
    try:
        return bool(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return False


async def fuzz(server: LiveServer, calls: int, seed: int, parallel: int) -> Counter[int]:
    """Status -> how often."""
    seen: Counter[int] = Counter()
    numbers = iter(range(calls))

    async def worker(client: httpx.AsyncClient) -> None:
        for number in numbers:
            seen[await call(client, server, seed, number)] += 1
            if sum(seen.values()) % 500 == 0:
                print(f"{sum(seen.values())} of {calls}: {dict(seen)}", file=sys.stderr, flush=True)

    async with httpx.AsyncClient(timeout=None) as client:
        await asyncio.gather(*(worker(client) for _ in range(parallel)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=8)
    args = parser.parse_args()
    server = LiveServer.at(args.url)
    seen = asyncio.run(fuzz(server, args.calls, args.seed, args.parallel))
    alive = server.is_healthy()
    show(f"the server is {'alive' if alive else 'gone'}", ["status", "calls"], sorted(seen.items()))
    failed = sum(count for status, count in seen.items() if status >= 500)
    finish({"calls": sum(seen.values()), "status_5xx": failed, "hangs": seen[0]})
    raise SystemExit(0 if alive and not failed and not seen[0] else 1)


if __name__ == "__main__":
    main()
