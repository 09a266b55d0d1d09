"""Regexes and choices out of real users' reports: what must match, what must not, what must be refused."""

import json
from pathlib import Path

import pytest

from guided.automaton.reference import ReferenceMachine
from guided.compiler import build_network
from guided.constraint import Constraint
from guided.errors import ConstraintError
from guided.limits import Budget

CASES_FILE = Path(__file__).resolve().parents[3] / "shared" / "constraint-cases.json"


def cases():
    if not CASES_FILE.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared/constraint-cases.json is not there"))]
    found = json.loads(CASES_FILE.read_text(encoding="utf-8"))
    return [pytest.param(case, id=case["id"]) for case in found if case["constraint"]["type"] in ("regex", "choice")]


@pytest.mark.parametrize("case", cases())
def test_case(case):
    try:
        make = getattr(Constraint, case["constraint"]["type"])
        machine = ReferenceMachine(build_network(make(case["constraint"]["value"]), Budget()))
    except ConstraintError:
        assert case["compile"] == "error" or case.get("loud_error_ok")
        return
    assert case["compile"] == "ok"
    optional = set(case.get("accept_optional", [])) | set(case.get("reject_optional", []))
    for text in case["accept"]:
        assert text in optional or machine.matches(text.encode()), text
    for text in case["reject"]:
        assert text in optional or not machine.matches(text.encode()), text
