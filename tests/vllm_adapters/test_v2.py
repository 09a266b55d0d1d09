"""Our V2 processor under random schedules of vLLM's V2 runner: drafts, rejections, preemption, recycled slots.

The runner is played on plain tensors, through vLLM's own interface classes; every mask is compared with the slow reference, and
with the V1 masker that follows the same requests.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcRequestState

from guided.masking import BatchMasker
from guided.masking.history_masker import HistoryMasker
from guided.masking.reference import allowed_tokens
from guided.vllm_adapters import v2
from guided.vllm_adapters.params import KEY, to_extra_args
from guided.vllm_adapters.reports import Reports
from guided.vocabulary import Vocabulary
from tests.masking.test_batch_masker import CONSTRAINTS, STOP, TOKENS

SLOTS, LENGTH, MOST_DRAFTS = 5, 64, 3


@pytest.fixture(scope="module")
def small() -> Vocabulary:
    return Vocabulary.from_tokens(TOKENS, eos_ids=[STOP])


@cache
def reference(kind: int, output: tuple[int, ...]) -> frozenset[int]:
    token_bytes = [b"" if token == STOP else text for token, text in enumerate(TOKENS)]
    return frozenset(allowed_tokens(CONSTRAINTS[kind][1], token_bytes, output, {STOP}))


def params(kind: int | None, report: str | None = None) -> SamplingParams:
    extra = None if kind is None else to_extra_args(None, CONSTRAINTS[kind][0], "req", fit_budget=False, report=report)
    sampling = SamplingParams(extra_args=extra)
    sampling.update_from_generation_config({"eos_token_id": STOP}, eos_token_id=STOP)
    return sampling


@dataclass(slots=True)
class Request:
    kind: int | None
    prompt: list[int]
    output: list[int] = field(default_factory=list)
    report: str | None = None


class Runner:
    """As much of the V2 runner as the processor sees: buffers by slot, mutated in place."""

    def __init__(self, monkeypatch, vocabulary: Vocabulary, way: str) -> None:
        """`way`: how slots are resolved, by compiled loops, tensor operations or on the host."""
        self.tokens = torch.zeros((SLOTS, LENGTH), dtype=torch.int32)
        self.prompt_len, self.prefill_len, self.total_len = (torch.zeros(SLOTS, dtype=torch.int32) for _ in range(3))
        states = LogitsProcRequestState(
            device=torch.device("cpu"),
            max_num_reqs=SLOTS,
            vocab_size=vocabulary.size,
            all_token_ids=SimpleNamespace(gpu=self.tokens),
            prompt_len=SimpleNamespace(gpu=self.prompt_len, np=self.prompt_len.numpy()),
            prefill_len=SimpleNamespace(gpu=self.prefill_len, np=self.prefill_len.numpy()),
            total_len=SimpleNamespace(gpu=self.total_len),
        )
        monkeypatch.setattr(v2.Vocabulary, "from_pretrained", lambda *_, **__: vocabulary)
        model = SimpleNamespace(tokenizer="", get_vocab_size=lambda: vocabulary.size, max_model_len=LENGTH)
        speculation = SimpleNamespace(num_speculative_tokens=MOST_DRAFTS)
        config = SimpleNamespace(
            model_config=model,
            parallel_config=SimpleNamespace(nnodes=1),
            speculative_config=speculation,
            instance_id="test",
        )
        self.processor = v2.GuidedLogitsProcessor(config, states)
        if way == "host":
            monkeypatch.setattr(self.processor._store, "_close", lambda index: None)  # growing indexes
        if way == "tensors":
            self.processor._masker = HistoryMasker(vocabulary, "cpu", SLOTS, most_drafts=MOST_DRAFTS, compiled=False)
        self.columns = vocabulary.size
        self.slots: dict[int, Request] = {}

    def add(self, slot: int, request: Request) -> None:
        known = request.prompt + request.output
        self.tokens[slot, : len(known)] = torch.tensor(known)
        self.prompt_len[slot] = len(request.prompt)
        self.prefill_len[slot] = self.total_len[slot] = len(known)
        self.slots[slot] = request
        needed = self.processor.add_request(slot, params(request.kind, request.report))
        assert needed == (request.kind is not None)

    def apply(self, drafts: dict[int, list[int]]) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int]]]:
        """Logits before and after, and (slot, drafts before it) of each row."""
        batch = list(drafts)
        random.shuffle(batch)
        rows = [(slot, position) for slot in batch for position in range(len(drafts[slot]) + 1)]
        known = {slot: self.slots[slot].prompt + self.slots[slot].output for slot in batch}
        lengths = [len(known[slot]) + len(drafts[slot]) for slot in batch]
        context = LogitsContext(
            expanded_idx_mapping=torch.tensor([slot for slot, _ in rows], dtype=torch.int32),
            idx_mapping=torch.tensor(batch, dtype=torch.int32),
            idx_mapping_np=np.array(batch),
            expanded_local_pos=torch.tensor([position for _, position in rows], dtype=torch.int32),
            input_ids=torch.tensor([(known[s][-1:] + drafts[s])[p] for s, p in rows], dtype=torch.int32),
            pos=torch.tensor([len(known[s]) - 1 + p for s, p in rows]),
            seq_lens_upper_bound_np=np.array(lengths),
        )
        self.processor.apply_staged_writes()
        before = torch.randn(len(rows), self.columns)
        return before, self.processor.apply(before.clone(), context), rows

    def write(self, slot: int, tokens: list[int]) -> None:
        request, begin = self.slots[slot], int(self.total_len[slot])
        request.output.extend(tokens)
        self.tokens[slot, begin : begin + len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        self.total_len[slot] += len(tokens)


def draw_drafts(choose: random.Random, request: Request) -> list[int]:
    """Mostly tokens that could come, sometimes any token, sometimes none, sometimes the placeholder."""
    drafts: list[int] = []
    for _ in range(choose.choice([0, 0, 1, 2, 3])):
        written = tuple(request.output + drafts)
        sensible = request.kind is not None and choose.random() < 0.8 and -1 not in drafts
        allowed = sorted(reference(request.kind, written)) if sensible else []
        drafts.append(choose.choice(allowed or range(-1, len(TOKENS))))
    return drafts


def change_slots(runner: Runner, choose: random.Random, preempted: list[Request]) -> None:
    free = [slot for slot in range(SLOTS) if slot not in runner.slots]
    if runner.slots and choose.random() < 0.2:
        runner.slots.pop(choose.choice(list(runner.slots)))  # finished or aborted: the processor is not told
    if runner.slots and choose.random() < 0.2:
        preempted.append(runner.slots.pop(choose.choice(list(runner.slots))))
    for slot in free:
        if choose.random() < 0.6:
            again = preempted and choose.random() < 0.7
            kind = choose.choice([None, *range(len(CONSTRAINTS))])
            fresh = Request(kind, [choose.randrange(len(TOKENS)) for _ in range(choose.randint(1, 5))])
            runner.add(slot, preempted.pop() if again else fresh)


def check_rows(runner: Runner, drafts: dict[int, list[int]], before, after, rows) -> None:
    for row, (slot, position) in enumerate(rows):
        request, ahead = runner.slots[slot], drafts[slot][:position]
        if request.kind is None:
            assert before[row].numpy().tobytes() == after[row].numpy().tobytes()
            continue
        written = tuple(request.output)
        if any(token not in reference(request.kind, (*written, *ahead[:i])) for i, token in enumerate(ahead)):
            assert torch.isfinite(after[row]).any()  # behind a draft that is rejected: whatever it says, no NaN
            continue
        expected = reference(request.kind, (*written, *ahead))
        assert set(torch.isfinite(after[row]).nonzero().flatten().tolist()) == expected


def sample(runner: Runner, choose: random.Random, drafts: dict[int, list[int]]) -> None:
    """Some allowed drafts are accepted, then one more token is sampled."""
    for slot, request in list(runner.slots.items()):
        accepted: list[int] = []
        for token in drafts[slot]:
            may = (
                token in reference(request.kind, (*request.output, *accepted))
                if request.kind is not None
                else token >= 0
            )
            if not may or choose.random() < 0.3 or STOP in accepted:
                break
            accepted.append(token)
        if STOP not in accepted:
            last = (
                reference(request.kind, (*request.output, *accepted))
                if request.kind is not None
                else range(len(TOKENS))
            )
            accepted.append(choose.choice(sorted(last)))
        runner.write(slot, accepted)
        if STOP in request.output or len(request.prompt + request.output) > LENGTH - 8:
            del runner.slots[slot]


@pytest.mark.parametrize("way", ["compiled", "tensors", "host"])
@pytest.mark.parametrize("block", range(3))
def test_random_schedules(monkeypatch, small, way, block):
    runner = Runner(monkeypatch, small, way)
    followers = BatchMasker(small)
    for seed in range(40):
        choose = random.Random(1000 * block + seed)
        runner.slots.clear()
        preempted: list[Request] = []
        for _ in range(15):
            change_slots(runner, choose, preempted)
            if not runner.slots:
                continue
            drafts = {slot: draw_drafts(choose, request) for slot, request in runner.slots.items()}
            before, after, rows = runner.apply(drafts)
            check_rows(runner, drafts, before, after, rows)
            same_as_v1(followers, runner, before, after, rows)
            sample(runner, choose, drafts)


def same_as_v1(masker: BatchMasker, runner: Runner, before, after, rows) -> None:
    """The V1 masker, told of the committed tokens, masks the first row of each request alike."""
    first = {slot: row for row, (slot, position) in enumerate(rows) if position == 0}
    store = runner.processor._store
    for slot in first:
        request = runner.slots[slot]
        masker.remove(slot)
        if request.kind is not None:
            index = store.get(v2.from_extra_args(params(request.kind).extra_args))
            masker.add(slot, index, output=request.output, stop_tokens={STOP})
    for slot in set(range(SLOTS)) - set(first):
        masker.remove(slot)
    logits = torch.zeros((SLOTS, runner.columns))
    for slot, row in first.items():
        logits[slot] = before[row]
    masker.advance()
    masker.mask(logits)
    for slot, row in first.items():
        assert logits[slot].numpy().tobytes() == after[row].numpy().tobytes()


@pytest.mark.parametrize("most_drafts", [0, MOST_DRAFTS])
def test_what_is_reported_of_the_tokens_that_were_kept(monkeypatch, small, tmp_path, most_drafts):
    """Beside requests that nobody asks about, with drafts that are rejected, and preempted on the way."""
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    runner, choose = Runner(monkeypatch, small, way="compiled"), random.Random(5)
    asked = [Request(1, [2, 3], report="one"), Request(2, [4], report="two")]
    expected: dict[str, list[tuple[float, int]]] = {"one": [], "two": []}
    runner.add(0, Request(0, [3]))
    runner.add(1, asked[0])
    runner.add(3, asked[1])
    step = 0
    while runner.slots:
        step += 1
        drafts = {slot: draw_drafts(choose, request)[:most_drafts] for slot, request in runner.slots.items()}
        before, after, rows = runner.apply(drafts)
        known = {slot: (request, len(request.output)) for slot, request in runner.slots.items()}
        sample(runner, choose, drafts)
        for row, (slot, position) in enumerate(rows):
            request, written = known[slot]
            if request.report is not None and written + position < len(request.output):
                whole, kept = before[row].double().exp().sum(), after[row].double().exp().sum()
                expected[request.report].append((float(kept / whole), int(torch.isfinite(after[row]).sum())))
        if step == 2:
            runner.add(4, runner.slots.pop(3))
    for request in asked:
        found = asyncio.run(Reports().read(request.report, len(request.output)))
        assert found is not None and found.states is None
        assert found.allowed == [allowed for _, allowed in expected[request.report]]
        assert found.mass == pytest.approx([mass for mass, _ in expected[request.report]], rel=1e-4)


def test_foreign_entry_in_extra_args_fails_alone(monkeypatch, small):
    runner = Runner(monkeypatch, small, way="compiled")
    runner.add(0, Request(None, [3]))
    runner.add(1, Request(0, [3]))
    broken = params(None)
    broken.extra_args = {KEY: "nonsense"}
    assert runner.processor.add_request(0, broken)
    _, after, rows = runner.apply({0: [], 1: []})
    by_slot = {slot: set(torch.isfinite(after[row]).nonzero().flatten().tolist()) for row, (slot, _) in enumerate(rows)}
    assert by_slot[0] == {STOP}
    assert by_slot[1] == set(reference(0, ()))


def test_more_new_tokens_than_a_step_can_have_fail_the_request(monkeypatch, small):
    runner = Runner(monkeypatch, small, way="compiled")
    runner.add(0, Request(2, [3]))
    runner.apply({0: []})
    text = [TOKENS.index(piece) for piece in (b"0", b"0", b"0", b".", b"0")]
    runner.write(0, text)
    _, after, _ = runner.apply({0: []})
    assert set(torch.isfinite(after[0]).nonzero().flatten().tolist()) == {STOP}
