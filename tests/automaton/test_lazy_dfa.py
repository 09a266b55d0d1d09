"""The compiled automaton against the slow reference, on random networks with calls, empty edges and late rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import DEAD
from guided.automaton.network import BYTES, CALL, EPSILON, Network, byte_set
from guided.automaton.reference import ReferenceMachine
from guided.errors import LimitExceeded, Unsatisfiable
from guided.limits import Budget, Limits

ALPHABET = b"abc"
STATES_PER_RULE = 4

edges = st.tuples(
    st.sampled_from([BYTES, BYTES, BYTES, EPSILON, CALL]),
    st.integers(0, STATES_PER_RULE - 2),  # source
    st.integers(1, STATES_PER_RULE - 1),  # target, larger than the source where nothing is read
    st.sets(st.sampled_from(list(ALPHABET)), min_size=1),
    st.integers(0, 2),  # called rule
)
rules = st.lists(st.lists(edges, min_size=1, max_size=7), min_size=3, max_size=3)


def network_of(description, late: bool, ahead: bool = False) -> Network:
    """Three rules; a rule calls later ones anywhere and earlier ones only after a byte, so that none is left recursive."""
    network = Network()
    numbers: list[int] = []

    def build(rule: int) -> int:
        states = [network.state(final=index == STATES_PER_RULE - 1) for index in range(STATES_PER_RULE)]
        for kind, source, target, symbols, callee in description[rule]:
            if kind == BYTES:
                network.edge(states[source], byte_set(symbols), states[target])
            elif target > source and kind == EPSILON:
                network.epsilon(states[source], states[target])
            elif target > source and callee > rule:
                network.call(states[source], numbers[callee], states[target])
            elif kind == CALL and callee <= rule:
                middle = network.state()
                network.edge(states[source], byte_set(symbols), middle)
                network.call(middle, numbers[callee], states[target])
        return states[0]

    for rule in range(3):
        numbers.append(network.rule((lambda rule=rule: build(rule)) if late else None, ahead and rule != 1))
    if not late:
        for rule in range(3):
            network.define(numbers[rule], build(rule))
    network.root = numbers[0]
    return network


@settings(max_examples=150, deadline=None)
@given(
    rules,
    st.lists(st.binary(max_size=8).map(lambda data: bytes(ALPHABET[b % 3] for b in data)), max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_agrees_with_the_reference(description, strings, late, ahead):
    network = network_of(description, late, ahead)
    accepts, reference = language_of(network), ReferenceMachine(network)
    for data in strings:
        assert accepts(data) == reference.matches(data)


def language_of(network: Network):
    """Membership by the compiled automaton; a network that is dead from the start is refused and has no members."""
    try:
        return LazyDfa(network, Budget()).matches
    except Unsatisfiable:
        return lambda data: False


@settings(max_examples=100, deadline=None)
@given(rules)
def test_trim_keeps_the_language_and_leaves_no_dead_end(description):
    network, trimmed = network_of(description, late=False), network_of(description, late=False)
    alive = trimmed.trim()
    words = [bytes(word) for length in range(5) for word in _words(length)]
    accepted = list(filter(ReferenceMachine(network).matches, words))
    assert list(filter(language_of(trimmed), words)) == accepted
    assert alive or not accepted


def _words(length):
    if length == 0:
        yield ()
        return
    for word in _words(length - 1):
        for byte in ALPHABET:
            yield (*word, byte)


def test_late_byte_sets_split_classes_without_forgetting_transitions():
    network = Network()
    late = network.rule(lambda: _letter_rule(network, b"x"))
    network.root = network.rule()
    start, end = network.state(), network.state(final=True)
    network.edge(start, byte_set(b"xyz"), start)
    mark = network.state()
    network.edge(start, byte_set(b"!"), mark)
    network.call(mark, late, end)
    network.define(network.root, start)
    dfa = LazyDfa(network, Budget())
    before = [dfa.step(dfa.start, byte) for byte in b"xyz"]
    assert dfa.advance(dfa.start, b"!x") != DEAD
    assert dfa.advance(dfa.start, b"!y") == DEAD
    assert [dfa.step(dfa.start, byte) for byte in b"xyz"] == before
    assert dfa.matches(b"yxz!x")


def test_rules_are_built_ahead_in_their_order_and_a_refusal_waits_for_who_reaches_its_rule():
    network, built = Network(), []

    def letter(name: bytes) -> int:
        built.append(name)
        if name == b"c":
            raise LimitExceeded("too much", limit="states")
        return _letter_rule(network, name)

    network.root, start, end = network.rule(), network.state(), network.state(final=True)
    for name, ahead in ((b"a", True), (b"b", False), (b"c", True), (b"d", True)):
        before = network.state()
        network.edge(start, byte_set(name.upper()), before)
        network.call(before, network.rule(lambda name=name: letter(name), ahead), end)
    network.define(network.root, start)
    dfa = LazyDfa(network, Budget())
    assert built == [b"a", b"c"]
    assert dfa.matches(b"Aa") and dfa.matches(b"Bb") and dfa.matches(b"Dd")
    with pytest.raises(LimitExceeded):
        dfa.matches(b"Cc")
    assert built == [b"a", b"c", b"b", b"d", b"c"]


def _letter_rule(network: Network, letters: bytes) -> int:
    start, end = network.state(), network.state(final=True)
    network.edge(start, byte_set(letters), end)
    return start


def nested_parentheses() -> Network:
    network = Network()
    network.root = network.rule()
    start, inner, closing, end = (network.state(final=index == 3) for index in range(4))
    network.edge(start, byte_set(b"x"), end)
    network.edge(start, byte_set(b"("), inner)
    network.call(inner, network.root, closing)
    network.edge(closing, byte_set(b")"), end)
    network.define(network.root, start)
    return network


def test_recursion_deeper_than_any_array_it_starts_with():
    dfa = LazyDfa(nested_parentheses(), Budget())
    assert dfa.matches(b"(" * 5000 + b"x" + b")" * 5000)
    assert not dfa.matches(b"(" * 5000 + b"x" + b")" * 4999)


def test_the_limit_of_states_is_named():
    dfa = LazyDfa(nested_parentheses(), Budget(Limits(states=1000)))
    with pytest.raises(LimitExceeded) as refused:
        dfa.advance(dfa.start, b"(" * 5000)
    assert refused.value.limit == "states"


@pytest.mark.parametrize(("recursive", "endless"), [(True, True), (False, False)])
def test_what_nests_without_a_bound_is_seen_to_be_endless(recursive, endless):
    network = Network()
    numbers = [network.rule() for _ in range(20)]
    for depth, rule in enumerate(numbers):  # a letter on each side of the next rule, or between both sides nothing
        start, opened, closed, end = (network.state(final=number == 3) for number in range(4))
        network.edge(start, 1 << ord("a"), opened)
        inner = numbers[0] if recursive and depth == 19 else numbers[min(depth + 1, 19)]
        if depth < 19 or recursive:
            network.call(opened, inner, closed)
        network.edge(opened, 1 << ord("c"), closed)
        network.edge(closed, 1 << ord("b"), end)
        network.define(rule, start)
    network.root = numbers[0]
    dfa = LazyDfa(network, Budget())
    assert not dfa.is_endless
    state = dfa.start
    for _ in range(30):
        state = max(dfa.step(state, ord("a")), dfa.start)
    assert dfa.is_endless is endless


def distinct_words() -> Network:
    """Words of a and b with commas between them, none of them written twice; each is told apart by the text since its mark."""
    network = Network()
    end = network.state(final=True)
    letters = network.rule(lambda: _some_letters(network))

    def word(written: frozenset[bytes]) -> int:
        start, marked, read, after, closed = (network.state() for _ in range(5))
        network.mark(start, marked)
        network.call(marked, letters, read)
        network.edge(read, byte_set(b","), after)
        network.ask(after, lambda text: following(written, text.rstrip(b",")), network.state())
        network.edge(read, byte_set(b"."), closed)
        network.forget(closed, end)
        return start

    def following(written: frozenset[bytes], text: bytes) -> int:
        return network.state() if text in written else word(written | {text})

    network.root = network.rule(lambda: word(frozenset()))
    return network


def _some_letters(network: Network) -> int:
    start, end = network.state(), network.state(final=True)
    network.edge(start, byte_set(b"ab"), end)
    network.edge(end, byte_set(b"ab"), end)
    return start


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6))
def test_what_was_read_since_a_mark_decides_what_comes(words):
    text = ",".join(words).encode()
    begun = len(set(words[:-1])) == len(words) - 1  # of the last word nothing is asked
    network = distinct_words()
    assert LazyDfa(network, Budget()).matches(text + b".") == begun
    assert ReferenceMachine(distinct_words()).matches(text + b".") == begun


def test_a_question_is_put_when_something_is_read_after_it():
    network = distinct_words()
    dfa = LazyDfa(network, Budget())
    states = {dfa.advance(dfa.start, word + b",") for word in (b"a", b"b", b"ab")}
    assert len(states) == 3 and DEAD not in states
    asked = [late for late in network.late_rules if isinstance(late, tuple)]
    assert asked == []
    dfa.step(states.pop(), ord("a"))
    assert len([late for late in network.late_rules if isinstance(late, tuple)]) == 1


def test_states_that_remember_are_kept_when_others_are_forgotten():
    dfa = LazyDfa(distinct_words(), Budget())
    kept, asking = dfa.forget_all_but(np.array([dfa.advance(dfa.start, b"a,b"), dfa.advance(dfa.start, b"a,b,")]))
    assert dfa.remembers(kept)
    assert dfa.advance(kept, b",a,b.") == DEAD
    assert dfa.is_accepting(dfa.advance(asking, b"ab."))
