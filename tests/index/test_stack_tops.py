"""Rows found by the tops of stacks against the slow truth: every token is walked byte by byte with the whole stack."""

from __future__ import annotations

import random

import numpy as np
import pytest

import guided
from guided.automaton.endings import Endings
from guided.index.overshoot import Overshoot

TOKENS = [bytes([byte]) for byte in range(245)]
TOKENS += [
    b"}}",
    b"},",
    b"}\n",
    b"))",
    b"),",
    b"));",
    b");}",
    b"]]",
    b"]}",
    b"]},",
    b'"}',
    b'"]}',
    b'"},',
    b"el",
    b"else",
    b"se",
    b"{}",
]
TOKENS += [
    b"if(",
    b"if(a)",
    b"a;",
    b"a;}",
    b";}else",
    b"{if(a)",
    b"((a",
    b"1)",
    b"1))",
    b"+a",
    "é".encode(),
    'é")'.encode(),
    b"))*(((",
    b"a" * 40,
    b"ab\xc3",
]
VOCABULARY = guided.Vocabulary.from_tokens(TOKENS)

C_LIKE = """
start: block
block: "{" statement* "}"
statement: "if" "(" expression ")" statement ("else" statement)? | block | expression? ";"
expression: NAME | expression "+" expression | "(" expression ")" | NAME "(" (expression ("," expression)*)? ")"
NAME: /[a-z]+/
%ignore /[ \\n]/
"""
AMBIGUOUS = 'start: s "!"\ns: s s | "(" s ")" | "(" "a" ")" | "((" s "))"'
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "k": {"type": "string"},
                "v": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "n": {"$ref": "#/$defs/node"},
            },
            "required": ["k"],
        }
    },
    "$ref": "#/$defs/node",
}  # fmt: skip
NODE = '{"k": "a", "v": [{"k": "", "n": {"k": "b", "v": []}}, {"k": "c", "v": [{"k": "d"}]}], "n": {"k": "\\n"}}'
CASES = {  # a constraint and a text with deep stacks that satisfies it
    "statements": (guided.Constraint.grammar(C_LIKE), "{if(a){{b((c+a),d(e));}if(b)if(c){}else{;}else a;}{{;}}}"),
    "ambiguous": (guided.Constraint.grammar(AMBIGUOUS), "((a)((a))(a))(((a)(a)))!"),
    "tree": (guided.Constraint.json_schema(TREE), NODE),
    "tree in any order": (guided.Constraint.json_schema(TREE, property_order="any", whitespace="any"), NODE),
}


def slow_row(index: guided.TokenIndex, state: int) -> np.ndarray:
    dfa, row = index.automaton, np.zeros(-(-VOCABULARY.size // 32), np.uint32)
    for token, data in enumerate(TOKENS):
        if dfa.advance(state, data) >= 0:
            row[token >> 5] |= np.uint32(1 << (token & 31))
    return row


@pytest.mark.parametrize("name", CASES)
def test_rows_of_deep_states_are_the_slow_rows(name):
    constraint, text = CASES[name]
    chance = random.Random(7)
    index = guided.compile(constraint, VOCABULARY)
    state = index.start
    for byte in text.encode():
        aside = state
        for _ in range(4):  # along the text, and a few tokens off it
            mask = index.mask(aside)
            assert (mask == slow_row(index, aside)).all()
            allowed = [token for token in range(len(TOKENS)) if mask[token >> 5] >> (token & 31) & 1]
            if not allowed:
                break
            aside = index.advance(aside, chance.choice(allowed))
        state = index.advance(state, byte)
    assert index.is_accepting(state)
    assert index._tops is not None, "no state was deep: the test tests nothing"


@pytest.mark.parametrize("name", CASES)
def test_an_index_that_forgets_says_the_same(name):
    constraint, text = CASES[name]
    index = guided.compile(constraint, VOCABULARY)
    remembering = guided.compile(constraint, VOCABULARY)
    state = aside = same = index.start
    for place, byte in enumerate(text.encode()):
        assert (index.mask(state) == remembering.mask(same)).all()
        state, same = index.advance(state, byte), remembering.advance(same, byte)
        if place % 5 == 0:
            aside = state
        elif place % 5 == 4:  # the states of two requests stay
            known = index.num_states
            state, aside = index.forget_all_but([state, aside])
            assert index.num_states <= 3 < known
            assert (index.mask(aside) == slow_row(index, aside)).all()
    assert index.is_accepting(state)
    assert index.advance(index.start, text.encode()[0]) is not None


def test_a_crowded_index_goes_on():
    constraint = CASES["statements"][0]
    index = guided.compile(constraint, VOCABULARY, guided.Limits(states=120))
    state, times = index.start, 0
    for character in "{" + "".join("{" * depth + "a;" + "}" * depth for depth in range(1, 40)) + "}":
        index.mask(state)
        state = index.advance(state, ord(character))
        if index.is_crowded:
            (state,) = index.forget_all_but([state])
            times += 1
    assert times > 3 and index.is_accepting(state) and index.num_states <= 120


@pytest.mark.parametrize("name", CASES)
def test_no_token_needs_more_bytes_after_it_than_the_bound(name):
    constraint, text = CASES[name]
    index = guided.compile(constraint, VOCABULARY)
    endings = Endings(index.automaton)
    overshoot = Overshoot(index, endings)
    state, exact = index.start, 0
    for byte in text.encode():
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little"))
        targets = np.array([index.advance(state, int(token)) for token in allowed])
        needed = int(endings.lengths(targets).max())
        assert needed <= overshoot.most_bytes(state) <= 2 * needed + 2
        exact += needed == overshoot.most_bytes(state)
        state = index.advance(state, byte)
    assert exact > len(text) / 4


def test_nested_positions_share_what_their_tops_settle():
    index = guided.compile(CASES["statements"][0], VOCABULARY)
    state = index.start
    for character in "{" * 40 + "a;" * 3 + "}" * 40:
        index.mask(state)
        state = index.advance(state, ord(character))
    assert index.is_accepting(state)
    filled = int((index._tops.table.rows.row_of >= 0).sum())
    assert 0 < filled < 20, f"{filled} rows of tops for 86 positions"
