"""The shared constraint cases of kind grammar, with the syntax given and detected."""

import json
from pathlib import Path

import pytest

from guided.automaton.reference import ReferenceMachine
from guided.errors import ConstraintError
from guided.grammar import build_network
from guided.limits import Budget

CASES = Path(__file__).parents[3] / "shared" / "constraint-cases.json"


def cases():
    if not CASES.exists():
        return []
    return [case for case in json.loads(CASES.read_text()) if case["constraint"]["type"] == "grammar"]


@pytest.mark.skipif(not CASES.exists(), reason="no ../shared/constraint-cases.json")
def test_there_are_cases():
    assert len(cases()) >= 12


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "detected"])
def test_case(case, told):
    options = {"syntax": case["constraint"]["syntax"]} if told else {}
    if case["compile"] == "error":
        with pytest.raises(ConstraintError):
            build_network(case["constraint"]["value"], options, Budget())
        return
    machine = ReferenceMachine(build_network(case["constraint"]["value"], options, Budget()))
    for text in case["accept"]:
        assert machine.matches(text.encode()), text
    for text in case["reject"]:
        assert not machine.matches(text.encode()), text
