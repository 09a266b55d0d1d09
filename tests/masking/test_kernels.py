"""The two mask kernels against the reference that writes -inf one token at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.masking import reference
from guided.masking.kernels import mask_row, mask_row_tensor

STOP = [2, 40]


def packed(allowed: set[int], vocabulary: int) -> np.ndarray:
    words = np.zeros(-(-vocabulary // 32), np.uint32)
    for token in allowed:
        words[token >> 5] |= np.uint32(1 << (token & 31))
    return words


def run(kernel: str, logits: np.ndarray, words: np.ndarray, may_stop: bool) -> tuple[np.ndarray, bool]:
    stop = np.array(STOP, np.int64)
    if kernel == "numba":
        row = logits.copy()
        return row, mask_row(row, words.view(np.int32), stop, may_stop)
    row_tensor = torch.from_numpy(logits.copy())
    left = mask_row_tensor(row_tensor, torch.from_numpy(words.view(np.int32)), torch.from_numpy(stop), may_stop)
    return row_tensor.numpy(), left


@pytest.mark.parametrize("kernel", ["numba", "torch"])
@given(
    allowed=st.sets(st.integers(0, 69)),
    may_stop=st.booleans(),
    padding=st.sampled_from([0, 1, 26, 58, 100]),
    blocked=st.sets(st.integers(0, 69)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_kernel_equals_reference(kernel, allowed, may_stop, padding, blocked, seed):
    columns = 70 + padding  # a padded last layer has more columns than the vocabulary has tokens
    logits = np.random.default_rng(seed).normal(size=columns).astype(np.float32)
    logits[list(blocked)] = -np.inf  # filters of the engine that came before
    expected_tokens = (allowed - set(STOP)) | (set(STOP) if may_stop else set())
    expected = np.array(reference.masked(logits.tolist(), expected_tokens), np.float32)

    row, left = run(kernel, logits, packed(allowed, 70), may_stop)

    assert row.tobytes() == expected.tobytes()
    assert left == np.isfinite(expected).any()


@pytest.mark.parametrize("kernel", ["numba", "torch"])
def test_logits_narrower_than_the_mask(kernel):
    logits = np.zeros(45, np.float32)
    row, left = run(kernel, logits, packed({1, 44}, 70), may_stop=False)
    assert np.flatnonzero(np.isfinite(row)).tolist() == [1, 44]
    assert left
