"""Tools of a request: what becomes of them for each tool parser, what is refused, and what vLLM is told. No model."""

from __future__ import annotations

import json

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.compiler import build_network
from guided.constraint import Constraint
from guided.errors import ConstraintError, InvalidConstraint, UnsupportedKeyword
from guided.limits import Budget
from server.constraint_middleware import ConstraintMiddleware
from server.enforcement import read_constraint
from server.errors import RequestRefused
from server.guided_fields import Wanted
from server.tools.constraint import joined
from server.tools.conventions import JSON_CALLS, Convention, JsonCalls, NativeFormat, UnknownFormat, convention_of
from server.tools.request import as_vllm_reads, read_tools
from tests.server.fakes import FakeCompileService
from tests.server.test_constraint_middleware import CHAT, Route, call

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
}
TRIP = {"properties": {"leg": {"$ref": "#/$defs/leg"}}, "required": ["leg"], "$defs": {"leg": {"type": "integer"}}}


def tool(name: str, parameters=WEATHER, **more) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def named(name: str) -> dict:
    return {"type": "function", "function": {"name": name}}


TOOLS = [tool("weather"), tool("trip", TRIP), tool("now", None)]
HERMES = NativeFormat("hermes", "hermes")


def wanted_by(body: dict, convention: Convention = HERMES) -> Wanted | None:
    tools = read_tools(body)
    assert tools is not None
    return read_constraint(body, None, lambda other: joined(tools, convention, other))


def automaton(wanted: Wanted | None) -> LazyDfa:
    assert wanted is not None
    return LazyDfa(build_network(wanted.constraint, Budget()), Budget())


def hermes(name: str, arguments: str, space: str = "\n") -> str:
    return f'<tool_call>{space}{{"name": "{name}", "arguments": {arguments}}}{space}</tool_call>'


ROME = hermes("weather", '{"city": "Rome"}')
LEG = hermes("trip", '{"leg": 3}')


@pytest.mark.parametrize(
    ("choice", "text", "allowed"),
    [
        ("auto", "It rains.", True),
        ("auto", f"Let me see. {ROME}\n{LEG}", True),
        ("auto", hermes("weather", '{"city": "Rome"}', ""), True),
        ("auto", hermes("weather", '{"town": "Rome"}'), False),
        ("auto", hermes("weather", '{"city": "Rome", "unit": "K"}'), False),
        ("auto", hermes("trip", '{"leg": "x"}'), False),
        ("auto", hermes("now", "{}"), True),
        ("auto", hermes("now", '{"a": 1}'), False),
        ("auto", hermes("now", "[]"), False),
        ("auto", hermes("other", "{}"), False),
        ("required", "It rains.", False),
        ("required", ROME, True),
        ("required", ROME + LEG, True),
        (named("trip"), LEG, True),
        (named("trip"), ROME, False),
        (named("trip"), LEG + LEG, False),
    ],
)
def test_calls_in_the_format_of_the_parser(choice, text, allowed):
    wanted = wanted_by({"tools": TOOLS, "tool_choice": choice})
    assert automaton(wanted).matches(text.encode()) == allowed


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_parallel_calls_may_be_forbidden(choice):
    dfa = automaton(wanted_by({"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False}))
    assert dfa.matches(ROME.encode())
    assert not dfa.matches((ROME + LEG).encode())


@pytest.mark.parametrize(
    ("choice", "text", "allowed"),
    [
        ("required", '[{"name": "weather", "parameters": {"city": "Rome"}}]', True),
        ("required", '[{"name": "trip", "parameters": {"leg": 1}}, {"name": "now", "parameters": {}}]', True),
        ("required", "[]", False),
        ("required", '[{"name": "trip", "parameters": {"leg": "1"}}]', False),
        (named("trip"), '{"leg": 1}', True),
        (named("trip"), '{"leg": null}', False),
    ],
)
def test_calls_without_a_parser(choice, text, allowed):
    dfa = automaton(wanted_by({"tools": TOOLS, "tool_choice": choice}, JSON_CALLS))
    assert dfa.matches(text.encode()) == allowed


def test_the_model_may_answer_as_it_likes_where_its_calls_are_not_known():
    assert wanted_by({"tools": TOOLS}, JsonCalls("pythonic")) is None
    assert wanted_by({"tools": TOOLS}, UnknownFormat("dots")) is None
    with pytest.raises(RequestRefused, match="dots"):
        wanted_by({"tools": TOOLS, "tool_choice": "required"}, UnknownFormat("dots"))


GRAMMAR = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}


@pytest.mark.parametrize("convention", [JSON_CALLS, JsonCalls("pythonic"), UnknownFormat("dots")])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [*TOOLS, tool("f", strict=True)]}, "tools.3.function.strict"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "f", "format": GRAMMAR}}]},
            "tools.0.custom.format.grammar.definition",
        ),
        (
            {
                "tools": TOOLS,
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [named("trip")]},
                },
            },
            "tool_choice.allowed_tools",
        ),
    ],
)
def test_what_only_a_constraint_keeps_is_refused_where_calls_are_not_known(convention, fields, param):
    with pytest.raises(RequestRefused) as refused:
        wanted_by(fields, convention)
    assert (refused.value.param, refused.value.code) == (param, "not_enforced")
    assert param in refused.value.message
    assert wanted_by(fields) is not None


def test_a_choice_of_null_is_the_default():
    body = {"tools": TOOLS, "tool_choice": None}
    assert read_tools(body) == read_tools({"tools": TOOLS})
    assert as_vllm_reads(body) == {"tools": TOOLS}


def test_the_places_of_many_tools_are_their_own():
    many = [tool(f"f{n}", {"properties": {f"a{n}": {"type": "string"}}}) for n in range(1_024)]
    wanted = wanted_by({"tools": many})
    assert wanted is not None
    assert set(wanted.places.values()) == {f"tools.{n}.function.parameters" for n in range(1_024)}


def test_only_allowed_tools_may_be_called():
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("trip"), named("now")]}}
    body = {"tools": TOOLS, "tool_choice": choice}
    dfa = automaton(wanted_by(body))
    assert dfa.matches((LEG + hermes("now", "{}")).encode())
    assert not dfa.matches(ROME.encode())
    assert as_vllm_reads(body) == {"tools": TOOLS, "tool_choice": "required"}


# --- beside another constraint ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"guided_regex": "a+"}, "aa"),
        ({"guided_choice": ["yes", "no"]}, "no"),
        ({"guided_grammar": 'start: "x" start | "x"'}, "xx"),
        ({"response_format": {"type": "json_object"}}, '{"a": 1}'),
        ({"structured_outputs": {"json": {"type": "integer"}}}, "12"),
        ({"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": "k"}}}, "k"),
    ],
)
def test_a_constraint_beside_tools_is_what_the_answer_without_a_call_obeys(fields, text):
    dfa = automaton(wanted_by({"tools": TOOLS, **fields}))
    assert dfa.matches(text.encode())
    assert dfa.matches(ROME.encode())
    assert not dfa.matches((text + ROME).encode())
    assert not dfa.matches(b"It rains.")


@pytest.mark.parametrize("choice", ["required", named("trip")])
@pytest.mark.parametrize("convention", [HERMES, JSON_CALLS])
def test_a_required_call_beside_a_constraint_is_a_conflict(choice, convention):
    with pytest.raises(RequestRefused) as refused:
        wanted_by({"tools": TOOLS, "tool_choice": choice, "guided_regex": "a"}, convention)
    assert (refused.value.code, refused.value.param) == ("conflicting_constraints", "guided_regex")


def test_a_constraint_that_a_call_would_break_is_refused():
    with pytest.raises(RequestRefused) as refused:
        wanted_by({"tools": TOOLS, "guided_regex": "a"}, JSON_CALLS)
    assert (refused.value.code, refused.value.param) == ("not_enforced", "tools")


def test_stop_strings_cut_text_and_are_kept_out_of_calls_that_are_required():
    text = wanted_by({"tools": TOOLS, "stop": ["\n\n"]})
    assert text is not None
    assert text.may_be_cut
    assert "avoid" not in text.constraint.options
    call = wanted_by({"tools": TOOLS, "tool_choice": "required", "stop": ["\n\n"]})
    assert call is not None
    assert not call.may_be_cut
    assert call.constraint.options["avoid"] == ["\n\n"]


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    ({"tools": [tool("a b")]}, "tools.0.function.name", "invalid_constraint"),
    ({"tools": [tool("f"), tool("g", [])]}, "tools.1.function.parameters", "invalid_constraint"),
    ({"tools": [{"type": "web_search"}]}, "tools.0.type", "not_enforced"),
    ({"tools": [tool("f"), tool("f", TRIP)]}, "tools.1.function.name", "invalid_constraint"),
    *(
        (
            {
                "tools": TOOLS,
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "required", "tools": [{"type": kind, "function": {"name": "trip"}}]},
                },
            },
            "tool_choice.allowed_tools.tools.0",
            "invalid_constraint",
        )
        for kind in ({}, ["function"], 1)
    ),
    ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools", "invalid_constraint"),
    ({"tools": [tool(f"f{n}", None) for n in range(1_025)]}, "tools", "constraint_too_complex"),
    (
        {"tools": [tool("f", {"const": "x" * 1_500_000}), tool("g", {"const": "y" * 700_000})]},
        "tools",
        "constraint_too_complex",
    ),
    (
        {
            "tools": TOOLS,
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [named("trip")] * 1_025},
            },
        },
        "tool_choice.allowed_tools.tools",
        "constraint_too_complex",
    ),
]


@pytest.mark.parametrize(("body", "param", "code"), REFUSED, ids=lambda v: str(v)[:50])
def test_refusals_name_the_field(body, param, code):
    with pytest.raises(RequestRefused) as refused:
        read_tools(body)
    assert (refused.value.param, refused.value.code) == (param, code)
    assert param in refused.value.message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            {"tools": [{"type": "function", "function": {"name": "f", "paramters": WEATHER}}]},
            "tools.0.function.paramters",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "input_schema": {}}}]},
            "tools.0.function.input_schema",
        ),
        ({"tools": [{"type": "function", "function": {"name": "f"}, "parameters": WEATHER}]}, "tools.0.parameters"),
        ({"tools": [{"type": "function", "function": {"name": "f"}, "strict": True}]}, "tools.0.strict"),
        (
            {"tools": TOOLS, "tool_choice": {**named("trip"), "parallel_tool_calls": False}},
            "tool_choice.parallel_tool_calls",
        ),
    ],
)
def test_what_nobody_would_read_of_a_tool_is_refused(body, field):
    with pytest.raises(RequestRefused, match="would be ignored") as refused:
        read_tools(body)
    assert (refused.value.param, refused.value.code) == (field, "unknown_parameter")


@pytest.mark.parametrize(
    ("said", "parallel"), [("false", False), (0, False), (False, False), (None, True), ("true", True)]
)
def test_switches_are_read_as_vllm_reads_them(said, parallel):
    found = read_tools({"tools": TOOLS, "parallel_tool_calls": said})
    assert found is not None and found.parallel is parallel


@pytest.mark.parametrize("body", [{}, {"tools": []}, {"tools": TOOLS, "tool_choice": "none"}, {"tools": 3}])
def test_no_tools_to_call(body):
    assert read_tools(body) is None


BAD = {"type": "object", "properties": {"a/b": {"type": "intger"}}}


@pytest.mark.parametrize("choice", ["auto", "required", named("bad")])
@pytest.mark.parametrize("convention", [HERMES, NativeFormat("qwen3_coder", "qwen_3_coder"), JSON_CALLS])
def test_a_tool_with_a_bad_schema_is_named(choice, convention):
    wanted = wanted_by({"tools": [*TOOLS, tool("bad", BAD)], "tool_choice": choice}, convention)
    if wanted is None:
        return
    with pytest.raises(ConstraintError) as refused:
        automaton(wanted)
    error = wanted.refused(refused.value)
    assert error.param is not None
    assert error.param.startswith("tools.3.function.parameters#/properties/a~1b")
    assert "tools.3.function.parameters" in error.message


def test_a_refusal_in_the_other_constraint_names_the_tools_field_with_its_place():
    wanted = wanted_by({"tools": TOOLS, "guided_regex": "(a"})
    with pytest.raises(InvalidConstraint) as refused:
        automaton(wanted)
    assert wanted is not None
    assert (wanted.refused(refused.value).param or "").startswith("tools#/format/elements/1/pattern")


# --- parsers ----------------------------------------------------------------------------------------------------------

NATIVE = {
    "hermes": "hermes",
    "longcat": "longcat",
    "llama3_json": "llama",
    "kimi_k2": "kimi",
    "deepseek_v3": "deepseek_r1",
    "deepseek_v31": "deepseek_v3_1",
    "qwen3_coder": "qwen_3_coder",
    "glm45": "glm_4_7",
}


@pytest.mark.parametrize(("parser", "model"), NATIVE.items())
def test_the_formats_of_common_parsers_are_known(parser, model):
    assert convention_of(parser, True, "m") == NativeFormat(parser, model)


def test_other_parsers():
    assert convention_of(None, False, "m") == JSON_CALLS
    assert convention_of("hermes", False, "m") == JSON_CALLS
    assert convention_of("pythonic", True, "m") == JsonCalls("pythonic")
    for loose in ("kimi_k3", "hy_v4", "openai", "mistral"):
        assert convention_of(loose, True, "m") == UnknownFormat(loose)


@pytest.mark.parametrize("model", sorted({*NATIVE.values()}))
@pytest.mark.parametrize("choice", ["auto", "required", named("trip")])
def test_every_known_format_can_be_built(model, choice):
    wanted = wanted_by({"tools": TOOLS, "tool_choice": choice}, NativeFormat(model, model))
    assert automaton(wanted).matches(b"It rains.") == (choice == "auto")


def test_arguments_with_unions_come_out_in_tags():
    parameters = {"type": "object", "properties": {"id": {"type": ["integer", "string"]}}, "required": ["id"]}
    body = {"tools": [tool("find", parameters)], "tool_choice": "required"}
    dfa = automaton(wanted_by(body, NativeFormat("qwen3_coder", "qwen_3_coder")))
    for value in ("7", "x7"):
        text = f"<tool_call>\n<function=find>\n<parameter=id>\n{value}\n</parameter>\n</function>\n</tool_call>"
        assert dfa.matches(text.encode()), text


def test_strings_of_a_union_have_no_second_quotes():
    parameters = {
        "type": "object",
        "properties": {"mode": {"anyOf": [{"enum": ["edit"]}, {"enum": ["view"]}]}},
        "required": ["mode"],
    }
    body = {"tools": [tool("open", parameters)], "tool_choice": "required"}
    tags = "<tool_call>\n<function=open>\n<parameter=mode>{}</parameter>\n</function>\n</tool_call>"
    dfa = automaton(wanted_by(body, NativeFormat("qwen3_coder", "qwen_3_coder")))
    for value, allowed in (("edit", True), ("view", True), ('"edit"', False), ("other", False)):
        assert dfa.matches(tags.format(value).encode()) == allowed, value
    dfa = automaton(wanted_by(body))
    assert dfa.matches(hermes("open", '{"mode": "edit"}').encode())
    assert not dfa.matches(hermes("open", '{"mode": "\\"edit\\""}').encode())


# --- through the middleware -------------------------------------------------------------------------------------------


def test_a_choice_of_null_reaches_vllm_as_the_default():
    route, service = Route(), FakeCompileService()
    assert call(ConstraintMiddleware(route, service, HERMES), CHAT, {"tools": TOOLS, "tool_choice": None})[0] == 200
    assert service.compiled[0].kind == "structural_tag"
    assert json.loads(route.body) == {"tools": TOOLS}


def test_the_limit_of_one_constraint_holds_for_all_tools_together():
    body = {"messages": [], "tools": TOOLS}
    status, answer = call(ConstraintMiddleware(Route(), FakeCompileService(), HERMES, tool_bytes=100), CHAT, body)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "constraint_too_complex", "tools")


@pytest.mark.parametrize("choice", [{}, {"tool_choice": "auto"}, {"tool_choice": "required"}])
def test_calls_reach_the_engine_and_vllm_sees_the_tools_as_they_are(choice):
    route, service = Route(), FakeCompileService()
    body = {"messages": [], "tools": TOOLS, **choice}
    assert call(ConstraintMiddleware(route, service, HERMES), CHAT, body)[0] == 200
    assert service.compiled[0].kind == "structural_tag"
    assert json.loads(route.body) == body
    assert route.pending.may_be_cut == (choice != {"tool_choice": "required"})


def test_a_named_call_without_a_parser_is_its_schema():
    route, service = Route(), FakeCompileService()
    body = {"messages": [], "tools": TOOLS, "tool_choice": named("weather")}
    assert call(ConstraintMiddleware(route, service), CHAT, body)[0] == 200
    assert service.compiled == [Constraint.json_schema(WEATHER)]


def test_the_compilers_refusal_names_the_tool():
    error = UnsupportedKeyword("x is not enforced", keyword="x", pointer="/properties/city/x")
    app = ConstraintMiddleware(Route(), FakeCompileService(error))
    status, answer = call(app, CHAT, {"messages": [], "tools": TOOLS, "tool_choice": named("weather")})
    assert status == 400
    assert answer["error"]["param"] == "tools.0.function.parameters#/properties/city/x"


@pytest.mark.parametrize("field", [{"functions": [{"name": "f"}]}, {"function_call": {"name": "f"}}])
def test_the_fields_of_2023_are_refused_by_name(field):
    status, answer = call(ConstraintMiddleware(Route(), FakeCompileService()), CHAT, {"messages": [], **field})
    assert (status, answer["error"]["param"]) == (400, next(iter(field)))


def test_text_completions_have_no_tools():
    app = ConstraintMiddleware(Route(), FakeCompileService())
    status, answer = call(app, "/v1/completions", {"prompt": "x", "tools": TOOLS, "tool_choice": "required"})
    assert (status, answer["error"]["param"]) == (400, "tool_choice")
