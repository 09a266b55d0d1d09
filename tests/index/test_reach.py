"""Slices that are decided by reading characters against the slow truth: every token is walked byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

import guided
from guided.automaton.machine import TEXT

NAMES = {
    f"{first}{second}": {"type": "string"} for first in "abcdefgh" for second in ("", "bc", "bcdefgh", "xyzxyz", "é")
}
TOKENS = [bytes([byte]) for byte in range(245)]
TOKENS += [letter * size for letter in (b"a", b"b", b"/") for size in (2, 3, 4, 7, 24, 25, 60)]
TOKENS += [name.encode() + end for name in NAMES for end in (b"", b'"', b'":', b"\xc3", b"\xe4\xb8")]
TOKENS += [
    "éé".encode(),
    "中文".encode(),
    b"a\xe4\xb8",
    b"\xa9a",
    b'a"',
    b'\\"a',
    b"\\n",
    b"a\n",
    b"bcd",
    b"xyz",
    b"cdefgh",
]
VOCABULARY = guided.Vocabulary.from_tokens(TOKENS)

CONSTRAINTS = {
    "a circle beside a dead end": guided.Constraint.regex("(?s)a*[^a].."),
    "two circles": guided.Constraint.regex("(?s)a*(b[^b]*b)*[^ab]?.{0,30}"),
    "counted": guided.Constraint.json_schema({"type": "string", "maxLength": 30}),
    "names that are passed over": guided.Constraint.json_schema({"properties": NAMES}, additional_properties="allow"),
    "names in any order": guided.Constraint.json_schema(
        {"properties": NAMES, "required": ["abc"]}, additional_properties="allow", property_order="any"
    ),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize(
    "text", ["", "a", "b", "bb", '"', '"a', '{"', '{"a', '{"abc', '{"abcx', '{"q', '{"h', '{"a": "', '{"a": "", "b']
)
def test_rows_are_what_the_automaton_says(name, text):
    index = guided.compile(CONSTRAINTS[name], VOCABULARY)
    state = index.automaton.advance(index.start, text.encode())
    if state < 0:
        pytest.skip("not a beginning of this one")
    allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")).tolist()
    assert allowed == [t for t, token in enumerate(TOKENS) if index.automaton.advance(state, token) >= 0]


@pytest.mark.parametrize("text", ['{"', '{"a', '{"ab', '{"abcx', '{"é', '{"a": "', '{"a": "x'])
@pytest.mark.parametrize("name", ["names that are passed over", "names in any order"])
def test_states_that_say_so_read_any_text(name, text):
    """Each of them leads to another one, whatever character comes: so it does for ever."""
    dfa = guided.compile(CONSTRAINTS[name], VOCABULARY).automaton
    waiting = [dfa.advance(dfa.start, text.encode())]
    seen = set(waiting)
    characters = [chr(code) for code in range(0x20, 0x80) if chr(code) not in '"\\'] + list(
        "é߿ࠀ中퟿\ue000\uffff😀\U0010ffff"
    )
    for state in waiting:  # grows as states are found
        assert _says_that_it_reads_text(dfa, state)
        following = {dfa.advance(state, character.encode()) for character in characters}
        assert -1 not in following
        waiting += following - seen
        seen |= following


def _says_that_it_reads_text(dfa, state: int) -> bool:
    machine = dfa.machine
    items = machine.items[machine.config_begin[state] : machine.config_begin[state + 1], 0]
    return bool(dfa.network.states[items, TEXT].any())
