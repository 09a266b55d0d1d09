"""Out: constraints whose answers are longer than a test lets them be, and whether a text begins such an answer. Knows no server.

They are written as `structured_outputs`, which this server and plain `vllm serve` both read; the latter drops `guided_*` without a word.
The grammar is GBNF, which both take as it is: vLLM translates Lark first, and not all of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
from pydantic_core import from_json

WORDS = [f"{first}{second} " for first in ("red", "blue", "grey", "pale") for second in ("stone", "water", "cloud")]
CHOICES = [word * 400 for word in WORDS]
LETTERS = r"[A-Za-z ,.']{800,4000}"
TEXT = {"type": "string"}
LONG_TEXT = {
    "type": "object",
    "properties": {"text": {**TEXT, "minLength": 1000}},
    "required": ["text"],
    "additionalProperties": False,
}
NESTED = 'root ::= item ("," item)*\nitem ::= "(" root ")" | [a-z]{2,12}'
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "choice": {"choice": CHOICES},
    "regex": {"regex": LETTERS},
    "json": {"json": LONG_TEXT},
    "grammar": {"grammar": NESTED},
}


def begins_an_answer(kind: str, text: str) -> bool:
    """Can the text be continued to what the constraint of that kind allows? Read without the code that enforces it."""
    if kind == "choice":
        return any(choice.startswith(text) for choice in CHOICES)
    if kind == "regex":
        return re.fullmatch(r"[A-Za-z ,.']{0,4000}", text) is not None
    if kind == "json":
        return _begins_long_text(text)
    if kind == "grammar":
        return _begins_nested(text)
    return True


def _begins_long_text(text: str) -> bool:
    """A key that is cut off is not looked at."""
    if not text.strip():
        return True
    try:
        found, whole = json.loads(text), True
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return False
        try:
            found, whole = from_json(text, allow_partial="trailing-strings"), False
        except ValueError:
            return False
    checker = jsonschema.Draft202012Validator(
        LONG_TEXT if whole else {**LONG_TEXT, "required": [], "properties": {"text": TEXT}}
    )
    return checker.is_valid(found)


def _begins_nested(text: str) -> bool:
    """Words and brackets, separated by commas; the last word may still be short."""
    depth, before = 0, ","
    parts = re.findall(r"[a-z]+|.", text, re.DOTALL)
    for place, part in enumerate(parts):
        if part.isalpha() or part == "(":
            fits = before in (",", "(")
        else:
            fits = part in (",", ")") and before not in (",", "(") and (part == "," or depth > 0)
        if part.isalpha():
            fits = fits and part.isascii() and len(part) <= 12 and (len(part) >= 2 or place == len(parts) - 1)
        if not fits:
            return False
        depth += (part == "(") - (part == ")")
        before = part
    return True
