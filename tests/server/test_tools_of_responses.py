"""Tools as `/v1/responses` has them: flat, with namespaces and tools that vLLM calls itself. No model."""

from __future__ import annotations

import json

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.compiler import build_network
from guided.constraint import Constraint
from guided.limits import Budget
from server.constraint_middleware import ConstraintMiddleware
from server.errors import RequestRefused
from server.request_fields import RESPONSES
from server.tools.conventions import JSON_CALLS
from server.tools.request import read_tools
from tests.server.fakes import FakeBackends, FakeCompileService
from tests.server.test_constraint_middleware import Route, call
from tests.server.test_tools import HERMES, TOOLS, hermes, named


def flat(value):
    """A tool, a choice or a list of tools as /v1/responses has it."""
    if isinstance(value, list):
        return [flat(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = value[value["type"]]
    return {"type": value["type"], **{name: flat(one) if name == "tools" else one for name, one in inner.items()}}


@pytest.mark.parametrize(
    "choice",
    [
        *(None, "auto", "required", "none", named("trip")),
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("trip"), named("now")]}},
    ],
)
@pytest.mark.parametrize("more", [{}, {"parallel_tool_calls": False}])
def test_both_routes_say_the_same(choice, more):
    one = read_tools({"tools": TOOLS, "tool_choice": choice, **more})
    other = read_tools({"tools": flat(TOOLS), "tool_choice": flat(choice), **more}, flat=True)
    if one is None or other is None:
        assert one is other
        return
    assert [tool.field for tool in other.tools] == [tool.field.replace(".function", "") for tool in one.tools]
    assert (one.choice, one.named, one.parallel) == (other.choice, other.named, other.parallel)
    for mine, its in zip(one.tools, other.tools, strict=True):
        assert (mine.name, mine.parameters, mine.strict) == (its.name, its.parameters, its.strict)


REGEX_INPUT = {"type": "grammar", "syntax": "regex", "definition": "a+"}
SAY = {"type": "custom", "name": "say", "format": REGEX_INPUT}


def test_custom_tools_of_responses_reach_vllm_without_their_grammars():
    route, service = Route(), FakeCompileService()
    body = {"input": "x", "tools": [SAY], "tool_choice": {"type": "custom", "name": "say"}}
    assert call(ConstraintMiddleware(route, service, HERMES), RESPONSES, body)[0] == 200
    (constraint,) = service.compiled
    dfa = LazyDfa(build_network(constraint, Budget()), Budget())
    assert dfa.matches(hermes("say", '{"input": "aa"}').encode())
    assert not dfa.matches(hermes("say", '{"input": "ab"}').encode())
    assert json.loads(route.body) == {**body, "tools": [{"type": "custom", "name": "say"}]}


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({**SAY, "format": {**REGEX_INPUT, "syntax": "ebnf"}}, "tools.0.format.syntax"),
        ({**SAY, "format": {"type": "grammar", "grammar": REGEX_INPUT}}, "tools.0.format.definition"),
        ({**SAY, "format": "regex"}, "tools.0.format"),
        ({"type": "function", "name": "a b"}, "tools.0.name"),
        ({"type": "function", "function": {"name": "f"}}, "tools.0.name"),
        ({"type": "web_search"}, "tools.0.type"),
        ({"type": "namespace", "name": "n"}, "tools.0.tools"),
        ({"type": "namespace", "name": "n", "tools": [SAY]}, "tools.0.tools.0.type"),
        ({"type": "namespace", "tools": flat(TOOLS)}, "tools.0.name"),
        ({"type": "function", "name": "f", "paramters": {}}, "tools.0.paramters"),
        ({**SAY, "format": {**REGEX_INPUT, "type": "grammar", "flags": "i"}}, "tools.0.format.flags"),
    ],
)
def test_refusals_name_the_field_on_responses_too(tool, field):
    with pytest.raises(RequestRefused) as refused:
        read_tools({"tools": [tool]}, flat=True)
    assert refused.value.param == field and field in refused.value.message


def test_functions_of_a_namespace_have_both_names():
    space = {"type": "namespace", "name": "n", "tools": flat(TOOLS)}
    found = read_tools({"tools": [space], "tool_choice": {"type": "function", "name": "n__trip"}}, flat=True)
    assert found is not None and [tool.name for tool in found.tools] == ["n__trip"]
    with pytest.raises(RequestRefused, match="NAMESPACE__FUNCTION"):
        read_tools({"tools": [space], "tool_choice": {"type": "function", "name": "trip"}}, flat=True)


def test_tools_that_vllm_calls_itself():
    search = {"type": "web_search_preview"}
    assert read_tools({"tools": [search]}, flat=True, built_in=True) is None
    found = read_tools({"tools": [search, *flat(TOOLS)]}, flat=True, built_in=True)
    assert found is not None and found.tools[0].field == "tools.1.parameters"
    with pytest.raises(RequestRefused, match="web_search"):
        read_tools({"tools": [search], "tool_choice": "required"}, flat=True, built_in=True)


@pytest.mark.parametrize("backend", ["guided", "xgrammar"])
def test_tools_beside_a_constraint_on_responses(backend):
    body = {"input": "x", "guided_regex": "ok", "tools": flat(TOOLS), "guided_decoding_backend": backend}
    for convention, enforced in ((HERMES, backend == "guided"), (JSON_CALLS, False)):
        app = ConstraintMiddleware(Route(), FakeCompileService(), convention, backends=FakeBackends())
        status, answer = call(app, RESPONSES, body)
        assert status == (200 if enforced else 400)
        assert enforced or (answer["error"]["code"], answer["error"]["param"]) == ("not_enforced", "tools")


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": flat(TOOLS), "tool_choice": "none"}])
def test_a_constraint_on_responses_beside_tools_that_may_not_be_called(fields):
    service = FakeCompileService()
    body = {"input": "x", "guided_regex": "ok", **fields}
    assert call(ConstraintMiddleware(Route(), service), RESPONSES, body)[0] == 200
    assert service.compiled == [Constraint.regex("ok")]
