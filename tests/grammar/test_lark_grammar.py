"""Lark's grammar language: each construct against Lark itself, and each refusal with its place."""

import pytest
from lark import Lark
from lark.exceptions import LarkError

from guided.automaton.network import special_token_bytes
from guided.automaton.reference import ReferenceMachine
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.grammar import build_network
from guided.limits import Budget

CONSTRUCTS = {
    "rule marks": '?start: _a | b -> other\n_a: "x"\n!b: "y" "z"\n',
    "optional": 'start: "a" ["b"] ["c" "d"]\n',
    "counts": 'start: "a"~2 "b"~1..3 ("c" "d")~0..2\n',
    "case": 'start: "abc"i "d"\n',
    "flags": "start: A B C\nA: /a.b/s\nB: /x y  # comment\n/xi\nC: /é/i\n",
    "range": 'start: "a".."f" X\nX: "0".."3"\n',
    "terminal algebra": 'start: T\nT: (A | "b" A)~2 ["c"] D?\nA: "a"\nD: /d+/\n',
    "imports": 'start: NUMBER [name]\nname: CNAME\n%import common (NUMBER, CNAME)\n',
    "import as": "start: I W\n%import common.INT -> I\n%import common.WS -> W\n",
    "import of rules": "start: x\n%import lark.name -> x\n",
    "strings": 'start: ESCAPED_STRING "," SIGNED_FLOAT\n%import common.ESCAPED_STRING\n%import common.SIGNED_FLOAT\n',
    "comments": "start: A B\nA: C_COMMENT\nB: CPP_COMMENT\n%import common (C_COMMENT, CPP_COMMENT)\n",
    "ignore": 'start: "a" B\nB: "b"\n%ignore " "\n%ignore /#[^\\n]*/\n%ignore B\n',
    "templates": 'start: list{A, ","} | pair{A, list{"b", ";"}}\nlist{x, s}: x (s x)*\npair{x, y}: x "=" y\nA: "a"\n',
    "template as argument": 'start: twice{t}\ntwice{f}: f{"a"} f{"b"}\nt{x}: x x\n',
    "priority": 'start: a | B\na.2: "x"\nB.-1: "y"\n',
    "override": 'start: INT\n%import common.INT\n%override INT: "x" | "y"\n',
    "extend": 'start: a T\na: "x"\n%extend a: "y" | "z"\nT: "t"\n%extend T: "tt"\n',
    "left recursion": 'start: a\na: a "x" | b\nb: a "y" | "z"\n',
    "hidden left recursion": 'start: a\na: e a "x" | "z"\ne: "e" |\n',
    "nullable everything": 'start: a b\na: b? |\nb: "b"* | a\n',
    "keywords and names": 'start: "if" NAME "in" NAME\nNAME: /[a-z]+/\n%ignore / /\n',
    "lookahead": 'start: (A | B)+\nA: /0(?![1-9])/\nB: /[0-9]/\n',
    "unicode": 'start: "ü" /\\w+/ "€"\n',
    "multi-line": 'start: "a"\n     | "b"\n     // comment\n     | "c"\n',
}  # fmt: skip

WORDS = (
    "x y yz a ab abcd acd aab aabcdcd aabbbcd abc ABCd AbCd abcD a0 f3 g0 a4 aa baac aacd aacdd aba b 1 12.5foo 1.e 1foo "
    'foo FOO "a",1.5 "a\\"b",-2e5 "a"b",1.0 /*a*///b /*a*/ */// bb abb a,a a=b;b a=a aabb abab xt ytt ztt xx z zx zy zyx ezx '
    "zxx if ifa 0 01 10 00 üaé€ ü€ üé9€ c"
)
SPACED = (
    "", "if a in b", "if  a in  b", "ifa in b", "if ain b", "a\nbxyÉ", "axbxyé", "12\n", "12 \n", "12\t", "1 foo", "a #c",
    "a#c\nb", " a b ", "ab b", "/*a*///b c", "/*a\n*///",
)  # fmt: skip
TEXTS = [*WORDS.split(" "), *SPACED]


@pytest.mark.parametrize("grammar", CONSTRUCTS.values(), ids=CONSTRUCTS.keys())
def test_construct(grammar):
    machine = ReferenceMachine(build_network(grammar, {}, Budget()))
    lark = Lark(grammar, parser="earley", ambiguity="forest")
    accepted = 0
    for text in TEXTS:
        try:
            lark.parse(text)
            parses = True
        except LarkError:
            parses = False
        assert machine.matches(text.encode()) == parses, repr(text)
        accepted += parses
    assert accepted, "no text of this construct"


@pytest.mark.parametrize("written, name", [("<|tool|>", "<|tool|>"), ("<think>", "<think>"), ('<"[INST]">', "[INST]")])
def test_special_token(written, name):
    machine = ReferenceMachine(
        build_network(f'start: A {written} "b" // <x>\nA: /<a>|[<]/\n%ignore " "\n', {}, Budget())
    )
    assert machine.matches(b"<a> " + special_token_bytes(name) + b" b")
    assert not machine.matches(f"<a>{name}b".encode())


@pytest.mark.parametrize(
    "grammar, error, words, line, column",
    [
        ("start: foo\n", InvalidConstraint, "'foo' is used but not defined", 1, 7),
        ('start: "a"\nb: FOO\n', InvalidConstraint, "'FOO' is used but not defined", 2, 3),
        ('start: "a\n', InvalidConstraint, "unexpected character", 1, 7),
        ('start: ("a"\nb: "c"\n', InvalidConstraint, "not a Lark grammar", 1, 11),
        ('start: "a"\nstart: "b"\n', InvalidConstraint, "more than once", 2, 0),
        ('start: a\na: a "x"\n', InvalidConstraint, "'start' matches nothing", 1, 0),
        ('start: "x"\na: a "x"\n', InvalidConstraint, "'a' matches nothing", 2, 0),
        ('start: ""\n', InvalidConstraint, "[Ee]mpty", 1, 7),
        ('start: "\\ud800"\n', InvalidConstraint, "lone surrogate", 1, 7),
        ('start: A\nA: B\nB: A "x"\n', InvalidConstraint, "recursion in terminal", 2, 0),
        ('start: A\nA: b\nb: "x"\n', InvalidConstraint, "rules are not allowed inside terminals", 2, 3),
        ('start: "a"~3..2\n', InvalidConstraint, "bad repetition", 1, 11),
        ('start: t{"a", "b"}\nt{x}: x\n', InvalidConstraint, "takes 1 template arguments, not 2", 1, 7),
        ('start: "ab".."c"\n', InvalidConstraint, "single characters", 1, 7),
        ('start: _a\n_a: "x" -> b\n', InvalidConstraint, "cannot have aliases", 2, 11),
        ("start: A\n%declare A\n", UnsupportedKeyword, "%declare", 2, 9),
        ("start: A\n%import .secrets.A\n", UnsupportedKeyword, "only the grammars that come with Lark", 2, 9),
        ("start: A\n%import etc.A\n", UnsupportedKeyword, "only the grammars that come with Lark", 2, 8),
        ("start: <[12]>\n", InvalidConstraint, "by name", 1, 7),
        ("start: /a(/\n", InvalidConstraint, "not a regular expression", 1, 7),
        ('start: "a" /b*+/\n', UnsupportedKeyword, "possessive", 1, 11),
        ('start: "z".."a"\n', InvalidConstraint, "bad character range", 1, 7),
        ('start: A\nA: ""\n', InvalidConstraint, "[Ee]mpty", 2, 0),
        ("start: A\nA: /a(/\n", InvalidConstraint, "not a regular expression", 2, 0),
        ('start: "a"\n%ignore /b(/\n', InvalidConstraint, "not a regular expression", 2, 8),
        ("%import common.NOPE\nstart: NOPE\n", InvalidConstraint, "there is no 'NOPE'", 1, 8),
        ("start: " + "(" * 60_000 + '"a"' + ")" * 60_000, LimitExceeded, "nested", 1, 1007),
    ],
)
def test_refused_with_its_place(grammar, error, words, line, column):
    with pytest.raises(error, match=words) as caught:
        build_network(grammar, {"syntax": "lark"}, Budget())
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).endswith("^")


@pytest.mark.parametrize(
    "grammar, words",
    [
        ('root: "x"\n', "no rule named 'start'"),
        ("start: A A\nA: /a+/\n", "matches no string"),
        ("start: x\n%import common.NOPE -> x\n", "there is no 'NOPE'"),
        ("start: f\n%import python.file_input -> f\n", "%declare"),
        ("start: A\nA: /(a)\\1/\n", "back reference"),
        ("start: A\nA: /(/\n", "not a regular expression"),
    ],
)
def test_refused(grammar, words):
    with pytest.raises(ConstraintError, match=words):
        build_network(grammar, {"syntax": "lark"}, Budget())


def test_nothing_is_read_from_the_file_system(tmp_path, monkeypatch):
    (tmp_path / "common.lark").write_text('INT: "pwned"\n')
    monkeypatch.chdir(tmp_path)
    machine = ReferenceMachine(build_network("start: INT\n%import common.INT\n", {}, Budget()))
    assert machine.matches(b"12")
    assert not machine.matches(b"pwned")
