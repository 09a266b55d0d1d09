"""The whitespace pattern of a request: used as it stands, or refused where it would break the document."""

from __future__ import annotations

import pytest

import guided
from guided.automaton.lazy_dfa import LazyDfa
from guided.compiler import build_network
from guided.limits import Budget


def accepts(pattern: str, text: str) -> bool:
    constraint = guided.Constraint.json_schema({"type": "array", "items": {"type": "null"}}, whitespace_pattern=pattern)
    return LazyDfa(build_network(constraint, Budget()), Budget()).matches(text.encode())


def test_the_pattern_is_what_may_stand_between_tokens():
    assert accepts(r"[ \n]{0,2}", "[ \nnull,null  ]")
    assert not accepts(r"[ \n]{0,2}", "[   null]")
    assert not accepts(r"[ \n]{0,2}", "[\tnull]")


def test_a_class_of_all_whitespace_means_that_of_json():
    assert accepts(r"\s*", "[\t\r\n null]")
    assert not accepts(r"\s*", "[\fnull]")


@pytest.mark.parametrize("pattern", ["x", " *|//.*", r"\f", "(?!)"])
def test_a_pattern_that_would_break_the_document_is_refused(pattern):
    with pytest.raises(guided.InvalidConstraint, match="whitespace pattern"):
        accepts(pattern, "[]")
