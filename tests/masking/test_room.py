"""A crowded index forgets while requests are in the middle of it: their masks are those of an index that never forgets."""

from __future__ import annotations

import numpy as np
import torch

import guided
from guided.masking import BatchMasker

STOP = 256
VOCABULARY = guided.Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), b""], eos_ids=[STOP])
NESTED = guided.Constraint.grammar('start: list\nlist: "[" (item ("," item)*)? "]"\nitem: list | /[a-z]+/')


def answer(letters: int) -> bytes:
    """Lists in lists, deeper and deeper: each depth has states of its own."""
    return b"[" + b"".join(b"[" * depth + b"a" * letters + b"]" * depth + b"," for depth in range(1, 25)) + b"z]"


def test_requests_go_on_in_an_index_that_forgets():
    index = guided.compile(NESTED, VOCABULARY, guided.Limits(states=60))
    remembering = guided.compile(NESTED, VOCABULARY)
    masker = BatchMasker(VOCABULARY)
    texts = [answer(1), answer(2)]
    outputs: list[list[int]] = [[], []]
    states = [remembering.start] * 2
    for row in range(2):
        masker.add(row, index, output=outputs[row], stop_tokens={STOP}, budget=10_000)
    forgotten = 0
    for step in range(min(len(text) for text in texts)):
        logits = torch.zeros(2, VOCABULARY.size)
        before = index.num_states
        masker.advance()
        forgotten += index.num_states < before
        masker.mask(logits)
        for row in range(2):
            allowed = np.unpackbits(remembering.mask(states[row]).view(np.uint8), bitorder="little")
            assert (torch.isfinite(logits[row, :256]).numpy() == allowed[:256]).all()
            outputs[row].append(texts[row][step])
            states[row] = remembering.advance(states[row], texts[row][step])
    assert forgotten > 2, index.num_states
