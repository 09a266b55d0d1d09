"""How many tokens the shortest answer needs: by spelling a short string where the index grows, never less than the truth."""

from __future__ import annotations

import pytest

import guided
from guided.compiler import fewest_tokens
from guided.index.spelling import Speller
from guided.vocabulary import Vocabulary

CONSTRAINTS = [
    guided.Constraint.choice(["POSITIVE", "NEGATIVE"]),
    guided.Constraint.regex(r"[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{2,5}"),
    guided.Constraint.json_schema(
        {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}, "required": ["name", "n"]}
    ),
    guided.Constraint.regex(r"[0-9]+").after("###"),  # letters lead on to the marker, and of the marker on digits alone do
    guided.Constraint.grammar('start: "SELECT " NAME " FROM " NAME\nNAME: /[a-z]+/'),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.kind)
def test_the_bound_is_the_truth_for_everyday_constraints(vocabulary, constraint):
    index = guided.compile(constraint, vocabulary)
    known = fewest_tokens(index)
    assert not index.is_closed, "asking does not close it"
    index.close()
    assert fewest_tokens(index) == index.min_tokens(index.start) <= known <= index.min_tokens(index.start) + 1


def test_recursive_constraints_have_one_too(vocabulary):
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"const": 0}]}},
        "required": ["next"],
    }
    schema = {"$ref": "#/$defs/n", "$defs": {"n": node}}
    index = guided.compile(guided.Constraint.json_schema(schema), vocabulary)
    assert fewest_tokens(index) in (3, 4, 5)  # {"next":0}


def test_spelling():
    tokens = [b"", b"a", b"ab", b"b", b"d", b"", b"c"]
    speller = Speller(Vocabulary.from_tokens(tokens, eos_ids=[0], special_token_ids={"<x>": 5}))
    assert [tokens[token] for token in speller.spell(b"abc") or ()] == [b"ab", b"c"]
    assert speller.spell(b"") == ()
    assert speller.spell(b"ab\xff<x>\xffb") == (2, 5, 3)
    assert speller.spell(b"abe") is None
    assert speller.spell(b"\xff<y>\xff") is None
