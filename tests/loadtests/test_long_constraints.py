"""What the load tests take for the beginning of an answer, and that the constraints are enforced."""

from __future__ import annotations

import pytest

from guided.compiler import build_network
from guided.constraint import Constraint
from guided.limits import Budget, Limits
from loadtests.long_constraints import CHOICES, CONSTRAINTS, LETTERS, LONG_TEXT, NESTED, begins_an_answer

WHOLE = {
    "choice": CHOICES[3],
    "regex": "The quick, brown fox's dog. " * 40,
    "json": '{"text": "%s"}' % ('a "quoted" é line '.replace('"', '\\"') * 80),
    "grammar": "ab,(cd,((ef),gh)),abcdefghijkl",
}
OTHERS = {
    "choice": [" The harbour", "red stonered", "redstone  ", CHOICES[0] + "r"],
    "regex": ["The 3 ships", "line\nline", "é", "a" * 4001],
    "json": [
        " The harbour",
        '{"city": "Oslo',
        '{"text": 3',
        '["text',
        '{"text": "a"} more',
        '{"text": "short"}',
        '{"text": "a\nb',
    ],
    "grammar": ["The", " ab", "ab,,", ",ab", "ab)", "(ab))", "a,bc", "abcdefghijklm", "ab(", "()", "ab cd", "(,"],
}


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """No automaton runs here: overrides the fixture that compiles for them."""


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_every_beginning_of_an_answer_and_nothing_else(kind):
    assert all(begins_an_answer(kind, WHOLE[kind][:length]) for length in range(len(WHOLE[kind]) + 1))
    assert [text for text in OTHERS[kind] if begins_an_answer(kind, text)] == []
    assert begins_an_answer("plain", OTHERS[kind][0])


def test_all_of_them_are_enforced():
    for constraint in (
        Constraint.choice(CHOICES),
        Constraint.regex(LETTERS),
        Constraint.json_schema(LONG_TEXT),
        Constraint.grammar(NESTED),
    ):
        build_network(constraint, Budget(Limits()))
