"""Terminal automata against `re.match`: the one end that it finds, given what follows, and no other."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import ConstraintError, InvalidConstraint, LimitExceeded, UnsupportedKeyword
from guided.grammar.terminal_automaton import DEAD, build_terminal
from guided.grammar.terminal_program import parse_program
from guided.limits import Budget

TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("abc", repeat=length)]

atoms = st.sampled_from(["a", "b", "c", "[ab]", "[^a]", "."])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{0,2}?", "{2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.tuples(st.sampled_from(["(?!", "(?="]), inner).map(lambda pair: f"{pair[0]}{pair[1]})"),
        st.sampled_from(["(?<!a)", "(?<=b)", "(?<!ab)"]),
    ),
    max_leaves=6,
)


def automaton(pattern):
    return build_terminal(parse_program(pattern, "T", Budget()), "T", Budget())


def ends(terminal, text):
    """Where the terminal can end in the text, by its automaton and its watches."""
    found, state = [], 0
    for position in range(len(text) + 1):
        if terminal.accepting[state] and not fails(terminal, terminal.watch[state], text[position:]):
            found.append(position)
        if position < len(text):
            state = terminal.rows[state][class_of(terminal, text[position])]
            if state == DEAD:
                break
    return found


def fails(terminal, watch, following):
    for character in following:
        watch = terminal.watch_rows[watch][class_of(terminal, character)]
        if watch <= 0:
            break
    return watch == DEAD or terminal.watch_open[watch]


def class_of(terminal, character):
    return next(index for index, members in enumerate(terminal.classes) if character in members)


@settings(max_examples=150, deadline=None)
@given(patterns)
def test_ends_where_re_match_ends(pattern):
    try:
        terminal = automaton(pattern)
    except ConstraintError:
        return
    for text in TEXTS:
        match = re.match(pattern, text)
        assert ends(terminal, text) == ([match.end()] if match else []), text


@pytest.mark.parametrize(
    "pattern, text",
    [
        (r'"(?:.*?(?<!\\)(\\\\)*?)"', r'"a\"b" "c"'),  # common.ESCAPED_STRING
        (r'"[^"]*"', '"a"b"'),
        (r"[a-z]+", "abc1"),
        (r"/\*(.|\n)*?\*/", "/* a */ b */"),
        (r"0(?:_?0)*(?![1-9])", "0_00"),
        (r"(?i:select)", "SELECT"),
        (r"(?s:a.b)", "a\nb"),
        (r"\w+", "é_9 "),
        (r"a+(?=b)", "aab"),
    ],
)
def test_usual_terminals(pattern, text):
    assert ends(automaton(pattern), text) == [re.match(pattern, text).end()]


def test_zero_does_not_end_before_a_digit():
    assert ends(automaton(r"0(?![1-9])"), "01") == []


@pytest.mark.parametrize("pattern", [r"(a)\1", r"\bfoo", r"^a", r"a$", r"(?<=x)a", r"(?>a+)b", r"a++b"])
def test_what_cannot_be_enforced_is_refused_by_name(pattern):
    with pytest.raises(UnsupportedKeyword, match="terminal T"):
        automaton(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "*a", "(?P<n>a)(?P<n>b)"])
def test_what_is_no_regex_is_refused(pattern):
    with pytest.raises(InvalidConstraint):
        automaton(pattern)


@pytest.mark.parametrize("pattern", ["(" * 5000 + ")" * 5000, "(?:(?:a{1000}){1000}){1000}", "(?:a|b)*a(?:a|b){40}"])
def test_hostile_patterns_meet_a_limit(pattern):
    with pytest.raises(LimitExceeded):
        automaton(pattern)
