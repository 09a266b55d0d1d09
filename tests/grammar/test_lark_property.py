"""Random grammars and all short strings: exactly what Lark's Earley parser with its dynamic lexer accepts is accepted."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.reference import ReferenceMachine
from guided.errors import ConstraintError
from guided.grammar import build_network
from guided.limits import Budget

TEXTS = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
MODEST = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

symbols = st.sampled_from(['"a"', '"b"', '"ab"', "A", "B", "C"])


def expressions(rules):
    atoms = st.one_of(symbols, st.sampled_from(rules))
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(" ".join),
            st.lists(inner, min_size=1, max_size=2).map(lambda options: f"({' | '.join(options)})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "~2", "~0..2", "~1..2"])).map(lambda t: f"({t[0]}){t[1]}"),
            inner.map(lambda text: f"[{text}]"),
        ),
        max_leaves=5,
    )


@st.composite
def grammars(draw):
    rules = ["start", "one", "two", "three"][: draw(st.integers(1, 4))]
    lines = []
    for rule in rules:
        options = draw(st.lists(expressions(rules), min_size=1, max_size=3))
        lines.append(f"{rule}: {' | '.join(options)}{draw(st.sampled_from(['', '', '', ' | ']))}")
    lines.append(
        "A: " + draw(st.sampled_from(["/a+/", "/a*b/", '"a"', "/a|ab/", "/(a|b)+?/", "/[ab]/", "/ab?/", "/a(?!b)/"]))
    )
    lines.append("B: " + draw(st.sampled_from(["/b+/", "/ba?/", '"b"', "/b|bb/", "/[^a]/", "/(?<!x)b/", '"B"i'])))
    lines.append("C: A B?")
    lines.append(draw(st.sampled_from(["", "", '%ignore "b"', "%ignore /b+/", "%ignore A", '%ignore "ab"'])))
    return "\n".join(lines) + "\n"


def built(grammar):
    """(network or None, Lark or None): None where refused."""
    try:
        network = build_network(grammar, {"syntax": "lark"}, Budget())
    except ConstraintError as error:
        network = error
    try:
        lark = Lark(grammar, parser="earley", ambiguity="forest")
    except LarkError:
        lark = None
    return network, lark


def parses(lark, text):
    try:
        lark.parse(text)
    except LarkError:
        return False
    return True


@MODEST
@given(grammars())
def test_accepts_exactly_what_lark_parses(grammar):
    network, lark = built(grammar)
    if lark is None:
        return
    if isinstance(network, ConstraintError):
        # Refused though Lark takes it: a rule without a string, or a lookaround that depends on text around the terminal.
        assert "matches nothing" in str(network) or "no string" in str(network) or "which a terminal" in str(network)
        return
    machine = ReferenceMachine(network)
    for text in TEXTS:
        assert machine.matches(text.encode()) == parses(lark, text), text


@MODEST
@given(grammars())
def test_every_allowed_prefix_can_be_completed_and_no_other(grammar):
    """Up to four characters: an allowed prefix has a completion, and a completion has only allowed prefixes."""
    network, _ = built(grammar)
    if isinstance(network, ConstraintError):
        return
    machine = ReferenceMachine(network)
    layer = {machine.start(): b""}
    for _ in range(4):
        for config in layer:
            assert can_be_completed(machine, config), (grammar, layer[config])
        layer = {
            machine.step(config, byte): prefix + bytes([byte])
            for config, prefix in layer.items()
            if len(config) < 100
            for byte in b"abB"
            if machine.step(config, byte)
        }


def can_be_completed(machine, config, steps=12):
    seen, layer = {config}, [config]
    for _ in range(steps):
        if any(machine.accepts(candidate) for candidate in layer):
            return True
        if len(seen) > 200 or any(len(candidate) > 300 for candidate in layer):
            return True  # too ambiguous for the slow machine; no verdict
        following = [machine.step(candidate, byte) for candidate in layer for byte in b"abB"]
        layer = [candidate for candidate in dict.fromkeys(following) if candidate and candidate not in seen]
        seen.update(layer)
    return False


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars())
def test_the_lazy_automaton_agrees_with_the_reference(grammar):
    network, _ = built(grammar)
    if isinstance(network, ConstraintError):
        return
    machine, dfa = ReferenceMachine(network), LazyDfa(network, Budget())
    for text in TEXTS:
        assert dfa.matches(text.encode()) == machine.matches(text.encode()), text


@pytest.mark.parametrize("lexer", ["dynamic"])
def test_terminals_end_where_re_match_ends_them(lexer):
    """`A A` over `/a+/` matches nothing, since the first A always takes all: Lark parses nothing, and so it is refused."""
    lark = Lark("start: A A\nA: /a+/\n", parser="earley", lexer=lexer)
    assert not any(parses(lark, "a" * count) for count in range(5))
    with pytest.raises(ConstraintError, match="no string"):
        build_network("start: A A\nA: /a+/\n", {}, Budget())
