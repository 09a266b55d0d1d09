"""What is measured of the masks, against the probabilities written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import guided
from guided.masking import BatchMasker
from guided.masking.pressure import Pressure
from guided.masking.slot import Slot, states_visited
from guided.vocabulary import Vocabulary

STOP = 0


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokens([b"", *(bytes([byte]) for byte in range(97, 123))], eos_ids=[STOP])


@pytest.mark.parametrize("closed", [True, False])
def test_mass_and_number_of_the_allowed_tokens(vocabulary, closed):
    index = guided.compile(guided.Constraint.regex("[ab]c"), vocabulary)
    if closed:
        index.close()
    left: list[Slot] = []
    masker = BatchMasker(vocabulary, on_leave=left.append)
    output: list[int] = []
    pressure = Pressure()
    masker.add(1, index, output=output, stop_tokens={STOP}, pressure=pressure)
    masker.add(2, index, output=[], stop_tokens={STOP})  # nobody asked for this one
    expected = []
    for allowed, token in (({1, 2}, 1), ({3}, 3), ({STOP}, STOP)):
        logits = torch.from_numpy(np.random.default_rng(token).normal(size=(3, 27)).astype(np.float32))
        whole = [math.exp(value) for value in logits[1].tolist()]
        expected.append(sum(whole[t] for t in allowed) / sum(whole))
        masker.advance()
        masker.mask(logits)
        output.append(token)
    masker.remove(1)
    masker.remove(2)
    assert [slot.pressure for slot in left] == [pressure, None]
    mass, allowed_counts = left[0].pressure.read()
    assert mass == pytest.approx(expected, rel=1e-5)
    assert allowed_counts == [2, 1, 1]
    assert states_visited(left[0]) == 3
    assert states_visited(left[1]) == 1


def test_where_filters_left_nothing_the_mass_is_zero(vocabulary):
    index = guided.compile(guided.Constraint.regex("[ab]c"), vocabulary)
    masker = BatchMasker(vocabulary)
    pressure = Pressure()
    masker.add(0, index, output=[], stop_tokens={STOP}, pressure=pressure)
    masker.advance()
    masker.mask(torch.full((1, 27), float("-inf")))
    assert pressure.read()[0] == [0.0]
    assert Pressure().read() == ([], [])
