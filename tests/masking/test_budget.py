"""Answers that fit: with r tokens left a token is allowed only if r - 1 can complete what follows. Against counting by hand."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest
import torch

import guided
from guided.masking import BatchMasker
from guided.masking.budget import DoesNotFit
from guided.masking.reference import read
from guided.vocabulary import Vocabulary
from tests.masking.recognisers import ChoiceRecogniser, RegexRecogniser
from tests.masking.test_batch_masker import CHOICES, STOP, TOKENS
from tests.token_search import distances, moves

CASES = [
    (guided.Constraint.choice(CHOICES), ChoiceRecogniser([c.encode() for c in CHOICES])),
    (guided.Constraint.regex(r"[01]{1,3}(\.[01]{1,3}){2}"), RegexRecogniser(rb"[01]{1,3}(\.[01]{1,3}){2}")),
    (guided.Constraint.regex(r"a{0,9}(b|ccccc)"), RegexRecogniser(rb"a{0,9}(b|ccccc)")),
]
EVERY_BYTE = [
    bytes([byte]) for byte in range(256) if bytes([byte]) not in TOKENS
]  # so that the cheap bound in bytes is used


@pytest.fixture(scope="module", params=["some bytes", "every byte"])
def vocabulary(request) -> Vocabulary:
    return Vocabulary.from_tokens(TOKENS if request.param == "some bytes" else TOKENS + EVERY_BYTE, eos_ids=[STOP])


@cache
def choices(vocabulary: Vocabulary, case: int, text: bytes) -> frozenset[int]:
    """The tokens that the constraint allows after a text."""
    recogniser = CASES[case][1]
    here = read(recogniser, text)
    allowed = {STOP} if recogniser.accepts(here) else set()
    for token in range(vocabulary.size):
        piece = vocabulary.bytes_of(token)
        if piece and read(recogniser, text + piece) is not None:
            allowed.add(token)
    return frozenset(allowed)


@cache
def completes_within(vocabulary: Vocabulary, case: int, text: bytes, tokens: int) -> bool:
    """Can `tokens` more tokens complete the text?"""
    allowed = choices(vocabulary, case, text)
    if STOP in allowed:
        return True
    pieces = {vocabulary.bytes_of(token) for token in allowed}
    return tokens > 0 and any(completes_within(vocabulary, case, text + piece, tokens - 1) for piece in pieces)


def expected(vocabulary: Vocabulary, case: int, text: bytes, left: int) -> set[int]:
    return {
        token
        for token in choices(vocabulary, case, text)
        if token == STOP or completes_within(vocabulary, case, text + vocabulary.bytes_of(token), left - 1)
    }


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "tensors"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_answer_fits_and_the_choice_is_free_until_it_has_to(vocabulary, case, compiled):
    index = guided.compile(CASES[case][0], vocabulary)
    index.close()
    needed = index.min_tokens(index.start)
    choose = random.Random(case)
    masker = BatchMasker(vocabulary, compiled=compiled)
    for budget in range(needed, needed + 6):
        for _ in range(4):
            output: list[int] = []
            masker.add(0, index, output=output, stop_tokens={STOP}, budget=budget)
            while STOP not in output and len(output) < budget:
                logits = torch.zeros(1, vocabulary.size)
                masker.advance()
                masker.mask(logits)
                allowed = set(torch.isfinite(logits[0]).nonzero().flatten().tolist())
                text = b"".join(vocabulary.bytes_of(token) for token in output)
                assert allowed == expected(vocabulary, case, text, budget - len(output))
                output.append(choose.choice(sorted(allowed)))
            text = b"".join(vocabulary.bytes_of(token) for token in output if token != STOP)
            assert index.accepts(text), (budget, text)


GROWING = [
    guided.Constraint.grammar('start: "(" start ")" | "[" start "]" | "x" | "yyy" start'),
    guided.Constraint.regex(r"[01]{1,3}(\.[01]{1,3}){2}"),
    guided.Constraint.json_schema(
        {"$ref": "#/$defs/n", "$defs": {"n": {
            "type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
            "required": ["a", "c"]}}},
        whitespace="compact",
    ),
]  # fmt: skip
PIECES = [b"", b"<eos>", *(bytes([byte]) for byte in range(256)), b"((", b"[[", b"([", b"))", b"yy", b"yyyyyy"]
PIECES += [b'{"', b'":', b'"a', b"[]}", b"0.", b".0"]


@pytest.mark.parametrize("bytes_are_tokens", [True, False], ids=["every byte", "bound by spelling"])
@pytest.mark.parametrize("case", range(len(GROWING)))
def test_answers_of_an_index_that_grows_are_complete(case, bytes_are_tokens):
    """Whatever is chosen among the allowed tokens; and until it matters everything is allowed that the constraint allows."""
    vocabulary = Vocabulary.from_tokens(PIECES, eos_ids=[STOP])
    index = guided.compile(GROWING[case], vocabulary)
    choose, masker, held_back = random.Random(case), BatchMasker(vocabulary), 0
    masker._fits._speller.alone[:] = bytes_are_tokens
    needed = len(masker._fits.of(index).plan(index.start))
    for budget in [*range(needed, needed + 4), needed + 12, needed + 25]:
        for _ in range(3):
            output: list[int] = []
            masker.add(0, index, output=output, stop_tokens={STOP}, budget=budget)
            while STOP not in output and len(output) < budget:
                logits = torch.zeros(1, vocabulary.size)
                masker.advance()
                masker.mask(logits)
                assert masker._slots[0].failure is None
                allowed = torch.isfinite(logits[0]).nonzero().flatten().tolist()
                held_back += len(allowed) < sum(int(word).bit_count() for word in index.mask(masker._slots[0].state))
                openers = [t for t in allowed if vocabulary.bytes_of(t)[:1] in (b"(", b"[", b"y", b"{")]
                output.append(choose.choice(openers if openers and choose.random() < 0.7 else allowed))
            text = b"".join(vocabulary.bytes_of(token) for token in output if token != STOP)
            assert index.accepts(text), (budget, text)
    assert held_back
    assert not index.is_closed or case == 1


def test_a_plan_outlives_tokens_that_are_read_together(vocabulary):
    """As after accepted drafts: the masks were made with the plans of states that the slot itself never stopped at."""
    index = guided.compile(CASES[1][0], vocabulary)
    masker = BatchMasker(vocabulary)
    for first in (0, 3):
        output: list[int] = []
        masker.add(0, index, output=output, stop_tokens={STOP}, budget=5)
        slot = masker._slots[0]
        tokens = slot.fit.plan(index.start)
        ahead = slot
        for token in tokens[:first]:
            ahead.allowed()
            ahead = ahead.after([token])
        output.extend(tokens[:first])
        slot.read_new_tokens()
        assert slot.plan == (tokens[first:] if first else None)


def test_without_a_budget_nothing_is_held_back(vocabulary):
    index = guided.compile(CASES[2][0], vocabulary)
    index.close()
    masker = BatchMasker(vocabulary)
    output = [TOKENS.index(b"a")] * 9
    masker.add(0, index, output=output, stop_tokens={STOP})
    logits = torch.zeros(1, vocabulary.size)
    masker.advance()
    masker.mask(logits)
    assert torch.isfinite(logits[0, TOKENS.index(b"c")])


def test_far_from_the_end_the_request_stays_on_the_device(vocabulary):
    index = guided.compile(CASES[2][0], vocabulary)
    index.close()
    masker = BatchMasker(vocabulary)
    masker.add(0, index, output=[], stop_tokens={STOP}, budget=100)
    masker.advance()
    assert masker._slots[0].table is not None


def test_a_budget_that_fits_no_answer_fails_the_request(vocabulary):
    index = guided.compile(CASES[1][0], vocabulary)
    index.close()
    masker = BatchMasker(vocabulary)
    masker.add(0, index, output=[], stop_tokens={STOP}, budget=index.min_tokens(index.start) - 1)
    logits = torch.zeros(1, vocabulary.size)
    masker.advance()
    masker.mask(logits)
    assert torch.isfinite(logits[0]).nonzero().flatten().tolist() == [STOP]
    assert "the shortest answer needs" in masker._slots[0].failure


def test_where_no_completion_is_found_in_time_the_budget_is_given_up(monkeypatch, caplog):
    every_byte = Vocabulary.from_tokens(PIECES, eos_ids=[STOP])
    names = [f"p{number}" for number in range(60)]  # more rules than are built before anybody asks
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    index = guided.compile(guided.Constraint.json_schema(schema), every_byte)
    masker = BatchMasker(every_byte)
    fit = masker._fits.of(index)
    monkeypatch.setattr(fit._endings, "_seconds", -1.0)
    masker.add(0, index, output=[], stop_tokens={STOP}, budget=3)
    for _ in range(2):
        logits = torch.zeros(1, every_byte.size)
        masker.advance()
        masker.mask(logits)
        assert masker._slots[0].failure is None
        words = index.mask(index.start)
        assert int(torch.isfinite(logits[0]).sum()) == sum(int(word).bit_count() for word in words)
    assert "may be cut off" in caplog.text


MARKED = [
    guided.Constraint.regex("a{1,3}").after("<tool_call>"),
    guided.Constraint.choice(["", "a", "no"]).after("\n<tool_call>\n{"),
    guided.Constraint.grammar('start: "a" (<tool_call> | "<tool_call>") /[a-z]{1,4}/').after("</think>"),
]  # fmt: skip
LONG_WORDS = [b" a word", b"something", b"twelve chars", b"<tool", b"_call", b"</", b"think"]


@pytest.mark.parametrize("special", [True, False], ids=["special", "spelt"])
@pytest.mark.parametrize("case", range(len(MARKED)))
def test_what_fits_is_what_a_search_over_masks_finds(case, special):
    """After markers; the text before them leads to many states, some of which no token of the vocabulary leads to."""
    pieces = [b"", b"<eos>", b"<tool_call>", *(bytes([byte]) for byte in range(256)), *LONG_WORDS]
    names = {"<tool_call>": 2} if special or case == 2 else {}
    vocabulary = Vocabulary.from_tokens(pieces, eos_ids=[STOP], special_token_ids=names)
    index = guided.compile(MARKED[case], vocabulary)
    far = distances(index)
    index.close()
    fit = BatchMasker(vocabulary)._fits.of(index)
    needed = far[index.start]
    assert not fit.may_bind(int(max(n for n in far.values() if n < math.inf)) + 1000)
    for state, least in far.items():
        after = {token: far[target] for token, target in moves(index, state).items()}
        for left in range(int(min(least, needed)), int(needed) + 2):
            if least > left:
                with pytest.raises(DoesNotFit):
                    fit.narrow(state, index.mask(state), left, None)
                continue
            assert fit.may_bind(left) or all(n < left for n in after.values())
            words, _ = fit.narrow(state, index.mask(state), left, None)
            fitting = set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())
            assert fitting == {token for token, n in after.items() if n < left}
