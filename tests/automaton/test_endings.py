"""Completions found on the network against the shortest strings of the slow reference, on random networks and on real constraints."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import guided
from guided.automaton.endings import FAR, NOT_ALONE, Endings
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.automaton.reference import ReferenceMachine
from guided.compiler import build_network
from guided.limits import Budget, Limits
from tests.automaton.test_lazy_dfa import ALPHABET, network_of, rules


def shortest(machine: ReferenceMachine, text: bytes, most: int) -> int | None:
    """Bytes of the shortest completion of a text, by trying all strings level by level; None beyond `most`."""
    here = machine.start()
    for byte in text:
        here = machine.step(here, byte)
    level = {here}
    for length in range(most + 1):
        if any(machine.accepts(config) for config in level):
            return length
        level = {c for c in (machine.step(config, byte) for config in level for byte in ALPHABET) if c}
    return None


@settings(max_examples=150, deadline=None)
@given(rules, st.lists(st.sampled_from(list(ALPHABET)), max_size=6))
def test_shortest_in_a_network_that_is_all_built(description, text):
    network = network_of(description, late=False)
    if not network.trim():
        return
    dfa, machine = LazyDfa(network, Budget()), ReferenceMachine(network)
    state = dfa.advance(dfa.start, bytes(text))
    if state == DEAD:
        return
    expected = shortest(machine, bytes(text), 7)
    ending = Endings(dfa).ending(state)
    assert ending is not None
    assert dfa.matches(bytes(text) + ending)
    if expected is not None:
        assert len(ending) == expected
    else:
        assert len(ending) > 7


@pytest.mark.parametrize(
    ("avoided", "ending", "forced"),
    [(b"", b"ax", 0), (b"a", b"bcx", 0), (b"ab", b"ax", 1), (b"x", b"ax", 1), (b"bx", b"ax", 1)],
)
def test_bytes_that_cannot_be_written_alone_are_avoided(avoided, ending, forced):
    dfa = LazyDfa(build_network(guided.Constraint.regex("(a|bc)x"), Budget(Limits())), Budget(Limits()))
    alone = np.ones(256, np.bool_)
    alone[list(avoided)] = False
    endings = Endings(dfa, alone=alone)
    assert endings.ending(dfa.start) == ending
    assert endings.lengths(np.array([dfa.start]))[0] == len(ending) + forced * NOT_ALONE


CONSTRAINTS = {
    "recursive schema": guided.Constraint.json_schema(
        {"$ref": "#/$defs/node", "$defs": {"node": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 3}, "size": {"type": "integer"},
                           "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name", "size", "children"],
        }}}
    ),
    "any order": guided.Constraint.json_schema(
        {"type": "object", "properties": {f"p{i}": {"enum": [i]} for i in range(12)}, "required": [f"p{i}" for i in range(12)]},
        property_order="any",
    ),
    "any value": guided.Constraint.json_schema(True),
    "unique items": guided.Constraint.json_schema({"type": "array", "minItems": 3, "items": {"enum": [1, 2, 3]}, "uniqueItems": True}),
    "many required": guided.Constraint.json_schema(
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(200)}, "required": [f"p{i}" for i in range(200)]}
    ),
    "brackets": guided.Constraint.grammar('start: "(" start ")" | "[" start "]" | "x"'),
    "longest match": guided.Constraint.grammar(
        'start: item+\nitem: NAME | "if" item "fi" | "(" item* ")"\nNAME: /[a-z]+/\n%ignore " "\n'
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_wherever_a_random_text_stops_its_ending_completes_it(name):
    dfa = LazyDfa(build_network(CONSTRAINTS[name], Budget(Limits())), Budget(Limits()))
    endings, choose = Endings(dfa, seconds=60.0), random.Random(3)  # a machine may be slow
    for _ in range(12):
        state, text = dfa.start, b""
        for _ in range(choose.randrange(120)):
            allowed = [byte for byte in range(256) if dfa.step(state, byte) != DEAD]
            if not allowed:
                break
            byte = choose.choice(allowed)
            state, text = dfa.step(state, byte), text + bytes([byte])
            length = int(endings.lengths(np.array([state]))[0])
            assert length < FAR
        ending = endings.ending(state)
        assert ending is not None and len(ending) == endings.lengths(np.array([state]))[0]
        assert dfa.matches(text + ending)
        if CONSTRAINTS[name].kind == "json":
            json.loads(text + ending)
