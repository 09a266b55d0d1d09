"""The pool of resident indexes: uploaded once, released, evicted by age, moved when room is made; never more than its bytes."""

from __future__ import annotations

import copy
import random

import pytest
import torch

import guided
from guided.masking import BatchMasker
from guided.masking.tables import TablePool
from guided.vocabulary import Vocabulary
from tests.masking.test_batch_masker import STOP, TOKENS


@pytest.fixture(scope="module")
def small() -> Vocabulary:
    return Vocabulary.from_tokens(TOKENS, eos_ids=[STOP])


@pytest.fixture(scope="module")
def indexes(small) -> list:
    found = [guided.compile(guided.Constraint.regex(f"[01]{{1,{n}}}a?"), small) for n in range(2, 12)]
    for index in found:
        index.close()
    return found


def bytes_of(small, index) -> int:
    pool = TablePool(small, torch.device("cpu"))
    pool.acquire(index)
    return pool.used_bytes


def test_an_index_is_uploaded_once(small, indexes):
    pool = TablePool(small, torch.device("cpu"))
    number = pool.acquire(indexes[0])
    used = pool.used_bytes
    assert pool.acquire(indexes[0]) == number
    assert pool.used_bytes == used > 0


def test_what_is_in_use_stays_and_the_oldest_of_the_others_goes(small, indexes):
    capacity = sum(bytes_of(small, index) for index in indexes[:3])
    pool = TablePool(small, torch.device("cpu"), capacity)
    numbers = [pool.acquire(index) for index in indexes[:3]]
    assert None not in numbers
    assert pool.acquire(indexes[3]) is None  # all in use: no room, and nothing is thrown out
    pool.release(numbers[1])
    pool.release(numbers[0])
    pool.acquire(indexes[0])
    pool.release(numbers[0])  # so 1 was used before 0
    assert pool.acquire(indexes[3]) is None or indexes[1] not in pool
    assert indexes[2] in pool
    assert pool.used_bytes <= capacity


def test_a_full_pool_is_not_moved_for_every_new_index(small, indexes, monkeypatch):
    pool = TablePool(small, torch.device("cpu"), 24 * bytes_of(small, indexes[0]))
    moves = []
    compact = pool._compact
    monkeypatch.setattr(pool, "_compact", lambda: (moves.append(pool.used_bytes), compact()))
    others = [copy.copy(indexes[0]) for _ in range(72)]
    for index in others:
        pool.release(pool.acquire(index))
    assert 1 <= len(moves) <= 48 / 3
    assert others[-1] in pool and others[0] not in pool


def test_masks_stay_right_while_the_pool_is_full(small, indexes):
    """Requests of ten indexes in a pool for three: some are resolved on the host, tables move, masks do not change."""
    capacity = sum(bytes_of(small, index) for index in indexes[-3:])
    masker = BatchMasker(small, capacity_bytes=capacity)
    choose = random.Random(5)
    outputs: dict[int, tuple[int, list[int]]] = {}
    on_host = on_device = 0
    for _ in range(300):
        row = choose.randrange(4)
        outputs[row] = (choose.randrange(len(indexes)), [])
        masker.add(row, indexes[outputs[row][0]], output=outputs[row][1], stop_tokens={STOP})
        logits = torch.zeros(4, small.size)
        masker.advance()
        masker.mask(logits)
        for row, (kind, output) in outputs.items():
            index, state = indexes[kind], indexes[kind].start
            for token in output:
                state = index.advance(state, token)
            words = index.mask(state)
            allowed = {t for t in range(small.size) if words[t >> 5] >> (t & 31) & 1}
            allowed |= {STOP} if index.is_accepting(state) else set()
            assert set(torch.isfinite(logits[row]).nonzero().flatten().tolist()) == allowed
            output.append(choose.choice(sorted(allowed - {STOP}) or [STOP]))
            on_device += masker._slots[row].table is not None
            on_host += masker._slots[row].table is None
        outputs = {row: (kind, output) for row, (kind, output) in outputs.items() if STOP not in output}
        for row in set(range(4)) - set(outputs):
            masker.remove(row)
        assert masker._pool.used_bytes <= capacity
    assert on_host and on_device
