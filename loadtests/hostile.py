"""In: a seed and a number; out: a hostile request, the same one every time. Sends nothing: see `loadtests.fuzz`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

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
MARKS = ["<a>", "</a>", "<", "", "</think>", "<tool_call>", "\n", "é"]
FIELDS_OF = {  # a format -> what it has to have
    "any_text": [],
    "const_string": ["value"],
    "json_schema": ["json_schema"],
    "regex": ["pattern"],
    "grammar": ["grammar"],
    "sequence": ["elements"],
    "or": ["elements"],
    "optional": ["content"],
    "star": ["content"],
    "plus": ["content"],
    "repeat": ["content", "min", "max"],
    "tag": ["begin", "content", "end"],
    "triggered_tags": ["triggers", "tags"],
    "tags_with_separator": ["tags", "separator"],
    "dispatch": ["rules"],
    "json_string": ["content"],
    "token": ["token"],
    "exclude_token": ["token"],
}
BACKENDS = ["guided", "xgrammar", "guidance", "outlines", "auto"]
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

    def mark(self) -> Any:
        return self.text() if self.random.random() < 0.1 else self.random.choice(MARKS)

    def format(self, depth: int = 3) -> Any:
        """Of a structural tag: a kind that exists, mostly, with fields of its own and some of others."""
        if depth == 0 or self.random.random() < 0.05:
            return self.one(lambda: {"type": "any_text"}, lambda: self.value(1))
        inner = depth - 1
        makers: dict[str, Callable[[], Any]] = {
            "value": self.mark,
            "json_schema": self.schema,
            "pattern": self.pattern,
            "grammar": self.grammar,
            "elements": lambda: [self.format(inner) for _ in range(self.random.randint(0, 3))],
            "content": lambda: self.format(inner),
            "begin": self.mark,
            "end": lambda: self.one(self.mark, lambda: [self.mark(), self.mark()]),
            "triggers": lambda: [self.mark() for _ in range(self.random.randint(0, 2))],
            "tags": lambda: [self.tag(inner) for _ in range(self.random.randint(0, 3))],
            "separator": self.mark,
            "rules": lambda: [[self.mark(), self.format(inner)] for _ in range(self.random.randint(0, 2))],
            "token": self.mark,
        }
        rare: dict[str, Callable[[], Any]] = {
            "excludes": lambda: [self.mark()],
            "min": self.number,
            "max": self.number,
            "loop": lambda: True,
            "at_least_one": lambda: True,
            "stop_after_first": lambda: True,
            "style": lambda: self.random.choice(["json", "qwen_xml", "glm_xml", "odd"]),
        }
        kind = self.random.choice(list(FIELDS_OF))
        wanted = FIELDS_OF[kind]
        extra = self.random.sample(list(rare), self.random.choice([0, 0, 1, 2]))
        return {"type": kind} | {name: (makers | rare)[name]() for name in [*wanted, *extra]}

    def tag(self, depth: int = 2) -> Any:
        return {"type": "tag", "begin": self.mark(), "content": self.format(depth), "end": self.mark()}

    def structural_tag(self) -> Any:
        """In one of the two forms of vLLM."""
        structures = [{"begin": self.mark(), "schema": self.schema(2), "end": self.mark()}]
        return self.one(
            lambda: {"type": "structural_tag", "format": self.format()},
            lambda: {"type": "structural_tag", "structures": structures, "triggers": [self.mark()]},
        )

    def custom_tool(self) -> Any:
        """A tool whose input obeys a grammar, in the form of chat or of /v1/responses."""
        syntax = self.random.choice(["lark", "regex", "gbnf", self.value(0)])
        text = self.one(self.grammar, self.pattern, self.huge, lambda: self.value(1))
        grammar = {"syntax": syntax, "definition": text}
        chat = {"name": "f", "format": {"type": "grammar", "grammar": grammar}}
        return self.one(
            lambda: {"type": "custom", "custom": chat},
            lambda: {"type": "custom", "name": "f", "format": {"type": "grammar", **grammar}},
        )

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
            lambda: {
                field: LEAST[field],
                "guided_options": {"after": self.one(self.mark, self.text, lambda: self.value(1))},
            },
            lambda: {field: value, "guided_options": {"after": self.mark()}},
            lambda: {field: LEAST[field], "guided_decoding_backend": self.value(1)},
            lambda: {field: value, "guided_decoding_backend": self.random.choice(BACKENDS)},
            lambda: {field: LEAST[field], "guided_decoding_backend": self.random.choice(BACKENDS)},
            lambda: {"response_format": self.structural_tag()},
            lambda: {"structured_outputs": {"structural_tag": self.one(self.structural_tag, self.value, self.huge)}},
            lambda: {"tools": [self.custom_tool()], "tool_choice": self.random.choice(["required", "auto"])},
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
