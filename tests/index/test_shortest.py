"""Distances and token graphs of closed indexes against a search that follows the masks: what no mask allows leads nowhere."""

from __future__ import annotations

import math

import pytest

import guided
from guided.index.shortest import UNREACHABLE, token_graph
from guided.vocabulary import Vocabulary
from tests.token_search import distances, moves

SPECIAL = ["<eos>", "<tool_call>", "</s>"]
WORDS = [
    *(
        b" the",
        b"the",
        b"abc",
        b"aaaa",
        b" hello",
        b" a longer word",
        b"something",
        b"twelve chars",
        b"<tool",
        b"_call",
    ),
    *(b"</", b"think", b">\n", b'{"', b'":', b'": "', b'"}', b'",', b"ab", b"yes", b"no", b'\\"', b'"x'),
    *("é".encode(), "éa".encode(), "日本語".encode(), "日".encode()[:2], "ab日本".encode()),
]
BYTES = [bytes([byte]) for byte in range(256)]
LETTERS = [bytes([byte]) for byte in b'<>/_{}:" abcdefghiklnosty']
VOCABULARIES = {
    name: Vocabulary.from_tokens(
        [*(special.encode() for special in SPECIAL), *pieces, *WORDS],
        eos_ids=[0],
        special_token_ids={special: token for token, special in enumerate(SPECIAL)},
    )
    for name, pieces in {"every byte": BYTES, "some letters": LETTERS}.items()
}
OBJECT = {
    "type": "object",
    "properties": {"ab": {"type": "string", "maxLength": 3}, "the": {"enum": ["yes", "no"]}},
    "required": ["the"],
}
CHOICES = ["yes", "no", "<tool_call>", "a <tool_call> b", "</think>", "éa日本"]
GRAMMAR = 'start: "a" (<tool_call> | "<tool_call>") /[a-z]{1,12}/ <tool_call>?'
CONSTRAINTS = {
    "after a special token": guided.Constraint.regex("a").after("<tool_call>"),
    "after what may be spelt only": guided.Constraint.regex("a{2,5}").after("</think>"),
    "after text around a special token": guided.Constraint.choice(["yes", "no"]).after("\n<tool_call>\n{"),
    "after another special token": guided.Constraint.choice(CHOICES).after("a</s>", opening="<tool_call>"),
    "choice": guided.Constraint.choice(CHOICES),
    "json": guided.Constraint.json_schema(OBJECT),
    "json after a marker": guided.Constraint.json_schema(OBJECT, whitespace="compact").after("<tool_call>"),
    "json with any names": guided.Constraint.json_schema(
        {
            "type": "object",
            "maxProperties": 1,
            "propertyNames": {"maxLength": 4},
            "additionalProperties": {"type": "null"},
        },
        whitespace="compact",
        escapes="needed",
    ),
    "grammar": guided.Constraint.grammar(GRAMMAR),
    "grammar after a marker": guided.Constraint.grammar(GRAMMAR).after("a <tool_call> b"),
    "without some texts": guided.Constraint.regex(r"(?s).{0,12}abcb").avoiding(["twelve a", "<tool_call>"]),
    "text up to a word": guided.Constraint.regex(r"(?s).*abcdefghi"),
}


@pytest.fixture(params=[(name, kind) for name in CONSTRAINTS for kind in VOCABULARIES], ids=": ".join)
def index(request):
    name, kind = request.param
    return guided.compile(CONSTRAINTS[name], VOCABULARIES[kind])


def test_fewest_tokens_are_those_of_a_search_over_masks(index):
    far = distances(index)
    assert 0 < far[index.start] < math.inf
    index.close()
    for state, needed in far.items():
        assert index.min_tokens(state) == (UNREACHABLE if needed == math.inf else needed)


def test_the_graph_has_the_moves_that_masks_allow(index):
    far = distances(index)
    index.close()
    begin, successors = token_graph(*index.table.arrays(), lambda _: None)
    for state in far:
        following = successors[begin[state] : begin[state + 1]].tolist()
        assert len(following) == len(set(following))
        ends = {
            target for target in following if index.min_tokens(target) != UNREACHABLE
        }  # dead ends may be out of the masks
        assert ends == {target for target in moves(index, state).values() if far[target] < math.inf}
