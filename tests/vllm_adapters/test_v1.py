"""Our V1 processor under vLLM's own batch updates: constrained rows masked, plain rows bit-identical, whatever moves where."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessors, MoveDirectionality
from vllm.v1.sample.logits_processor.state import BatchUpdateBuilder

import guided
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.vllm_adapters import mask_times
from guided.vllm_adapters.params import KEY, to_extra_args, with_prefix
from guided.vllm_adapters.v1 import GuidedLogitsProcessor

EOS = 2  # of the embedded model
SENTIMENT = Constraint.choice(["POSITIVE", "NEUTRAL", "NEGATIVE"])


def params(constraint: Constraint | None) -> SamplingParams:
    extra = None if constraint is None else to_extra_args(None, constraint, "req")
    sampling = SamplingParams(extra_args=extra)
    sampling.update_from_generation_config({"eos_token_id": EOS}, eos_token_id=EOS)
    return sampling


class Batch:
    """Plays the runner: vLLM's own builder makes the updates that the processor sees."""

    def __init__(self, model_folder, columns: int) -> None:
        model = SimpleNamespace(tokenizer=str(model_folder), get_vocab_size=lambda: columns, max_model_len=4096)
        one_host = SimpleNamespace(nnodes=1)
        config = SimpleNamespace(model_config=model, parallel_config=one_host, instance_id="test")
        self.processor = GuidedLogitsProcessor(config, torch.device("cpu"), False)
        self.builder = BatchUpdateBuilder()
        self.columns = columns
        self.rows: dict[int, list[int]] = {}

    def add(self, row: int, constraint: Constraint | None, output: list[int] | None = None) -> None:
        self.rows[row] = [] if output is None else output
        self.builder.added.append((row, params(constraint), [1, 2, 3], self.rows[row]))

    def remove(self, row: int) -> None:
        del self.rows[row]
        self.builder.removed_append(row)

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits before and after the processor, as the sampler calls it."""
        size = max(self.rows) + 1
        self.processor.update_state(self.builder.get_and_reset(size))
        before = torch.randn(size, self.columns)
        return before, self.processor.apply(before.clone())


@pytest.fixture
def batch(model_folder) -> Batch:
    return Batch(model_folder, 49_152)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numpy().tobytes() == b.numpy().tobytes()


def allowed(row: torch.Tensor) -> set[int]:
    return set(torch.isfinite(row).nonzero().flatten().tolist())


def texts(row: torch.Tensor, vocabulary) -> set[bytes]:
    return {vocabulary.bytes_of(token) for token in allowed(row)}


def test_eight_constrained_and_eight_plain(batch, vocabulary):
    for row in range(16):
        batch.add(row, SENTIMENT if row % 2 else None)
    before, after = batch.step()
    for row in range(16):
        if row % 2:
            assert texts(after[row], vocabulary) == {b"P", b"PO", b"POS", b"N", b"NE", b"NEG"} & texts(
                after[row], vocabulary
            )
            assert allowed(after[row])
        else:
            assert same_bits(before[row], after[row])


def test_plain_request_takes_over_the_slot_of_a_constrained_one(batch):
    batch.add(0, SENTIMENT)
    batch.add(1, SENTIMENT)
    batch.step()
    batch.remove(0)
    batch.add(0, None)  # removed and added within one step, as the runner does when a request ends and one waits
    before, after = batch.step()
    assert same_bits(before[0], after[0])
    assert len(allowed(after[1])) < 20


def test_added_request_replaces_one_without_a_removal(batch):
    batch.add(0, SENTIMENT)
    batch.step()
    batch.add(0, None)
    before, after = batch.step()
    assert same_bits(before[0], after[0])


@pytest.mark.parametrize("direction", [MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP])
def test_constrained_request_moves(batch, direction):
    batch.add(0, None)
    batch.add(1, SENTIMENT)
    batch.step()
    if direction == MoveDirectionality.UNIDIRECTIONAL:
        batch.remove(0)
        batch.builder.moved.append((1, 0, direction))
        batch.rows = {0: batch.rows[1]}
    else:
        batch.builder.moved.append((0, 1, direction))
    before, after = batch.step()
    assert len(allowed(after[0])) < 20
    for row in range(1, len(after)):
        assert same_bits(before[row], after[row])


def test_tokens_are_read_at_apply_and_the_answer_ends(batch, vocabulary):
    batch.add(0, SENTIMENT)
    _, after = batch.step()
    output = batch.rows[0]
    while True:
        token = int(after[0].argmax())
        output.append(-1)  # async scheduling: a placeholder, repaired between update_state and apply
        batch.processor.update_state(None)
        output[-1] = token
        if token == EOS:
            break
        after = batch.processor.apply(torch.randn(1, batch.columns))
        assert len(output) < 20
    assert b"".join(vocabulary.bytes_of(token) for token in output[:-1]).decode() in SENTIMENT.value
    assert allowed(batch.processor.apply(torch.randn(1, batch.columns))[0]) == {EOS}


def test_preempted_request_comes_back_with_its_output(batch, vocabulary):
    batch.add(0, SENTIMENT)
    _, after = batch.step()
    token = int(after[0].argmax())
    batch.rows[0].append(token)
    again = batch.processor.apply(torch.zeros(1, batch.columns))
    expected = allowed(again[0])
    output = batch.rows[0]
    batch.remove(0)
    batch.add(3, SENTIMENT, output)
    _, after = batch.step()
    assert allowed(after[3]) == expected


def test_constraint_that_does_not_compile_here_fails_alone(batch):
    batch.add(0, Constraint.regex("(unbalanced"))
    batch.add(1, SENTIMENT)
    batch.add(2, None)
    before, after = batch.step()
    assert allowed(after[0]) == {EOS}
    assert len(allowed(after[1])) < 20
    assert same_bits(before[2], after[2])


def test_foreign_entry_in_extra_args_fails_alone(batch):
    batch.add(0, None)
    broken = params(None)
    broken.extra_args = {KEY: "nonsense"}
    batch.rows[1] = []
    batch.builder.added.append((1, broken, [1], batch.rows[1]))
    before, after = batch.step()
    assert same_bits(before[0], after[0])
    assert allowed(after[1]) == {EOS}


def test_padded_columns_are_never_allowed(model_folder):
    batch = Batch(model_folder, 49_152 + 64)
    batch.add(0, Constraint.regex(r"[\s\S]*"))
    _, after = batch.step()
    assert max(allowed(after[0])) < 49_152


def test_index_of_the_batch_agrees_with_the_library(batch, vocabulary):
    index = guided.compile(SENTIMENT, vocabulary)
    batch.add(0, SENTIMENT)
    _, after = batch.step()
    words = index.mask(index.start)
    assert allowed(after[0]) == {t for t in range(vocabulary.size) if words[t >> 5] >> (t & 31) & 1}


def test_it_is_not_argmax_invariant(batch):
    assert LogitsProcessors([batch.processor]).non_argmax_invariant == [batch.processor]


@pytest.mark.parametrize("written", [0, 1, 2])
def test_an_answer_that_began_in_the_prompt_goes_on(batch, vocabulary, written):
    """A request that was broken off comes back with its tokens at the end of the prompt."""
    answer = [
        int(next(t for t in range(vocabulary.size) if vocabulary.bytes_of(t) == piece)) for piece in (b"N", b"E", b"U")
    ]
    batch.add(0, SENTIMENT, list(answer))
    asked = params(SENTIMENT)
    asked.extra_args = with_prefix(asked.extra_args, written)
    output = answer[written:]
    batch.rows[1] = output
    batch.builder.added.append((1, asked, [1, 2, 3, *answer[:written]], output))
    _, after = batch.step()
    assert torch.equal(after[0].isinf(), after[1].isinf())
    for row in (0, 1):
        batch.rows[row].append(answer[2])  # "UU" is in no answer
    _, after = batch.step()
    assert after[1].isfinite().nonzero().flatten().tolist() == [EOS]


def test_what_was_asked_for_is_reported_when_the_request_leaves(model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    batch = Batch(model_folder, 49_152)
    batch.rows[0] = []
    asking = params(SENTIMENT)
    asking.extra_args = to_extra_args(None, SENTIMENT, "asking", report="name")
    batch.builder.added.append((0, asking, [1, 2, 3], batch.rows[0]))
    batch.add(1, SENTIMENT)
    for _ in range(2):
        _, after = batch.step()
        for row, output in batch.rows.items():
            output.append(int(after[row].argmax()))
    written = list(batch.rows[0])
    batch.remove(0)
    batch.remove(1)
    batch.rows[2] = []
    batch.step()
    (path,) = (tmp_path / "reports").iterdir()
    (line,) = path.read_text().splitlines()
    report = json.loads(line)
    assert len(report["mass"]) == len(report["allowed"]) == len(written) == 2
    assert all(0 < mass < 1 for mass in report["mass"])
    assert report["states"] == 3


def test_a_report_that_fails_ends_nothing(model_folder, tmp_path, monkeypatch):
    def too_large(_slot):
        raise LimitExceeded("the index outgrew its limits", limit="states")

    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("guided.vllm_adapters.v1.states_visited", too_large)
    batch = Batch(model_folder, 49_152)
    asking = params(SENTIMENT)
    asking.extra_args = to_extra_args(None, SENTIMENT, "asking", report="name")
    batch.rows[0] = []
    batch.builder.added.append((0, asking, [1, 2, 3], batch.rows[0]))
    batch.add(1, SENTIMENT)
    batch.step()
    batch.remove(0)
    _, after = batch.step()
    assert allowed(after[1]), "the others go on"
    assert not list(tmp_path.glob("reports/*"))


def test_the_time_of_each_step_with_a_constraint_is_counted(model_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("GUIDED_CACHE_DIR", str(tmp_path))
    batch = Batch(model_folder, 49_152)
    batch.add(0, None)
    batch.step()
    assert mask_times.read("test") == ([0] * (len(mask_times.BOUNDS) + 1), 0.0)
    batch.add(1, SENTIMENT)
    for _ in range(3):
        batch.step()
    counts, seconds = mask_times.read("test")
    assert sum(counts) == 3 and seconds > 0
