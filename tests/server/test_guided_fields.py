"""Every spelling of a constraint becomes one Constraint or a refusal by name; nothing is passed by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from guided.constraint import Constraint
from guided.errors import UnsupportedKeyword
from server.errors import RequestRefused
from server.guided_fields import Wanted, read_spelling
from server.observation import UNCONSTRAINED, Observation, current

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
JSON = Constraint.json_schema(SCHEMA)
ANY_OBJECT = Constraint.json_schema({"type": "object"})
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}

SPELLINGS = [
    ({"guided_json": SCHEMA}, "guided_json", JSON),
    ({"guided_json": '{"type": "object", "properties": {"a": {"type": "integer"}}}'}, "guided_json", JSON),
    ({"guided_regex": "a+"}, "guided_regex", Constraint.regex("a+")),
    ({"guided_choice": ["a", "b"]}, "guided_choice", Constraint.choice(["a", "b"])),
    ({"guided_grammar": 'start: "a"'}, "guided_grammar", Constraint.grammar('start: "a"')),
    ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json", JSON),
    ({"structured_outputs": {"regex": "a+", "json": None}}, "structured_outputs.regex", Constraint.regex("a+")),
    ({"structured_outputs": {"choice": ["a"]}}, "structured_outputs.choice", Constraint.choice(["a"])),
    ({"structured_outputs": {"grammar": 'start: "a"'}}, "structured_outputs.grammar", Constraint.grammar('start: "a"')),
    ({"structured_outputs": {"json_object": True}}, "structured_outputs.json_object", ANY_OBJECT),
    (
        {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
        "structured_outputs.json",
        Constraint.json_schema(SCHEMA, whitespace="compact"),
    ),
    ({"response_format": {"type": "json_object"}}, "response_format", ANY_OBJECT),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, "response_format", JSON),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}},
        "response_format.json_schema.schema",
        JSON,
    ),
    ({"text": {"format": {"type": "json_object"}}}, "text.format", ANY_OBJECT),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}, "text.format.schema", JSON),
    (
        {"guided_json": SCHEMA, "guided_whitespace_pattern": r"\s?"},
        "guided_json",
        Constraint.json_schema(SCHEMA, whitespace_pattern=r"\s?"),
    ),
    (
        {"guided_json": SCHEMA, "guided_options": {"additional_properties": "allow", "property_order": "any"}},
        "guided_json",
        Constraint.json_schema(SCHEMA, additional_properties="allow", property_order="any"),
    ),
    ({"guided_regex": "a+", "guided_decoding_backend": "guided"}, "guided_regex", Constraint.regex("a+")),
    (
        {"guided_json": None, "guided_regex": "a+", "response_format": {"type": "text"}},
        "guided_regex",
        Constraint.regex("a+"),
    ),
    ({"guided_regex": "a+", "tools": [TOOL], "tool_choice": "none"}, "guided_regex", Constraint.regex("a+")),
    (
        {"structured_outputs": {"structural_tag": json.dumps(TAG), "disable_any_whitespace": True}},
        "structured_outputs.structural_tag",
        Constraint.structural_tag(TAG, whitespace="compact"),
    ),
    ({"response_format": TAG}, "response_format", Constraint.structural_tag(TAG)),
]


@pytest.mark.parametrize(("body", "field", "constraint"), SPELLINGS, ids=lambda v: str(v)[:60])
def test_spellings(body, field, constraint):
    wanted = read_spelling({"messages": [], **body})
    assert wanted is not None
    assert (wanted.field, wanted.constraint) == (field, constraint)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"response_format": {"type": "text"}},
        {"response_format": None, "structured_outputs": None, "guided_json": None, "guided_options": None},
        {"vllm_xargs": {"other": 1}},
        {"extra_body": {"top_k": 1}},
        {"extra_body": "x"},
    ],
    ids=str,
)
def test_requests_without_a_constraint(body):
    assert read_spelling({"messages": [], **body}) is None


REFUSED = [
    # unknown fields
    ({"guided_choise": ["a", "b"]}, "guided_choise", "invalid_constraint"),
    ({"guided_jsonschema": None}, "guided_jsonschema", "invalid_constraint"),
    ({"GUIDED_JSON": SCHEMA}, "GUIDED_JSON", "invalid_constraint"),
    ({"guidedRegex": "a"}, "guidedRegex", "invalid_constraint"),
    ({"guided-choice": ["a"]}, "guided-choice", "invalid_constraint"),
    ({"extra_body": {"guided_regex": "a"}}, "extra_body.guided_regex", "invalid_constraint"),
    ({"extra_body": {"response_format": {}}}, "extra_body.response_format", "invalid_constraint"),
    ({"vllm_xargs": {"guided_regex": "a"}}, "vllm_xargs.guided_regex", "invalid_constraint"),
    (
        {"chat_template_kwargs": {"structured_outputs": {}}},
        "chat_template_kwargs.structured_outputs",
        "invalid_constraint",
    ),
    (
        {"messages": [{"role": "user", "content": "x", "guided_json": SCHEMA}]},
        "messages.0.guided_json",
        "invalid_constraint",
    ),
    (
        {"guided_options": {"white_space": "compact"}, "guided_json": SCHEMA},
        "guided_options.white_space",
        "invalid_constraint",
    ),
    ({"structured_outputs": {"jsn": SCHEMA}}, "structured_outputs.jsn", "not_enforced"),
    ({"response_format": {"type": "jsonschema"}}, "response_format.type", "invalid_constraint"),
    ({"response_format": {"type": "json_object", "shema": {}}}, "response_format.shema", "invalid_constraint"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strct": True}}},
        "response_format.json_schema.strct",
        "invalid_constraint",
    ),
    ({"vllm_xargs": {"guided": "x"}}, "vllm_xargs.guided", "invalid_constraint"),
    # two at once
    ({"guided_json": SCHEMA, "guided_regex": "a"}, "guided_regex", "conflicting_constraints"),
    (
        {"guided_choice": ["a"], "structured_outputs": {"regex": "a"}},
        "structured_outputs.regex",
        "conflicting_constraints",
    ),
    (
        {"guided_choice": ["a"], "response_format": {"type": "json_object"}},
        "response_format",
        "conflicting_constraints",
    ),
    ({"structured_outputs": {"json": SCHEMA, "regex": "a"}}, "structured_outputs.regex", "conflicting_constraints"),
    # malformed
    ({"guided_choice": []}, "guided_choice", "invalid_constraint"),
    ({"guided_choice": "yes"}, "guided_choice", "invalid_constraint"),
    ({"guided_choice": {"a": 1}}, "guided_choice", "invalid_constraint"),
    ({"structured_outputs": {"choice": {"a": 1}}}, "structured_outputs.choice", "invalid_constraint"),
    ({"guided_choice": ["a", 1]}, "guided_choice#/1", "invalid_constraint"),
    ({"guided_regex": 7}, "guided_regex", "invalid_constraint"),
    ({"guided_regex": "\ud800"}, "guided_regex:1", "invalid_constraint"),
    ({"guided_json": "{not json"}, "guided_json", "invalid_constraint"),
    ({"guided_json": {"const": "\ud800"}}, "guided_json", "invalid_constraint"),
    ({"guided_json": 3}, "guided_json#", "invalid_constraint"),
    ({"guided_json": ["a"]}, "guided_json#", "invalid_constraint"),
    ({"guided_json": ""}, "guided_json", "invalid_constraint"),
    ({"guided_grammar": ["a"]}, "guided_grammar", "invalid_constraint"),
    ({"structured_outputs": {}}, "structured_outputs", "invalid_constraint"),
    ({"structured_outputs": "json"}, "structured_outputs", "invalid_constraint"),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs.json_object", "invalid_constraint"),
    ({"structured_outputs": {"json_object": "no"}}, "structured_outputs.json_object", "invalid_constraint"),
    ({"structured_outputs": {"json_object": 0}}, "structured_outputs.json_object", "invalid_constraint"),
    (
        {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": 0}},
        "structured_outputs.disable_any_whitespace",
        "invalid_constraint",
    ),
    ({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}, "structured_outputs", "invalid_constraint"),
    ({"response_format": "json_object"}, "response_format", "invalid_constraint"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "invalid_constraint"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format.json_schema.schema",
        "invalid_constraint",
    ),
    ({"guided_options": [], "guided_json": SCHEMA}, "guided_options", "invalid_constraint"),
    ({"guided_options": {"whitespace": "lots"}, "guided_json": SCHEMA}, "guided_json", "invalid_constraint"),
    # options without anything that they could apply to
    ({"guided_options": {"whitespace": "compact"}}, "guided_options.whitespace", "invalid_constraint"),
    ({"guided_whitespace_pattern": " ?"}, "guided_whitespace_pattern", "invalid_constraint"),
    ({"guided_regex": "a", "guided_whitespace_pattern": " ?"}, "guided_whitespace_pattern", "invalid_constraint"),
    (
        {"guided_json": SCHEMA, "guided_whitespace_pattern": "", "guided_options": {"whitespace_pattern": ""}},
        "guided_whitespace_pattern",
        "invalid_constraint",
    ),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "invalid_constraint"),
    ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "invalid_constraint"),
    ({"text": {"format": {"type": "json_object", "schema": {}}}}, "text.format.schema", "invalid_constraint"),
    ({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"}, "text.format", "conflicting_constraints"),
    # not enforced
    ({"guided_decoding_backend": "xgrammer"}, "guided_decoding_backend", "invalid_constraint"),
    ({"guided_decoding_backend": ["auto"]}, "guided_decoding_backend", "invalid_constraint"),
    ({"structured_outputs": {"structural_tag": "[]"}}, "structured_outputs.structural_tag#", "invalid_constraint"),
    (
        {"structured_outputs": {"structural_tag": {}, "regex": "a"}},
        "structured_outputs.regex",
        "conflicting_constraints",
    ),
    ({"response_format": {"type": "structural_tags"}}, "response_format.type", "invalid_constraint"),
]


@pytest.mark.parametrize(("body", "param", "code"), REFUSED, ids=lambda v: str(v)[:60])
def test_refusals_name_the_field(body, param, code):
    with pytest.raises(RequestRefused) as refused:
        read_spelling({"messages": [], **body})
    assert (refused.value.param, refused.value.code) == (param, code)
    assert len(refused.value.message) > 10
    assert param.split("#")[0].split(":")[0].split(".")[0] in refused.value.message


def test_a_refusal_that_several_wait_for_stays_as_it_is():
    """Those who send the same constraint together wait for one compilation, and get the same error."""
    error = UnsupportedKeyword("no", keyword="not", pointer="/tags/0/content/properties/a")
    wanted = Wanted("tools", Constraint.regex("a"), places={"/tags/0/content": "tools.0.function.parameters"})
    found = [wanted.refused(error) for _ in range(2)]
    assert [one.param for one in found] == ["tools.0.function.parameters#/properties/a"] * 2
    assert found[0].message == found[1].message


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ({"guided_choise": []}, "guided_choice"),
        ({"guidedRegx": "a"}, "guided_regex"),
        ({"GUIDED-JSON": {}}, "guided_json"),
        ({"guided_decoding": "auto"}, "guided_decoding_backend"),
        ({"guided_everything": 1}, None),
        ({"guided_" + "x" * 99: 1}, None),
        ({"guided_regex": "a", "guided_options": {"fit_budgets": False}}, "fit_budget"),
        ({"guided_json": {}, "guided_options": {"additionalProperties": "allow"}}, "additional_properties"),
        ({"structured_outputs": {"jsn": {}}}, "json"),
        ({"structured_outputs": {"disable-any-whitespaces": True, "json": {}}}, "disable_any_whitespace"),
        ({"response_format": {"type": "json_object", "shema": {}}}, "schema"),
        ({"text": {"format": {"type": "json_schema", "schema": {}, "strct": True}}}, "strict"),
    ],
    ids=str,
)
def test_who_misspells_a_name_hears_which_one_was_meant(body, meant):
    with pytest.raises(RequestRefused) as raised:
        read_spelling(body)
    message = raised.value.message
    assert f"; did you mean {meant}?" in message if meant else "did you mean" not in message


@pytest.mark.parametrize(("body", "field", "constraint"), SPELLINGS)
def test_the_kind_is_noted(body, field, constraint):
    assert kind_noted(body) == constraint.kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"guided_json": "{"}, "json"),
        ({"guided_regex": 7}, "regex"),
        ({"structured_outputs": {"choice": []}}, "choice"),
        ({"guided_grammar": []}, "grammar"),
        ({"response_format": {"type": "structural_tag", "format": 1, "x": "y"}}, "structural_tag"),
        ({"guided_json": {}, "guided_options": {"property_order": "odd"}}, "json"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "choice"),
        ({"guided_regxe": "a"}, UNCONSTRAINED),
        ({"messages": []}, UNCONSTRAINED),
    ],
)
def test_the_kind_is_noted_before_the_refusal(body, kind):
    assert kind_noted(body) == kind


def kind_noted(body: dict[str, Any], read: Callable[[dict[str, Any]], Any] = read_spelling) -> str:
    seen = Observation("/v1/chat/completions")
    token = current.set(seen)
    try:
        with contextlib.suppress(RequestRefused):
            read(body)
    finally:
        current.reset(token)
    return seen.kind
