"""The smallest inputs of faults that users of other servers report, through the whole application: see docs/server-faults.md.

Each gets an answer that obeys it, or a 400 that says why none can; never a 5xx, never free text.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import pytest

from tests.live_server import LiveServer

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 9},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "children"],
        }
    },
}
BOUNDED = {
    "type": "object",
    "properties": {
        **{f"s{n}": {"type": "string", "maxLength": n} for n in (20, 60, 200)},
        **{
            f"l{n}": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": n}
            for n in (5, 10, 15)
        },
    },
    "required": ["s20", "l5"],
}
NOT_X = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 3, "not": {"const": "x"}}},
    "required": ["a"],
    "additionalProperties": False,
}


def complete(gateway: LiveServer, **fields: Any) -> httpx.Response:
    return httpx.post(f"{gateway.url}/v1/completions", json={"prompt": "x", "max_tokens": 200, **fields}, timeout=90)


def obeys(schema: Any) -> Callable[[str], Any]:
    return lambda text: jsonschema.Draft202012Validator(schema).validate(json.loads(text))


def matches(pattern: str) -> Callable[[str], Any]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text, re.DOTALL), text

    return check


ENFORCED: list[tuple[dict[str, Any], Callable[[str], Any]]] = [
    ({"guided_json": {"type": "string", "pattern": r"^\S+@\S+$", "maxLength": 20}}, obeys({"pattern": r"^\S+@\S+$"})),
    ({"guided_json": {"const": {"城市": "奥斯陆"}}}, obeys({"const": {"城市": "奥斯陆"}})),
    ({"guided_json": BOUNDED}, obeys(BOUNDED)),
    ({"guided_json": NOT_X}, obeys(NOT_X)),
    (
        {"guided_json": {"enum": [f"{n:04} " + "x" * 45 for n in range(2000)]}},
        obeys({"type": "string", "minLength": 50}),
    ),
    (
        {"guided_json": {"type": "string", "minLength": 10, "maxLength": 200}},
        obeys({"type": "string", "minLength": 10}),
    ),
    (
        {"guided_json": {"type": "integer", "multipleOf": 7, "minimum": 20, "maximum": 99}},
        obeys({"multipleOf": 7, "minimum": 20}),
    ),
    ({"guided_json": {"type": "boolean"}, "min_tokens": 64}, obeys({"type": "boolean"})),
    ({"guided_json": {"type": ["string", "null"], "maxLength": 5}}, obeys({"type": ["string", "null"]})),
    ({"guided_regex": "(?P<x>ab)c"}, matches("abc")),
    ({"guided_regex": "(?i)yes"}, matches("(?i)yes")),
    ({"guided_json": {"type": "string", "pattern": r"^\p{Lu}{3}$"}}, lambda text: json.loads(text).isupper()),
    ({"guided_regex": r"^hi\!$"}, matches("hi!")),
    ({"guided_choice": ["Pizza", "Pasta"]}, matches("Pizza|Pasta")),
    ({"guided_choice": ["-1", "0", "1"]}, matches("-1|0|1")),
    ({"guided_grammar": 'e ::= n | e "+" e\nn ::= [0-9]\nroot ::= e'}, matches(r"[0-9](\+[0-9])*")),
    ({"guided_grammar": 'start: "x"'}, matches("x")),
    ({"guided_grammar": 'root ::= "a\\\\|b"'}, matches(r"a\\\|b")),
]
REFUSED: list[tuple[dict[str, Any], str, str]] = [  # fields, code, part of the message
    ({"guided_json": {"type": 7}}, "invalid_constraint", "type"),
    ({"guided_json": {"type": "notatype"}}, "invalid_constraint", "notatype"),
    ({"guided_json": {"type": "string", "pattern": "(ab"}}, "invalid_constraint", "pattern"),
    ({"guided_json": {"$ref": "#/$defs/none"}}, "invalid_constraint", "none"),
    ({"guided_json": {"not": {}}}, "unsatisfiable", "guided_json"),
    ({"guided_json": {"enum": []}}, "unsatisfiable", "guided_json"),
    ({"guided_json": {"$ref": "#"}}, "", "guided_json"),
    ({"guided_regex": r"a[^\s\S]b"}, "unsatisfiable", "guided_regex"),
    ({"guided_regex": r"\p{Lu}{3}"}, "invalid_constraint", "column 1"),  # as `re` has it
    ({"guided_regex": "a$b"}, "unsatisfiable", "guided_regex"),
    ({"guided_regex": "x^y"}, "unsatisfiable", "guided_regex"),
    ({"guided_grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000}, "constraint_too_complex", "deep"),
    ({"guided_grammar": "not a grammar of any kind"}, "invalid_constraint", "guided_grammar"),
    ({"guided_choise": ["a", "b"]}, "invalid_constraint", "guided_choice"),
    ({"guided_choice": ["yes", "no"], "ignore_eos": True}, "not_enforced", "ignore_eos"),
]


def first_words(value: Any) -> str:
    return json.dumps(value)[:60] if isinstance(value, dict) else ""


@pytest.mark.parametrize(("fields", "check"), ENFORCED, ids=first_words)
def test_enforced(gateway, fields, check):
    for seed in range(3):
        answer = complete(gateway, seed=seed, **fields)
        assert answer.status_code == 200, answer.text
        (choice,) = answer.json()["choices"]
        assert choice["finish_reason"] == "stop", choice
        check(choice["text"])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("fields", "code", "words"), REFUSED, ids=first_words)
def test_refused(gateway, fields, code, words, stream):
    answer = complete(gateway, stream=stream, **fields)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == code or not code, error
    assert words in error["message"] or words in (error["param"] or ""), error


def test_a_schema_that_calls_itself(gateway):
    answer = complete(gateway, guided_json=TREE)
    assert answer.status_code == 200 and answer.json()["choices"][0]["text"].startswith("{"), answer.text


def test_possessive_quantifiers_are_enforced_or_refused(gateway):
    answer = complete(gateway, guided_regex="a++b", max_tokens=20)
    if answer.status_code == 200:
        matches("a+b")(answer.json()["choices"][0]["text"])
    else:
        assert answer.json()["error"]["param"].startswith("guided_regex")


def test_an_empty_schema_does_not_run_on(gateway):
    answer = complete(gateway, guided_json={}, max_tokens=60)
    assert answer.status_code == 200, answer.text


def test_one_bad_request_leaves_twenty_others_alone(gateway):
    def plain(seed: int) -> int:
        return complete(gateway, max_tokens=50, seed=seed).status_code

    with ThreadPoolExecutor(21) as pool:
        running = [pool.submit(plain, seed) for seed in range(20)]
        assert complete(gateway, guided_grammar="start: (((").status_code == 400
        assert [one.result() for one in running] == [200] * 20


def test_health_answers_while_a_megabyte_compiles_and_is_abandoned(gateway):
    schema = {
        "type": "object",
        "properties": {f"property_{n}": {"type": "string", "title": "x" * 30} for n in range(16_000)},
    }
    body = json.dumps({"prompt": "x", "max_tokens": 5, "guided_json": schema})
    assert len(body) > 1_000_000
    with ThreadPoolExecutor(1) as pool:

        def abandon() -> None:
            with contextlib.suppress(httpx.TimeoutException):
                httpx.post(
                    f"{gateway.url}/v1/completions",
                    content=body,
                    headers={"Content-Type": "application/json"},
                    timeout=1,
                )

        leaving = pool.submit(abandon)
        for _ in range(10):
            assert httpx.get(f"{gateway.url}/health", timeout=30).status_code == 200
            time.sleep(0.05)
        leaving.result()
    answer = complete(gateway, guided_choice=["a", "b"])
    assert answer.json()["choices"][0]["text"] in ("a", "b")


def test_two_samples_are_two_documents(gateway):
    answer = complete(gateway, guided_json=NOT_X, n=2, temperature=1.0)
    for choice in answer.json()["choices"]:
        obeys(NOT_X)(choice["text"])


def test_a_stream_is_the_answer_in_pieces(gateway):
    fields = {"guided_json": BOUNDED, "seed": 5}
    whole = complete(gateway, **fields).json()["choices"][0]["text"]
    lines = complete(gateway, stream=True, **fields).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(event["choices"][0]["text"] for event in events) == whole
