"""A constraint is kept as the request says it, with its options and stop strings; what would break its promise is refused by name."""

from __future__ import annotations

import pytest

from guided.constraint import Constraint
from server.enforcement import read_constraint, refuse_any_constraint, without_constraint
from server.errors import RequestRefused
from tests.server.test_guided_fields import SCHEMA, TOOL, kind_noted


@pytest.mark.parametrize(
    "body",
    [
        {"guided_options": None, "response_format": {"type": "text"}},
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "auto"},
        {"stop": ["\n"], "ignore_eos": True, "use_beam_search": True},
    ],
    ids=str,
)
def test_requests_without_a_constraint(body):
    assert read_constraint({"messages": [], **body}) is None


REFUSED = [
    # nothing that they could say something of
    ({"guided_decoding_backend": "auto"}, "guided_decoding_backend", "invalid_constraint"),
    ({"guided_decoding_backend": "guided", "messages": []}, "guided_decoding_backend", "invalid_constraint"),
    (
        {"guided_decoding_backend": "auto", "response_format": {"type": "text"}},
        "guided_decoding_backend",
        "invalid_constraint",
    ),
    # a promise that would be broken
    ({"use_beam_search": True, "guided_regex": "a"}, "use_beam_search", "not_enforced"),
    ({"stop": ["x", 5], "guided_regex": "a"}, "stop", "invalid_constraint"),
    ({"guided_regex": "a", "guided_options": {"after": 5}}, "guided_options.after", "invalid_constraint"),
    ({"guided_regex": "a", "guided_options": {"after": ""}}, "guided_options.after", "invalid_constraint"),
    ({"ignore_eos": True, "guided_regex": "a"}, "ignore_eos", "not_enforced"),
    ({"repetition_detection": {"max_pattern_size": 4}, "guided_regex": "a"}, "repetition_detection", "not_enforced"),
    ({"include_stop_str_in_output": True, "guided_regex": "a"}, "include_stop_str_in_output", "not_enforced"),
]


@pytest.mark.parametrize(("body", "param", "code"), REFUSED, ids=lambda v: str(v)[:60])
def test_refusals_name_the_field(body, param, code):
    with pytest.raises(RequestRefused) as refused:
        read_constraint({"messages": [], **body})
    assert (refused.value.param, refused.value.code) == (param, code)
    assert len(refused.value.message) > 10 and param.split(".")[0] in refused.value.message


def test_the_kind_is_noted_before_a_contradiction_is_refused():
    assert kind_noted({"guided_regex": "a", "ignore_eos": True}, read_constraint) == "regex"


@pytest.mark.parametrize("spelling", ["guided_json", "guided_regex", "response_format"])
def test_options_of_the_request_go_with_every_kind(spelling):
    constraint = {
        "guided_json": SCHEMA,
        "guided_regex": "a+",
        "response_format": {"type": "json_object"},
    }[spelling]
    options = {"fit_budget": False}
    wanted = read_constraint({spelling: constraint, "guided_options": options})
    assert wanted is not None and not wanted.options.fit_budget
    assert wanted.constraint == read_constraint({spelling: constraint}).constraint  # type: ignore[union-attr]
    assert read_constraint({spelling: constraint}).options.fit_budget  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"guided_regex": "a", "guided_options": {"fit_budget": "no"}}, "true or false"),
        ({"guided_regex": "a", "guided_options": {"fit_budgets": False}}, "unknown"),
        ({"guided_options": {"fit_budget": False}}, "needs a constraint"),
    ],
)
def test_options_that_are_refused(body, words):
    with pytest.raises(RequestRefused, match=words) as raised:
        read_constraint(body)
    assert raised.value.param is not None and raised.value.param.startswith("guided_options")


def test_stop_strings_and_a_marker_become_part_of_the_constraint():
    body = {"guided_regex": "a+", "stop": ["y", "x", ""], "guided_options": {"after": "</think>"}}
    wanted = read_constraint(body)
    assert wanted is not None
    assert wanted.constraint == Constraint.regex("a+").after("</think>").avoiding(["x", "y"])
    assert read_constraint({"guided_regex": "a+", "stop": "x"}).constraint == Constraint.regex("a+").avoiding(["x"])  # type: ignore[union-attr]
    assert read_constraint({"guided_regex": "a+", "stop": []}).constraint == Constraint.regex("a+")  # type: ignore[union-attr]


def test_what_vllm_gets_to_see():
    body = {
        "messages": [],
        "guided_json": SCHEMA,
        "structured_outputs": None,
        "response_format": {"type": "text"},
        "n": 2,
    }
    assert without_constraint(body) == {"messages": [], "response_format": {"type": "text"}, "n": 2}


@pytest.mark.parametrize(
    "body",
    [
        {"guided_json": SCHEMA},
        {"guided_whatever": 1},
        {"structured_outputs": {"regex": "a"}},
        {"response_format": {"type": "json_object"}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "any"}},
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
        {"tools": [{"name": "f", "input_schema": {}, "strict": True}], "tool_choice": {"type": "auto"}},
    ],
    ids=str,
)
def test_other_routes_refuse_every_spelling(body):
    with pytest.raises(RequestRefused):
        refuse_any_constraint(body, "/v1/messages")


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "text"}, "guided_json": None},
        {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tools": [{**TOOL, "strict": True}], "tool_choice": {"type": "none"}},
    ],
    ids=str,
)
def test_other_routes_let_plain_requests_through(body):
    refuse_any_constraint(body, "/v1/messages")
