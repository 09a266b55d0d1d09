"""Where the stages meet: what only shows when a constraint and a vocabulary come together."""

from __future__ import annotations

import subprocess
import sys

import pytest

import guided

ASCII_WITHOUT_X = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(128) if byte != ord("x")])


def test_text_that_no_token_can_write_is_left_out():
    index = guided.compile(guided.Constraint.choice(["axe", "add", "box"]), ASCII_WITHOUT_X)
    index.close()
    assert [choice for choice in ("axe", "add", "box") if index.accepts(choice)] == ["add"]
    assert all(index.mask(state).any() or index.is_accepting(state) for state in range(index.num_states))


def test_a_constraint_that_no_token_can_write_is_refused():
    with pytest.raises(guided.Unsatisfiable, match="vocabulary"):
        guided.compile(guided.Constraint.regex("x+|é"), ASCII_WITHOUT_X)


def test_bytes_that_no_token_puts_together_are_refused():
    whole_characters = guided.Vocabulary.from_tokens([character.encode() for character in "aéţ"])
    assert guided.compile(guided.Constraint.regex("é"), whole_characters).mask(0).any()
    with pytest.raises(guided.Unsatisfiable, match="vocabulary"):
        guided.compile(guided.Constraint.regex("ã"), whole_characters)  # first byte of é, second byte of ţ
    assert guided.compile(guided.Constraint.regex("ã?"), whole_characters).is_accepting(0)


def test_tokens_that_lead_where_no_token_goes_on_are_left_out():
    vocabulary = guided.Vocabulary.from_tokens([b"a", b"b", b"bc", b"cd", b"d", b"abc"])
    index = guided.compile(guided.Constraint.regex("(a|b)cd?|a"), vocabulary)
    finished, unfinished = set(), [(index.start, b"")]
    while unfinished:
        state, text = unfinished.pop()
        if index.is_accepting(state):
            finished.add(text)
        following = [(token, index.advance(state, token)) for token in range(vocabulary.size)]
        following = [(token, target) for token, target in following if target is not None]
        assert following or index.is_accepting(state), text
        unfinished += [(target, text + vocabulary.bytes_of(token)) for token, target in following]
    assert finished == {b"a", b"bc", b"bcd", b"acd"}
    with pytest.raises(guided.Unsatisfiable, match="vocabulary"):
        guided.compile(guided.Constraint.regex("[ab]{2}c"), guided.Vocabulary.from_tokens([b"ab", b"ba", b"cd"]))


def test_a_set_of_characters_keeps_those_that_can_be_written():
    index = guided.compile(guided.Constraint.regex("[w-z]+"), ASCII_WITHOUT_X)
    assert index.accepts("wyz")
    assert not index.accepts("wx")


def test_the_size_of_the_constraint_is_limited():
    with pytest.raises(guided.LimitExceeded) as refused:
        guided.compile(guided.Constraint.choice(["a" * 2000]), ASCII_WITHOUT_X, guided.Limits(constraint_bytes=1000))
    assert refused.value.limit == "constraint_bytes"


def test_after_warm_up_no_constraint_waits_for_an_import():
    program = """
import sys, guided
from guided.index.slices import slices_of
vocabulary = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(128)])
guided.warm_up(vocabulary)
before, misses = set(sys.modules), slices_of.cache_info().misses
for constraint in (
    guided.Constraint.regex(r"\\bé|[^a]?"),
    guided.Constraint.choice(["a", "b"]),
    guided.Constraint.json_schema({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"const": "x"}]}}}),
    guided.Constraint.grammar('start: "a" start | B\\nB: /b+/'),
):
    guided.compile(constraint, vocabulary)
print(sorted(set(sys.modules) - before), slices_of.cache_info().misses - misses)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("[] 0\n", 0), done.stderr


def test_after_warm_up_no_late_rule_waits_for_a_kernel():
    program = """
import json, sys, guided
from numba.core.dispatcher import Dispatcher

def versions():
    modules = [module for name, module in sys.modules.items() if name.startswith("guided.")]
    kernels = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {(kernel.__name__, str(signature)) for kernel in kernels for signature in kernel.signatures}

vocabulary = guided.Vocabulary.from_tokens([bytes([byte]) for byte in range(128)])
guided.warm_up(vocabulary)
before, schema, value = versions(), {"type": "boolean"}, True
for name in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":  # each a byte class of its own, most of them late
    schema, value = {"properties": {name: schema}, "required": [name]}, {name: value}
index = guided.compile(guided.Constraint.json_schema(schema), vocabulary)
state, classes = index.start, index.automaton.num_classes
for byte in json.dumps(value).encode():
    state = index.advance(state, byte)
print(index.is_accepting(state), index.automaton.num_classes > classes, sorted(versions() - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("True True []\n", 0), done.stderr


def test_what_is_no_constraint_no_text_or_no_token_is_a_type_error():
    with pytest.raises(TypeError, match="takes a Constraint"):
        guided.compile("a+", ASCII_WITHOUT_X)
    with pytest.raises(TypeError, match="token 1 is not bytes but str"):
        guided.Vocabulary.from_tokens([b"a", "b"])
    index = guided.compile(guided.Constraint.regex("(?s:.)+"), ASCII_WITHOUT_X)
    with pytest.raises(TypeError, match="string or bytes, not int"):
        index.accepts(5)
    assert index.accepts("a") and not index.accepts("\ud800")


# --- special tokens in grammars -------------------------------------------------------------------------------------------

TOKENS = [b"", b"<think>", *(bytes([byte]) for byte in range(128))]
CALLING = guided.Vocabulary.from_tokens(TOKENS, special_token_ids={"<|call|>": 0})


@pytest.mark.parametrize("grammar", ['start: "a" {} "b"', 'root ::= "a" {} "b"'])
def test_a_special_token_is_that_token(grammar):
    index = guided.compile(guided.Constraint.grammar(grammar.format("<|call|>")), CALLING)
    state = index.advance(index.start, TOKENS.index(b"a"))
    assert [token for token in range(CALLING.size) if index.advance(state, token) is not None] == [0]


@pytest.mark.parametrize("grammar", ['start: "a" {} "b"', 'root ::= "a" {} "b"'])
def test_a_token_that_is_text_to_the_tokenizer_is_that_text(grammar):
    index = guided.compile(guided.Constraint.grammar(grammar.format("<think>")), CALLING)
    state = index.advance(index.start, TOKENS.index(b"a"))
    allowed = [token for token in range(CALLING.size) if index.advance(state, token) is not None]
    assert allowed == [TOKENS.index(b"<think>"), TOKENS.index(b"<")]
    assert index.accepts("a<think>b")


@pytest.mark.parametrize(
    "grammar, line, column", [('start: "a"\n  | {} "b"\n', 2, 4), ('root ::= "a" |\n  {} "b"', 2, 2)]
)
def test_a_special_token_that_the_model_has_not_is_refused(grammar, line, column):
    with pytest.raises(guided.InvalidConstraint, match=r"no token <\|cal\|>") as refused:
        guided.compile(guided.Constraint.grammar(grammar.format("<|cal|>")), CALLING)
    assert (refused.value.line, refused.value.column) == (line, column)
    assert refused.value.hint == "Did you mean <|call|>?"
