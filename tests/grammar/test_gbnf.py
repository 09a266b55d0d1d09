"""GBNF and EBNF: each construct of llama.cpp's and xgrammar's documentation, and each refusal with its place."""

import pytest

from guided.automaton.network import special_token_bytes
from guided.automaton.reference import ReferenceMachine
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.grammar import build_network
from guided.limits import Budget


def machine(text):
    return ReferenceMachine(build_network(text, {"syntax": "gbnf"}, Budget()))


CHESS = r"""
# Specifies chess moves as a list in algebraic notation, using PGN conventions (from llama.cpp's documentation)
root ::= (
    # it must start with the characters "1. " followed by a sequence
    # of characters that match the `move` rule
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?

# piece type, optional file/rank, optional capture, dest file & rank
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]

# optional file & capture, dest file & rank, optional promotion
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?

castle ::= "O-O" "-O"?
"""


@pytest.mark.parametrize(
    "grammar, accepted, rejected",
    [
        (CHESS, ["1. e4 e5\n2. Nf3 Nc6\n"], ["1. e4 e5\n", "e4"]),
        ('root ::= "a" | "b" |\n  "c"', ["a", "b", "c"], ["", "ab"]),
        ('root ::= "a"\n  | "b"\nx ::= "c"', ["a", "b"], ["c"]),
        ('root ::= "a"{2}', ["aa"], ["a", "aaa"]),
        ('root ::= "a"{2,}', ["aa", "aaaa"], ["a"]),
        ('root ::= "a"{0,2} "b"', ["b", "ab", "aab"], ["aaab"]),
        ('root ::= ("a" | "b"){2,3}', ["ab", "bab"], ["a", "abab"]),
        ('root ::= [^\\n"]+', ["é€😀 x"], ["", "a\n", '"']),
        ("root ::= [a-c-]+", ["a-c"], ["d"]),
        ("root ::= [\\]\\-\\\\^]+", ["]-\\^"], ["a"]),
        ('root ::= "\\x41\\u00e9\\U0001F600\\t\\"\\\\"', ['Aé😀\t"\\'], ["A"]),
        ("root ::= [\\x41-\\x43\\u00e9]+", ["ABCé"], ["D"]),
        ("root ::= . .", ["é€", "\n\n"], ["a", "abc"]),
        ('root ::= a.b\na.b ::= "x"', ["x"], ["xx"]),
        ('root ::= a.b\na ::= "x"\nb ::= "y"', ["x?y"], ["xy"]),
        ('root ::= ws "x" # a comment with "quotes" and ::=\nws ::= | " " ws', ["x", "  x"], ["x "]),
        ('root ::= root "a" | "b"', ["b", "baa"], ["a"]),
        ('root ::= ""', [""], ["a"]),
        ('my-rule_1 ::= "x"\nroot ::= my-rule_1', ["x"], [""]),
    ],
)
def test_language(grammar, accepted, rejected):
    running = machine(grammar)
    for text in accepted:
        assert running.matches(text.encode()), text
    for text in rejected:
        assert not running.matches(text.encode()), text


@pytest.mark.parametrize("written, name", [("<|tool|>", "<|tool|>"), ("<think>", "<think>"), ('<"[INST]">', "[INST]")])
def test_special_token(written, name):
    running = machine(f'root ::= "a" {written} "b"')
    assert running.matches(b"a" + special_token_bytes(name) + b"b")
    assert not running.matches(f"a{name}b".encode())


@pytest.mark.parametrize(
    "grammar, error, words, line, column",
    [
        ("root ::= foo", InvalidConstraint, "'foo' is used but not defined", 1, 9),
        ('root ::= "a"\nroot ::= "b"', InvalidConstraint, "more than once", 2, 0),
        ('root ::= ("a"', InvalidConstraint, "never closed", 1, 9),
        ('root ::= "a")', InvalidConstraint, "without an opening", 1, 12),
        ('root ::= "a', InvalidConstraint, "literal is never closed", 1, 9),
        ("root ::= [a", InvalidConstraint, "class is never closed", 1, 9),
        ("root ::= [c-a]", InvalidConstraint, "backwards", 1, 9),
        ('root ::= "\\q"', InvalidConstraint, "unknown escape", 1, 10),
        ('root ::= "\\ud800"', InvalidConstraint, "no character", 1, 10),
        ("root ::= * 'x'", InvalidConstraint, "unexpected character", 1, 11),
        ('root ::= "a"{3,2}', InvalidConstraint, "bad repetition", 1, 12),
        ('root ::= a\na ::= a "x"', InvalidConstraint, "matches nothing", 1, 0),
        ('root ::= "a" (= "b")', UnsupportedKeyword, "lookahead", 1, 13),
        ("root ::= <[12]>", UnsupportedKeyword, "by name", 1, 9),
        ("root ::= !<think>", UnsupportedKeyword, "negated", 1, 9),
        ("root ::= " + "(" * 60_000, LimitExceeded, "nested", 1, 1009),
    ],
)
def test_refused_with_its_place(grammar, error, words, line, column):
    with pytest.raises(error, match=words) as caught:
        build_network(grammar, {"syntax": "gbnf"}, Budget())
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).endswith("^")


def test_no_root():
    with pytest.raises(InvalidConstraint, match="no rule named 'root'"):
        build_network('a ::= "x"', {"syntax": "gbnf"}, Budget())


@pytest.mark.parametrize(
    "text, syntax",
    [
        ('start: "root ::= x"\n', "lark"),
        ('# start: x\nroot ::= "start: x"\n', "gbnf"),
        ('root ::= "a" | "\n  start: "\n', "gbnf"),
        ('a: "x"\n!start.2: a\n', "lark"),
        ("%import common.INT -> start\n", "lark"),
    ],
)
def test_the_form_decides(text, syntax):
    from guided.grammar.syntax import detect_syntax

    assert detect_syntax(text) == syntax


@pytest.mark.parametrize("text", ["", "hello", 'rule ::= "a"', 'begin: "a"', 'start: "a"\nroot ::= "b"\n'])
def test_no_form_fits(text):
    with pytest.raises(ConstraintError, match=r"Lark grammars.*GBNF grammars"):
        build_network(text, {}, Budget())
