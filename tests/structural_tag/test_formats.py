"""Structural tags: what they allow, compared with trying every place in a text, with xgrammar, and with what they say."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import guided
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.compiler import build_network
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.limits import Budget
from guided.structural_tag.reading import read
from tests.structural_tag.reference import matches

ANY = {"type": "any_text"}


def const(value: str) -> dict:
    return {"type": "const_string", "value": value}


def regex(pattern: str) -> dict:
    return {"type": "regex", "pattern": pattern}


def tag(begin: str, content: dict, end) -> dict:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def sequence(*elements: dict) -> dict:
    return {"type": "sequence", "elements": list(elements)}


def either(*elements: dict) -> dict:
    return {"type": "or", "elements": list(elements)}


def constraint(format: dict, **options) -> guided.Constraint:
    return guided.Constraint.structural_tag({"type": "structural_tag", "format": format}, **options)


def automaton(format: dict, **options) -> LazyDfa:
    return LazyDfa(build_network(constraint(format, **options), Budget()), Budget())


# --- against trying every place ---------------------------------------------------------------------------------------

short = st.text("abc", min_size=1, max_size=2)
avoided = st.lists(short, max_size=2)
leaves = st.one_of(
    st.builds(lambda strings: {"type": "any_text", "excludes": strings}, avoided),
    st.builds(const, st.text("abc", max_size=2)),
    st.builds(regex, st.sampled_from(["a*", "[ab]", "(ab)?c", "[^a]*"])),
)


def tags(contents, begins=short):
    return st.builds(
        tag, begins, contents, st.one_of(short, st.lists(st.text("abc", max_size=2), min_size=1, max_size=2))
    )


def triggered(contents):
    def build(triggers, rests, contents, ends, at_least_one, stop_after_first, excludes):
        found = [tag(t + r, c, e) for t, r, c, e in zip(triggers, rests, contents, ends, strict=False)]
        return {
            "type": "triggered_tags",
            "triggers": triggers[: len(found)],
            "tags": found,
            "at_least_one": at_least_one,
            "stop_after_first": stop_after_first,
            "excludes": excludes,
        }

    triggers = st.lists(short, min_size=1, max_size=2, unique_by=lambda trigger: trigger[0])
    several = st.lists(contents, min_size=2, max_size=2)
    texts = st.lists(st.text("abc", max_size=1), min_size=2, max_size=2)
    ends = st.lists(short, min_size=2, max_size=2)
    return st.builds(build, triggers, texts, several, ends, st.booleans(), st.booleans(), avoided)


def larger(contents):
    separated = st.builds(
        lambda tags, separator, at_least_one, only_one: {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": separator,
            "at_least_one": at_least_one,
            "stop_after_first": only_one,
        },
        st.lists(tags(contents), min_size=1, max_size=2),
        st.text("abc", max_size=1),
        st.booleans(),
        st.booleans(),
    )
    dispatched = st.builds(
        lambda patterns, contents, loop, excludes: {
            "type": "dispatch",
            "rules": [list(rule) for rule in zip(patterns, contents, strict=False)],
            "loop": loop,
            "excludes": excludes,
        },
        st.lists(short, min_size=1, max_size=2),
        st.lists(contents, min_size=2, max_size=2),
        st.booleans(),
        avoided,
    )
    return st.one_of(
        st.builds(sequence, contents, contents),
        st.builds(either, contents, contents),
        st.builds(
            lambda kind, content: {"type": kind, "content": content},
            st.sampled_from(["optional", "star", "plus"]),
            contents,
        ),
        st.builds(lambda content: {"type": "repeat", "min": 1, "max": 2, "content": content}, contents),
        tags(contents),
        triggered(contents),
        separated,
        dispatched,
    )


TEXTS = ["".join(letters) for size in range(6) for letters in itertools.product("abc", repeat=size)]


@settings(max_examples=150, deadline=None)
@given(larger(st.recursive(leaves, larger, max_leaves=3)))
def test_a_tag_allows_what_trying_every_place_finds(format):
    try:
        dfa = automaton(format)
    except guided.ConstraintError as error:
        assert not any(matches(read({"format": format}), text) for text in TEXTS), error
        return
    wanted = read({"format": format})
    for text in TEXTS:
        assert dfa.matches(text.encode()) == matches(wanted, text), text


@settings(max_examples=60, deadline=None)
@given(larger(leaves), st.text("abcx", max_size=4))
def test_what_has_begun_can_be_ended(format, text):
    try:
        dfa = automaton(format)
    except guided.ConstraintError:
        return
    state = dfa.advance(dfa.start, text.encode())
    waiting, seen = [state], {state}
    while state != DEAD and waiting:
        here = waiting.pop()
        if dfa.is_accepting(here):
            return
        following = {dfa.step(here, byte) for byte in b"abcx\xc3\x80"} - seen - {DEAD}
        seen |= following
        waiting += sorted(following)
    assert state == DEAD, "nothing that has begun is stuck"


# --- against xgrammar -------------------------------------------------------------------------------------------------


def calls(**more) -> dict:
    tags = [tag("<f1>", regex("[0-9]+"), "</f>"), tag("<f2>", const("k"), "</f>")]
    return {"type": "triggered_tags", "triggers": ["<f"], "tags": tags, **more}


def listed(**more) -> dict:
    tags = [tag("<f1>", regex("[0-9]+"), "</f>"), tag("<f2>", const("k"), "</f>")]
    return {"type": "tags_with_separator", "tags": tags, "separator": ",", **more}


CALLS = ["", "abc", "a<f1>1</f>b", "a<f", "a<g", "<f1>1</f><f2>k</f>", "<f3>", "<f1>x</f>", "<f1>1</f>b", "<f1>1</f>x"]
LISTS = ["", "<f1>1</f>", "<f1>1</f>,", "<f1>1</f>,<f2>k</f>", "[]", "[<f1>1</f>]", "[<f1>1</f>,]"]
SAME = [
    (sequence(ANY, const("x")), ["abx", "axbx", "x", "ab"]),
    (tag("<a>", ANY, "</a>"), ["<a>x</a>", "<a>x</a></a>", "<a></a>", "<a>x"]),
    (tag("<a>", ANY, ["</a>", "</b>"]), ["<a>x</b>", "<a>x</a></b>"]),
    (tag("<a>", ANY, ["", "</a>"]), ["<a>x", "<a>x</a>", "<a>x</a>y"]),
    (tag("<a>", regex(".*"), "</a>"), ["<a>x</a>", "<a>x</a></a>"]),
    (calls(), CALLS),
    (calls(at_least_one=True), CALLS),
    (calls(stop_after_first=True), CALLS),
    (calls(at_least_one=True, stop_after_first=True), CALLS),
    (tag("[", calls(), "]"), ["[abc]", "[a<f1>1</f>b]", "[a]b]", "[a<f1>1</f>]", "[a<f1>1</f>]]"]),
    (tag("[", calls(stop_after_first=True), "]"), ["[abc]", "[<f1>1</f>b]", "[a<f1>1</f>]", "[<f1>1</f>]", "[]"]),
    (sequence(calls(), const("x")), ["abx", "a<f1>1</f>bx", "x", "axbx"]),
    (listed(), LISTS),
    (listed(at_least_one=True), LISTS),
    (listed(stop_after_first=True), LISTS),
    (tag("[", listed(), "]"), LISTS),
    (tag("<a>", {"type": "any_text", "excludes": ["zz"]}, "</a>"), ["<a>z</a>", "<a>zz</a>"]),
    (tag("<", {"type": "star", "content": tag("(", ANY, ")")}, ">"), ["<>", "<(a)(b)>", "<(a)(b)>>", "<(a>)>"]),
    (tag("<", sequence(ANY, const("k")), ">"), ["<k>", "<ak>", "<a>k>", "<akk>"]),
    (tag("<", either(ANY, const("k")), ">"), ["<>", "<a>", "<a>>"]),
    ({"type": "dispatch", "rules": [["<f", const("1")], ["<g", const("2")]]}, ["", "a<f1b", "a<f2", "<f1<g2"]),
    ({"type": "dispatch", "rules": [["<f", const("1")]], "loop": False}, ["", "a<f1", "a<f1b", "<f1<f1"]),
]


@pytest.mark.parametrize(("format", "texts"), SAME)
def test_a_tag_allows_what_xgrammar_allows(format, texts):
    xgrammar = pytest.importorskip("xgrammar")
    testing = pytest.importorskip("xgrammar.testing")
    grammar = xgrammar.Grammar.from_structural_tag(json.dumps({"type": "structural_tag", "format": format}))
    dfa = automaton(format)
    for text in texts:
        assert dfa.matches(text.encode()) == testing._is_grammar_accept_string(grammar, text), text


# --- what is inside ---------------------------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


def test_each_kind_of_constraint_inside_of_a_tag():
    grammar = 'start: "(" start ")" | "x"'
    dfa = automaton(
        {
            "type": "triggered_tags",
            "triggers": ["<"],
            "tags": [
                tag("<json>", {"type": "json_schema", "json_schema": PERSON}, "</json>"),
                tag("<grammar>", {"type": "grammar", "grammar": grammar}, "</grammar>"),
                tag("<regex>", regex(r"\d{2}"), "</regex>"),
            ],
        }
    )
    for text in ("so", '<json>{"name": "a<b"}</json>', "é <grammar>((x))</grammar> <regex>12</regex>."):
        assert dfa.matches(text.encode()), text
    for text in ("<", "<json>{}</json>", "<grammar>((x)</grammar>", "<regex>123</regex>", "<other>"):
        assert not dfa.matches(text.encode()), text


def test_options_of_json_hold_for_each_schema_and_a_schema_may_have_its_own():
    own = {"type": "json_schema", "json_schema": PERSON, "any_order": True, "max_whitespace_cnt": 1}
    plain = {"type": "json_schema", "json_schema": PERSON}
    dfa = automaton(sequence(plain, own), whitespace="compact")
    assert dfa.matches(b'{"name":"a"}{"age": 1,"name":"a"}')
    assert not dfa.matches(b'{"name": "a"}{"name":"a"}')
    assert not dfa.matches(b'{"age":1,"name":"a"}{"name":"a"}')
    assert not dfa.matches(b'{"name":"a"}{"age":  1,"name":"a"}')


def test_the_end_of_a_grammar_whose_words_look_ahead():
    grammar = 'start: (WORD | NUMBER)+\nWORD: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'
    dfa = automaton(tag("<", {"type": "grammar", "grammar": grammar}, ">"))
    assert dfa.matches(b"<ab 12>")
    assert dfa.matches(b"<a>")
    assert not dfa.matches(b"<a>>")


def test_both_forms_say_the_same():
    old = {"structures": [{"begin": "<f>", "schema": PERSON, "end": "</f>"}], "triggers": ["<f"]}
    dfa = LazyDfa(build_network(guided.Constraint.structural_tag(json.dumps(old)), Budget()), Budget())
    for text, wanted in (('x<f>{"name": "a"}</f>y', True), ("<f>{}</f>", False), ("<g", True), ("", True)):
        assert dfa.matches(text.encode()) == wanted, text


def test_marks_are_found_as_special_tokens_too():
    content = {"type": "json_schema", "json_schema": {"type": "integer"}}
    dfa = automaton(
        {
            "type": "triggered_tags",
            "triggers": ["<tool_call>"],
            "tags": [tag('<tool_call>\n{"name": ', content, "}\n</tool_call>")],
        }
    )
    opened, closed = b"\xff<tool_call>\xff", b"\xff</tool_call>\xff"
    for begin in (b"<tool_call>", opened):
        for end in (b"</tool_call>", closed):
            assert dfa.matches(b"so " + begin + b'\n{"name": 1}\n' + end + b" and")
            assert not dfa.matches(b"so " + begin + b'{"name": 1}\n' + end)
    assert dfa.advance(dfa.start, b"\xff<|im_start|>\xff") == DEAD, "no other special token is text"


def test_a_trigger_may_be_part_of_a_special_token():
    dfa = automaton({"type": "triggered_tags", "triggers": ["<too"], "tags": [tag("<tool>", const("k"), "</tool>")]})
    assert dfa.matches(b"a<tool>k</tool>")
    assert dfa.matches(b"a\xff<tool>\xffk\xff</tool>\xff")
    assert not dfa.matches(b"a\xff<tool>\xffx\xff</tool>\xff")


def test_what_is_kept_out_of_a_text_may_begin_its_end():
    text = {"type": "any_text", "excludes": ["<|open|>", "<|close|>"]}
    dfa = automaton(tag("", text, "<|close|>response<|sep|>"))
    assert dfa.matches(b"so<|close|>response<|sep|>")
    assert dfa.matches(b"so\xff<|close|>\xffresponse\xff<|sep|>\xff")
    assert dfa.advance(dfa.start, b"so<|close|>x") == DEAD
    assert dfa.advance(dfa.start, b"so<|open|>") == DEAD


def test_a_text_as_a_json_string():
    grammar = 'start: "say \\"" start "\\"" | "a\\n" | "é\\\\"'
    for content in ({"type": "grammar", "grammar": grammar}, regex(r'(say ")*(a\n|é\\)"*')):
        dfa = automaton({"type": "json_string", "content": content})
        for text in ("a\n", "é\\", 'say "a\n"', 'say "say "é\\""'):
            assert dfa.matches(json.dumps(text, ensure_ascii=False).encode()), text
        for text in ('"a\n"', '"x"', '"say "a\\n""', '"é"'):
            assert not dfa.matches(text.encode()), text


# --- arguments as tags ------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "id": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/code"}]},
    },
    "required": ["city", "days"],
    "$defs": {"code": {"const": "x1"}},
}
WRITTEN = [
    ({"city": "Rome", "days": "3"}, True),
    ({"city": "a </b> <p", "days": "3", "unit": "C"}, True),
    ({"city": "Rome", "days": "0"}, False),
    ({"city": "Rome", "days": "3", "unit": '"C"'}, False),
    ({"city": "Rome", "days": "3", "code": "AB", "id": "7"}, True),
    ({"city": "Rome", "days": "3", "code": "ABC"}, False),
    ({"city": "Rome", "days": "3", "id": "x1"}, True),
    ({"city": "Rome", "days": "3", "id": "x2"}, False),
    ({"city": "Rome"}, False),
    ({"days": "3", "city": "Rome"}, False),
]


@pytest.mark.parametrize(
    ("style", "form"),
    [
        ("qwen_xml", "<parameter={}>{}</parameter>"),
        ("minimax_xml", '<parameter name="{}">{}</parameter>'),
        ("glm_xml", "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"),
    ],
)
def test_arguments_in_tags(style, form):
    dfa = automaton({"type": "json_schema", "json_schema": ARGUMENTS, "style": style})
    for arguments, wanted in WRITTEN:
        text = "".join(form.format(*argument) for argument in arguments.items())
        assert dfa.matches(text.encode()) == wanted, text


def test_arguments_whose_tags_say_whether_they_are_strings():
    dfa = automaton({"type": "json_schema", "json_schema": ARGUMENTS, "style": "deepseek_xml"})
    form = '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>'
    city, days = form.format("city", "true", "Rome"), form.format("days", "false", "3")
    for last, wanted in (("7", "false"), ("x1", "true")):
        assert dfa.matches((city + days + form.format("id", wanted, last)).encode())
        other = "false" if wanted == "true" else "true"
        assert not dfa.matches((city + days + form.format("id", other, last)).encode())
    assert not dfa.matches((form.format("city", "false", '"Rome"') + days).encode())


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    ({"type": "anything"}, InvalidConstraint, "/format/type"),
    ({"type": "any_text", "exclude": []}, InvalidConstraint, "/format/exclude"),
    ({"type": "any_text", "max_tokens": 3}, UnsupportedKeyword, "/format/max_tokens"),
    ({"type": "any_text", "excludes": [""]}, InvalidConstraint, "/format/excludes"),
    ({"type": "any_tokens"}, UnsupportedKeyword, "/format/type"),
    ({"type": "token", "token": 3}, UnsupportedKeyword, "/format/token"),
    (
        sequence(ANY, tag("<a>", {"type": "json_schema", "json_schema": {"type": "x"}}, "<")),
        InvalidConstraint,
        "/format/elements/1/content/json_schema",
    ),
    (tag("<a>", regex("(a"), "<"), InvalidConstraint, "/format/content/pattern"),
    (tag("<a>", regex(r"(a)\1"), "<"), UnsupportedKeyword, "/format/content/pattern"),
    (tag("<a>", {"type": "grammar", "grammar": "start: x"}, "<"), InvalidConstraint, "/format/content/grammar"),
    ({"type": "json_string", "content": ANY}, InvalidConstraint, "/format/content"),
    (tag("<a>", ANY, []), InvalidConstraint, "/format/end"),
    (tag("<a>", ANY, 1), InvalidConstraint, "/format/end"),
    ({**calls(), "triggers": ["<f", "<g"]}, InvalidConstraint, "/format/triggers/1"),
    ({**calls(), "triggers": ["<f1", "<f"]}, InvalidConstraint, "/format/tags/0/begin"),
    ({"type": "repeat", "min": 2, "max": 1, "content": ANY}, InvalidConstraint, "/format/max"),
    ({"type": "json_schema", "json_schema": {}, "style": "kimi_k3_xml"}, UnsupportedKeyword, "/format/style"),
    (
        {"type": "json_schema", "json_schema": {"allOf": []}, "style": "qwen_xml"},
        UnsupportedKeyword,
        "/format/json_schema/allOf",
    ),
    (
        {"type": "json_schema", "json_schema": {"properties": {"a/b": {"type": "x"}}}, "style": "qwen_xml"},
        InvalidConstraint,
        "/format/json_schema/properties/a~1b",
    ),
]


@pytest.mark.parametrize(("format", "error", "pointer"), REFUSED)
def test_refusals_say_where(format, error, pointer):
    with pytest.raises(error) as refused:
        build_network(constraint(format), Budget())
    assert isinstance(refused.value, ConstraintError)
    assert refused.value.pointer is not None
    assert refused.value.pointer.startswith(pointer)
    assert pointer in str(refused.value)


def test_what_is_no_structural_tag_is_refused_when_it_is_built():
    for wrong in ("[]", "{", 3, [ANY]):
        with pytest.raises(InvalidConstraint):
            guided.Constraint.structural_tag(wrong)
    deep: dict = ANY
    for _ in range(200):
        deep = sequence(deep)
    with pytest.raises(LimitExceeded):
        build_network(constraint(deep), Budget())
