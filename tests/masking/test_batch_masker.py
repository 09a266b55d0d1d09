"""The batch masker against the slow reference, through random lives of a batch: joins, leaves, moves, swaps and new tokens."""

from __future__ import annotations

import random

import pytest
import torch

import guided
from guided.masking import BatchMasker
from guided.masking.reference import allowed_tokens
from guided.vocabulary import Vocabulary
from tests.masking.recognisers import ChoiceRecogniser, RegexRecogniser

STOP = 1
SINGLE = [
    bytes([byte]) for byte in b"abc01.: NEGATIVPOULRS"
]  # every byte that a constraint needs, or outputs could get stuck
TOKENS = [b"", b"<eos>", *SINGLE, b"ab", b"bc", b"abc", b"0.", b".1", b"NEG", b"ATIVE", b"POS"]
CHOICES = ["POSITIVE", "NEGATIVE", "NEUTRAL"]
CONSTRAINTS = [
    (guided.Constraint.choice(CHOICES), ChoiceRecogniser([c.encode() for c in CHOICES])),
    (guided.Constraint.regex(r"(ab|bc)*c?"), RegexRecogniser(rb"(ab|bc)*c?")),
    (guided.Constraint.regex(r"[01]{1,3}(\.[01]{1,3}){2}"), RegexRecogniser(rb"[01]{1,3}(\.[01]{1,3}){2}")),
]


@pytest.fixture(scope="module")
def small() -> Vocabulary:
    return Vocabulary.from_tokens(TOKENS, eos_ids=[STOP])


@pytest.fixture(scope="module", params=["growing", "closed"])
def indexes(request, small: Vocabulary) -> list:
    indexes = [guided.compile(constraint, small) for constraint, _ in CONSTRAINTS]
    if request.param == "closed":
        for index in indexes:
            index.close()
    return indexes


@pytest.fixture(params=["compiled", "tensors"])
def masker(request, small: Vocabulary) -> BatchMasker:
    return BatchMasker(small, compiled=request.param == "compiled")


def bits(row: torch.Tensor) -> bytes:
    return row.numpy().tobytes()


def check_batch(masker: BatchMasker, batch: list, small: Vocabulary) -> None:
    """Masks random logits and compares every row: constrained ones with the reference, plain ones bit by bit."""
    logits = torch.randn(len(batch), small.size)
    before = logits.clone()
    masker.advance()
    masker.mask(logits)
    token_bytes = [small.bytes_of(token) for token in range(small.size)]
    for row, request in enumerate(batch):
        if request is None or request[0] is None:
            assert bits(logits[row]) == bits(before[row])
            continue
        kind, output = request
        allowed = allowed_tokens(CONSTRAINTS[kind][1], token_bytes, output, {STOP})
        assert set(torch.isfinite(logits[row]).nonzero().flatten().tolist()) == allowed
        if STOP not in output:  # after the stop token the values are ours, to keep the softmax finite
            keep = sorted(allowed)
            assert bits(logits[row][keep]) == bits(before[row][keep])


def write_tokens(batch: list, indexes: list, small: Vocabulary, choose: random.Random) -> None:
    """Every constrained request writes one token that it may write."""
    for request in batch:
        if request is None or request[0] is None or STOP in request[1]:
            continue
        kind, output = request
        token_bytes = [small.bytes_of(token) for token in range(small.size)]
        output.append(choose.choice(sorted(allowed_tokens(CONSTRAINTS[kind][1], token_bytes, output, {STOP}))))


def change_batch(masker: BatchMasker, batch: list, indexes: list, choose: random.Random) -> None:
    row = choose.randrange(len(batch))
    other = choose.randrange(len(batch))
    match choose.choice(["add", "add", "plain", "remove", "move", "swap"]):
        case "add":
            kind = choose.randrange(len(indexes))
            batch[row] = (kind, [])
            masker.remove(row)
            masker.add(row, indexes[kind], output=batch[row][1], stop_tokens={STOP})
        case "plain":
            batch[row] = (None, [])
            masker.remove(row)
        case "remove":
            batch[row] = None
            masker.remove(row)
        case "move" if row != other:
            batch[other], batch[row] = batch[row], None
            masker.move(row, other)
        case "swap":
            batch[row], batch[other] = batch[other], batch[row]
            masker.swap(row, other)


@pytest.mark.parametrize("seed", range(30))
def test_random_life_of_a_batch(seed, indexes, masker, small):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    batch: list = [None] * 6  # row -> (number of the constraint or None, output) or None
    for _ in range(40):
        change_batch(masker, batch, indexes, choose)
        check_batch(masker, batch, small)
        write_tokens(batch, indexes, small, choose)


def test_output_that_already_has_tokens_is_replayed(indexes, masker, small):
    output = [TOKENS.index(b"NEG")]
    masker.add(0, indexes[0], output=output, stop_tokens={STOP})
    check_batch(masker, [(0, output)], small)


def test_after_the_answer_only_stop_tokens_are_left(indexes, masker, small):
    output = [TOKENS.index(b"NEG"), TOKENS.index(b"ATIVE")]
    masker.add(0, indexes[0], output=output, stop_tokens={STOP, 0})
    logits = torch.zeros(1, small.size)
    masker.advance()
    masker.mask(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [0, 1]


def test_forbidden_token_fails_that_request_alone(indexes, masker, small):
    broken, fine = [TOKENS.index(b"c")], [TOKENS.index(b"POS")]
    masker.add(0, indexes[0], output=broken, stop_tokens={STOP})
    masker.add(1, indexes[0], output=fine, stop_tokens={STOP})
    logits = torch.randn(3, small.size)
    before = logits.clone()
    masker.advance()
    masker.mask(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [STOP]
    assert bytes(TOKENS[int(logits[1].argmax())]) in b"ITIVE"
    assert bits(logits[2]) == bits(before[2])


class BrokenIndex:
    """An index with a bug."""

    start = 0
    is_closed = is_crowded = False

    def advance(self, state, token):
        raise KeyError("advance")

    def mask(self, state):
        raise ZeroDivisionError("mask")

    def is_accepting(self, state):
        return False


def test_exception_in_an_index_fails_that_request_alone(indexes, masker, small):
    broken: list[int] = []
    masker.add(0, BrokenIndex(), output=broken, stop_tokens={STOP})
    masker.add(1, indexes[0], output=[], stop_tokens={STOP})
    for token in (None, 5):
        if token is not None:
            broken.append(token)
        logits = torch.randn(2, small.size)
        masker.advance()
        masker.mask(logits)
        assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [STOP]
        assert set(torch.isfinite(logits[1]).nonzero().flatten().tolist()) == {
            t for t, text in enumerate(TOKENS) if text and any(c.encode().startswith(text) for c in CHOICES)
        }


def test_filters_that_leave_nothing_end_the_request(indexes, masker, small):
    masker.add(0, indexes[0], output=[], stop_tokens={STOP})
    logits = torch.full((1, small.size), float("-inf"))
    logits[0, TOKENS.index(b"a")] = 1.0  # say, allowed_token_ids = ["a"], where the constraint wants N or P
    masker.mask(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [STOP]


def test_min_tokens_beyond_the_answer_still_ends_it(indexes, masker, small):
    masker.add(0, indexes[0], output=[TOKENS.index(b"NEG"), TOKENS.index(b"ATIVE")], stop_tokens={STOP})
    logits = torch.zeros(1, small.size)
    logits[0, STOP] = float("-inf")  # what min_tokens does
    masker.advance()
    masker.mask(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [STOP]
