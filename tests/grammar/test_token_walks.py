"""Random walks over allowed tokens: whatever they end with is parsed by Lark, and the mask is what the automaton says."""

import random
from pathlib import Path

import numpy as np
import pytest
from lark import Lark

import guided
from guided.automaton.reference import ReferenceMachine
from guided.grammar import build_network
from guided.limits import Budget, Limits
from tests.grammar.test_filter import FILTER

GRAMMARS = {
    "filter": FILTER,
    "expressions": 'start: e\ne: e "+" e | "-" e | "(" e ")" | N\nN: /[0-9]+/\n%ignore " "\n',
    "keywords": 'start: "if" NAME "in" NAME ("," NAME)*\nNAME: /[a-z]+/\n%ignore / +/\n',
    "strings": 'start: "[" [S ("," S)*] "]"\nS: /"[^"]*?"/\n%ignore " "\n',
}
WORDS = [
    "name", 'name:"', '":', '"a"', " AND ", " OR (", "NOT ", "if ", " in", "in ", "1+", "12", "((", "))", '","', '"]', "+-", "  ",
    "é", 'é"',
]  # fmt: skip
PIECES = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS), b""]
EOS = len(PIECES) - 1
BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "grammars"


@pytest.fixture(scope="module")
def small_vocabulary():
    return guided.Vocabulary.from_tokens(PIECES, eos_ids=[EOS])


def allowed_tokens(mask):
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


def quotes(tokens):
    """The tokens that close something, so that a walk comes to an end."""
    return [token for token in tokens if PIECES[token].endswith((b'"', b")", b"]"))]


def walk(index, vocabulary, rng, steps):
    """The text of a random walk that ends where it first may after `steps`, or None if it does not come to an end."""
    state, text = index.start, b""
    for step in range(steps * 4):
        tokens = allowed_tokens(index.mask(state))
        assert tokens or index.is_accepting(state), "a dead end"
        if index.is_accepting(state) and (not tokens or step >= steps or rng.random() < 0.2):
            return text
        token = rng.choice(quotes(tokens) if step >= steps and quotes(tokens) else tokens)
        text += vocabulary.bytes_of(token)
        state = index.advance(state, token)
    return None


@pytest.mark.parametrize("name", GRAMMARS)
def test_walks_are_parsed_by_lark(name, small_vocabulary):
    index = guided.compile(guided.Constraint.grammar(GRAMMARS[name]), small_vocabulary)
    lark = Lark(GRAMMARS[name], parser="earley", ambiguity="forest")
    finished = 0
    for seed in range(30):
        text = walk(index, small_vocabulary, random.Random(seed), 12)
        if text is not None:
            lark.parse(text.decode())
            finished += 1
    assert finished >= 5


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_are_what_the_reference_machine_allows(name, small_vocabulary):
    index = guided.compile(guided.Constraint.grammar(GRAMMARS[name]), small_vocabulary)
    machine = ReferenceMachine(build_network(GRAMMARS[name], {}, Budget()))
    rng, state, config = random.Random(name), index.start, machine.start()
    for _ in range(15):
        following = {}
        for token, piece in enumerate(PIECES[:-1]):
            moved = config
            for byte in piece:
                moved = machine.step(moved, byte)
            if moved:
                following[token] = moved
        assert allowed_tokens(index.mask(state)) == sorted(following)
        if not following:
            break
        token = rng.choice(sorted(following))
        state, config = index.advance(state, token), following[token]


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.*")), ids=lambda path: path.name)
def test_benchmark_grammar_accepts_its_text(path):
    from benchmarks.grammar_texts import text_of
    from guided.automaton.lazy_dfa import LazyDfa

    budget = Budget(Limits(seconds=100))  # the test is of the language, not of the time
    dfa = LazyDfa(build_network(path.read_text(), {}, budget), budget)
    text = text_of(path.stem, 8).encode()
    assert dfa.matches(text)
    assert not dfa.matches(text[:-3] + b"\x00")
