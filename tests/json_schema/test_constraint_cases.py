"""The json cases of the shared list of constraints: what must be accepted, what rejected, what refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guided.automaton.lazy_dfa import LazyDfa
from guided.errors import ConstraintError
from guided.json_schema import build_network
from guided.limits import Budget, Limits

PATH = Path(__file__).parents[3] / "shared" / "constraint-cases.json"


def _cases():
    if not PATH.exists():
        return []
    return [case for case in json.loads(PATH.read_text()) if case["constraint"]["type"] == "json"]


pytestmark = pytest.mark.skipif(not PATH.exists(), reason=f"{PATH} is not there")


@pytest.mark.parametrize("properties", ["declared", "allow"])
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_case(case, properties):
    def compile_schema():
        options = {"additional_properties": properties}
        return LazyDfa(build_network(case["constraint"]["value"], options, Budget()), Budget(Limits(seconds=300)))

    if case["compile"] == "error":
        with pytest.raises(ConstraintError):
            compile_schema()
        return
    machine = compile_schema()
    for text in [*case["accept"], *case.get("accept_optional", ())]:
        if case["id"] == "J91" and text in case["accept_optional"]:
            continue  # another order of properties than the schema's
        assert machine.matches(text.encode()), text
    for text in [*case["reject"], *case.get("reject_optional", ())]:
        assert not machine.matches(text.encode()), text
