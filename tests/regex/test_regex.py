"""The contract of regexes: what is generated is what `re.fullmatch` matches, documented narrowings apart."""

import re

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from guided.automaton.reference import ReferenceMachine
from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, Unsatisfiable, UnsupportedKeyword
from guided.limits import Budget, Limits
from guided.regex import build_network, pattern_dfa, pattern_nfa
from tests.regex.patterns import PATTERNS, TEXTS, patient

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

NARROWED = re.compile(r"\\[dws]")  # these are generated in ASCII, and `\s` without the separators U+001C..U+001F


def compiled(pattern):
    """What `re` makes of a random pattern; patterns that it refuses are of no interest here."""
    try:
        return re.compile(pattern)
    except re.error:
        assume(False)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.lists(TEXTS, min_size=4, max_size=12))
def test_matches_what_re_matches(pattern, texts):
    matches = patient(compiled(pattern).fullmatch)
    dfa = pattern_dfa(pattern)
    narrowed = NARROWED.search(pattern) is not None
    words = list(dfa.words(15)) if not dfa.is_empty() else []
    for word in words:
        assert matches(word), (pattern, word)
    near = [w[:-1] for w in words[-3:]] + [w + "a" for w in words[-3:]] + [w[::-1] for w in words[-3:]]
    for text in [*texts, *near, ""]:
        if dfa.contains(text):
            assert matches(text), (pattern, text)
        elif not (narrowed and not text.isascii()):
            assert not matches(text), (pattern, text)


@settings(max_examples=150, deadline=None)
@given(PATTERNS, st.lists(TEXTS, min_size=4, max_size=8))
def test_search_finds_what_re_finds(pattern, texts):
    finds = patient(compiled(pattern).search)
    dfa = pattern_dfa(pattern, search=True)
    for text in [*texts, ""]:
        if dfa.contains(text):
            assert finds(text), (pattern, text)
        elif text.isascii() or not NARROWED.search(pattern):
            assert not finds(text), (pattern, text)


@settings(max_examples=100, deadline=None)
@given(PATTERNS, st.lists(TEXTS, min_size=2, max_size=6))
def test_network_reads_the_bytes_of_what_the_automaton_reads(pattern, texts):
    compiled(pattern)
    dfa = pattern_dfa(pattern)
    try:
        machine = ReferenceMachine(build_network(pattern, Budget()))
    except Unsatisfiable:
        assert dfa.is_empty()
        return
    for text in [*texts, *dfa.words(3)]:
        assert machine.matches(text.encode()) == dfa.contains(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from(r"ab()[]{}|*+?\^$.,-123:=!<>Pi#xdwZ&~"), max_size=10))
def test_refuses_what_re_refuses(pattern):
    """Any text at all: what `re` does not compile is refused with its words, and what it compiles is a pattern."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        with pytest.raises(ConstraintError) as refusal:
            pattern_nfa(pattern)
        if type(refusal.value) is InvalidConstraint and isinstance(error, re.error):
            assert error.msg in refusal.value.message
            assert error.pos is None or refusal.value.column == error.pos
        return
    try:
        dfa = pattern_dfa(pattern)
    except UnsupportedKeyword:
        return
    for text in ("", "a", "ab", "1", pattern):
        assert dfa.contains(text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        (r"^ab|cd$", ["ab", "cd"], ["abx", "xcd", "ab|cd"]),
        (r"a$\n", ["a\n"], ["a"]),
        (r"(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"(?=.*[A-Z])(?=.*\d)(?=.*[a-z]).{8,64}", ["Passw0rdx"], ["password1", "PASSWORD1", "Pw1"]),
        (r"(?!.*(foo|bar)).*", ["fobxar", ""], ["xfoo", "barx", "fobar"]),
        (r"(?!0)\d+(?<!5)", ["10", "123"], ["012", "15"]),
        (r"\bfoo\b", ["foo"], ["foox"]),
        (r".*\bfoo\b.*", ["a foo b", "foo", "-foo-"], ["afoo", "fooé", "éfoo"]),
        (r"\W", ["-", " ", "€"], ["a", "_", "é", "ß", "中"]),
        (r"[^\W\d_]+", ["abc", "été"], ["a1", "_"]),
        (r"(?i)straße", ["STRAßE", "straße", "ſtraße"], ["STRASSE"]),
        (r"(?i)k", ["k", "K", "\u212a"], ["x"]),
        (r"(?ai)k", ["k", "K"], ["\u212a"]),
        (r"(?x) a b # comment", ["ab"], ["a b"]),
        (r"\N{GREEK SMALL LETTER ALPHA}|\u03b2|\U000003b3|\x64|\145", ["α", "β", "γ", "d", "e"], ["a"]),
        (r"(?P<year>\d{4})-(?#month)(?P<month>\d\d)", ["2024-05"], ["2024-5"]),
        (r"a(?<=a)b", ["ab"], ["b", "a"]),
        (r"(?s:.)(?-s:.)", ["\na"], ["\n\n"]),
        (r"x{,2}y{0,}z{1,}", ["xxz", "yyzz"], ["xxx", "xxxz"]),
        (r"a{,b{}", ["a{,b{}"], ["ab"]),
        (r"[]a]+[^]a]", ["]ax"], ["]a]"]),
        (r"(?:(?<![^\n])a|\n)+|b(?=(?!a).)c", ["a", "a\na\n\n", "bc"], ["aa", "ba", "b"]),
    ],
)
def test_constructs(pattern, accepted, rejected):
    dfa = pattern_dfa(pattern)
    for text in accepted:
        assert re.fullmatch(pattern, text) and dfa.contains(text), text
    for text in rejected:
        assert not re.fullmatch(pattern, text) and not dfa.contains(text), text


@pytest.mark.parametrize("pattern", [r"a$b", r"a^b", r"a\Bb(?<=x)", r"(?!)", r"(?=a)b", r"\ba\b\w", "[^\\s\\S]"])
def test_nothing_matches(pattern):
    with pytest.raises(Unsatisfiable):
        build_network(pattern, Budget())


@pytest.mark.parametrize(
    ("pattern", "keyword", "column"),
    [
        (r"(a|b)\1", "backreference", 5),
        (r"(?P<q>')x(?P=q)", "backreference", 9),
        (r"(a)?(?(1)b|c)", "conditional group", 4),
        (r"x(?>a+)b", "atomic group", 1),
        (r"ab*+", "possessive quantifier", 2),
    ],
)
def test_what_is_not_regular_is_refused_with_its_column(pattern, keyword, column):
    with pytest.raises(UnsupportedKeyword) as refusal:
        pattern_nfa(pattern)
    assert (refusal.value.keyword, refusal.value.column) == (keyword, column)
    assert str(refusal.value).splitlines()[-1] == "  " + " " * column + "^"


@pytest.mark.parametrize(
    "pattern", [r"\p{Lu}", "[abc", "a[]", "(?L)a", "a**", "abc(?<=a*)b", r"\d-[\w-a]", "(" * 5 + "a", r"[b-a]", "(?i"]
)
def test_bad_patterns_have_the_words_of_re(pattern):
    with pytest.raises(re.error) as expected:
        re.compile(pattern)
    with pytest.raises(InvalidConstraint) as refusal:
        pattern_nfa(pattern)
    assert expected.value.msg in refusal.value.message
    assert refusal.value.column == (3 if expected.value.pos is None else expected.value.pos)


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 3000 + "a" + ")" * 3000, "(?:" * 900 + "a" + ")" * 900])
def test_too_large_is_refused(pattern):
    with pytest.raises(ConstraintError):
        pattern_nfa(pattern)


def test_states_are_limited():
    with pytest.raises(LimitExceeded, match="states"):
        pattern_nfa("(a{1000}){1000}", budget=Budget(Limits(states=10_000)))


@pytest.mark.parametrize(
    "pattern",
    ["", "a", "a|b|", "(yes|no|é)", "^(?:a|ab|abc)$", "^a|b$", "()", "(|a)", "a b#|c", "^x$", "a]|b}", "(?:)", "a|a"],
)
def test_words_to_choose_from(pattern):
    """These take a shorter way to the network, which must make no difference."""
    machine = ReferenceMachine(build_network(pattern, Budget()))
    for text in ["", "a", "b", "ab", "abc", "yes", "no", "é", "a b#", "c", "x", "x\n", "a]", "b}", "|", "(a)", "yesno"]:
        assert machine.matches(text.encode()) == (re.fullmatch(pattern, text) is not None), text


def test_a_pattern_too_long_to_parse_in_time_is_refused_at_once():
    with pytest.raises(LimitExceeded) as refused:
        build_network("." * 60_000, Budget())
    assert refused.value.limit == "constraint_bytes"
