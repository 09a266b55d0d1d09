"""The boolean filter of the README, through the reference machine, against Lark's Earley parser."""

import pytest
from lark import Lark
from lark.exceptions import LarkError

from guided.automaton.reference import ReferenceMachine
from guided.grammar import build_network
from guided.limits import Budget

FILTER = r"""
start: expr
expr: term ((" AND " | " OR ") term)*
term: "NOT "? atom
atom: FIELD ":" VALUE | "(" expr ")"
FIELD: "name" | "status" | "owner"
VALUE: /"[^"]*"/
"""

TEXTS = {
    'name:"a"': True,
    'NOT (name:"a" OR status:"open") AND owner:"é"': True,
    '((name:""))': True,
    'name:"a" AND': False,
    'name:"a" AND ': False,
    '(name:"a"': False,
    'title:"a"': False,
    'NOT NOT name:"a"': False,
    "": False,
}


@pytest.mark.parametrize("text, expected", TEXTS.items())
def test_filter_accepts_what_lark_parses(text, expected):
    try:
        Lark(FILTER, parser="earley").parse(text)
        parses = True
    except LarkError:
        parses = False
    assert parses == expected
    assert ReferenceMachine(build_network(FILTER, {}, Budget())).matches(text.encode()) == expected
