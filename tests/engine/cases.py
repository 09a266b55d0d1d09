"""The constraints that a live server is asked for, each with a prompt and an independent judge of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
from lark import Lark
from pydantic import BaseModel, Field

IPV4 = r"(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)(\.(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)){3}"
IPV4_WITH_PORT = IPV4 + ":[0-9]{2,5}"

SENTIMENTS = ["POSITIVE", "NEUTRAL", "NEGATIVE"]

FILTER_GRAMMAR = r"""
start: expr
expr: term ((" AND " | " OR ") term)*
term: "NOT "? atom
atom: FIELD ":" VALUE | "(" expr ")"
FIELD: "service" | "status" | "region"
VALUE: /"[^"\n]{1,24}"/
"""


class Advisory(BaseModel):
    cve_id: str = Field(pattern=r"^CVE-\d{4}-\d{4,7}$")
    severity: Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]
    affected_ports: list[int]
    summary: str = Field(max_length=120)


class WeatherQuery(BaseModel):
    location: str
    unit: str = Field(pattern=r"^(celsius|fahrenheit)$")


@dataclass(frozen=True, slots=True)
class Case:
    """One constraint.

    Attributes:
        fields: what goes into the request beside prompt and sampling.
        shots: questions and answers that come before; they show a small model where an answer of this kind ends.
        check: raises AssertionError, jsonschema's or pydantic's or Lark's error where the answer breaks the constraint.
    """

    name: str
    prompt: str
    fields: dict[str, Any]
    check: Callable[[str], None]
    shots: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """For /v1/chat/completions."""
        turns = [*self.shots, (self.prompt, "")]
        roles = [
            {"role": role, "content": text}
            for turn in turns
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]
        return roles[:-1]

    @property
    def text(self) -> str:
        """For /v1/completions: the same conversation as the embedded model's chat template writes it."""
        turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in self.messages)
        return turns + "<|im_start|>assistant\n"


def check_regex(text: str) -> None:
    assert re.fullmatch(IPV4_WITH_PORT, text), text


def check_choice(text: str) -> None:
    assert text in SENTIMENTS, text


def check_grammar(text: str) -> None:
    Lark(FILTER_GRAMMAR, parser="earley").parse(text)


def check_model(model: type[BaseModel]) -> Callable[[str], None]:
    def check(text: str) -> None:
        jsonschema.Draft202012Validator(model.model_json_schema()).validate(json.loads(text))
        model.model_validate_json(text)

    return check


ADVISORY_PROMPT = (
    "Describe CVE-2024-3094, a critical backdoor in xz that affects the SSH port, as JSON with cve_id, severity, "
    "affected_ports and summary."
)
WEATHER_PROMPT = "Turn into JSON with location and unit: what is the weather in Oslo, in celsius?"

REGEX = Case(
    "regex",
    "Which proxy address is named here? The server forwarded the request through 10.0.4.15 on port 8443. Address:",
    {"guided_regex": IPV4_WITH_PORT},
    check_regex,
)
CHOICE = Case(
    "choice",
    "Sentiment of: The migration failed and every customer was logged out. One word:",
    {"guided_choice": SENTIMENTS},
    check_choice,
)
JSON_OBJECT = Case("json", ADVISORY_PROMPT, {"guided_json": Advisory.model_json_schema()}, check_model(Advisory))
JSON_TEXT = Case(
    "json_text",
    WEATHER_PROMPT,
    {"guided_json": json.dumps(WeatherQuery.model_json_schema())},
    check_model(WeatherQuery),
)
GRAMMAR = Case(
    "grammar",
    "Filter for slow queries of the database in the US:",
    {"guided_grammar": FILTER_GRAMMAR},
    check_grammar,
    shots=(
        ("Filter for the api in Europe:", 'service:"api" AND region:"eu"'),
        ("Filter for failed logins:", 'service:"login" AND NOT status:"200"'),
        ("Filter for all errors of the shop or the search:", '(service:"shop" OR service:"search") AND status:"500"'),
    ),
)
CASES = [REGEX, CHOICE, JSON_OBJECT, JSON_TEXT, GRAMMAR]
