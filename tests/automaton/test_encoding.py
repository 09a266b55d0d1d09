"""Encoders against `str.encode` and `json.loads`."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from guided.automaton.char_nfa import determinise, literal, star, union
from guided.automaton.charset import ANY, CharSet
from guided.automaton.encoding import JsonStringEncoder, Utf8Encoder, embed_dfa, embed_nfa
from guided.automaton.network import Network
from guided.automaton.reference import ReferenceMachine
from guided.limits import Budget

# Where the number of bytes, the need of an escape, or the number of \u units changes, each with its neighbours.
EDGES = [
    0,
    0x1F,
    0x20,
    0x22,
    0x2F,
    0x5C,
    0x7F,
    0x80,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x3FFFF,
    0x40000,
]
INTERESTING = sorted({p + d for p in (*EDGES, 0xFFFFF, 0x100000, 0x10FFFF) for d in (-1, 0, 1)} & set(ANY))
INTERESTING += [ord(c) for c in "\b\f\n\r\taA0é中😀"]
SETS = st.lists(st.tuples(st.sampled_from(INTERESTING), st.sampled_from(INTERESTING)), max_size=4).map(
    CharSet.from_ranges
)


def machine(fill):
    """The machine of a network whose root rule `fill(network, start, end)` builds."""
    network = Network()
    network.root = network.rule()
    start, end = network.state(), network.state(final=True)
    fill(network, start, end)
    network.define(network.root, start)
    network.build_all()
    network.trim()
    return ReferenceMachine(network)


def json_forms(character):
    """Every way to write a character in a JSON string, by brute force over the grammar of RFC 8259."""
    units = character.encode("utf-16-be")
    hexes = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
    forms = {"".join(f"\\u{h}" for h in hexes), "".join(f"\\u{h.upper()}" for h in hexes)}
    short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if character in short:
        forms.add(short[character])
    if character >= " " and character not in '"\\':
        forms.add(character)
    return forms


@settings(max_examples=50, deadline=None)
@given(SETS)
def test_utf8_of_a_set(characters):
    reads = machine(lambda n, s, t: Utf8Encoder(n).char(s, characters, t)).matches
    for point in INTERESTING:
        assert reads(chr(point).encode()) == (point in characters)


def test_utf8_refuses_what_is_not_utf8():
    reads = machine(lambda n, s, t: Utf8Encoder(n).char(s, ANY, t)).matches
    for bad in (
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\x80",
        b"\xff",
    ):
        assert not reads(bad), bad


@settings(max_examples=50, deadline=None)
@given(SETS, st.booleans())
def test_json_of_a_set(characters, escapes):
    reads = machine(lambda n, s, t: JsonStringEncoder(n, unicode_escapes=escapes).char(s, characters, t)).matches
    for point in INTERESTING:
        forms = json_forms(chr(point))
        assert any(reads(form.encode()) for form in forms) == (point in characters)
        if escapes:
            assert all(reads(form.encode()) == (point in characters) for form in forms)


def test_json_reads_only_json():
    reads = machine(lambda n, s, t: JsonStringEncoder(n).char(s, ANY, t)).matches
    for bad in [
        '"',
        "\\",
        "\n",
        "\x00",
        "\\x",
        "\\u12",
        "\\ud800",
        "\\udc00",
        "\\ud800\\u0041",
        "\\udc00\\ud800",
        "\\ud83d",
        "ab",
        "",
    ]:
        assert not reads(bad.encode()), bad
    assert reads(b"\\uD83d\\ude00") and json.loads('"\\uD83d\\ude00"') == "😀"


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=6))
def test_text(text):
    utf8 = machine(lambda n, s, t: Utf8Encoder(n).text(s, text, t))
    in_json = machine(lambda n, s, t: JsonStringEncoder(n).text(s, text, t))
    assert utf8.matches(text.encode()) and not utf8.matches(text.encode() + b"x")
    for ascii_only in (True, False):
        assert in_json.matches(json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode())
    assert in_json.matches(text.encode()) == (json.dumps(text, ensure_ascii=False) == f'"{text}"')


@pytest.mark.parametrize("embed", [embed_nfa, embed_dfa])
@pytest.mark.parametrize("through_target", [False, True])
def test_embedded_automata(embed, through_target):
    nfa = star(union(literal("aé"), literal("b😀")))
    nfa.arc(nfa.start, CharSet.of("z"), nfa.state())  # a dead branch, which must not be embedded
    automaton = determinise(nfa, Budget()) if embed is embed_dfa else nfa
    network = Network()
    network.root = network.rule()
    target = network.state(final=True) if through_target else None
    network.define(network.root, embed(network, automaton, Utf8Encoder(network), target))
    reads = ReferenceMachine(network)
    assert reads.matches("aéb😀aé".encode()) and reads.matches(b"") and not reads.matches(b"a")
    config = reads.start()
    assert not reads.step(config, ord("z"))
