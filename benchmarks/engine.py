"""What the processor costs the engine: host time per request and step on synthetic logits, then, where asked, whole generations.

`python -m benchmarks.engine` measures the masker alone; `--engine` adds the engine with the embedded model: batch 1, 8, 16,
unguided and each kind of constraint in turn in one process. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import guided
from guided.masking import BatchMasker
from guided.vocabulary import Vocabulary
from scripts.prepare_model import default_target

COLUMNS = 128_256
BATCHES = (1, 8, 16, 64, 256)
EMAIL = {"type": "string", "minLength": 1, "maxLength": 40}
CONSTRAINTS = {
    "string": guided.Constraint.regex(r"[^\n]{300,400}"),  # rows allow nearly everything
    "json": guided.Constraint.json_schema(
        {
            "type": "object",
            "properties": {"name": EMAIL, "age": {"type": "integer"}, "mails": {"type": "array", "items": EMAIL}},
            "required": ["name", "age", "mails"],
        }
    ),
    "digits": guided.Constraint.regex(r"[0-9]{300,400}"),  # all rows are lists
}


def synthetic(columns: int = COLUMNS) -> Vocabulary:
    """A vocabulary as wide as Llama-3's: every byte, then words of small letters and of digits."""
    tokens = [bytes([byte]) for byte in range(256)] + [b""]
    letters = "abcdefghijklmnopqrstuvwxyz"
    number = 0
    while len(tokens) < columns:
        word, rest = "", number
        while True:
            word, rest = word + letters[rest % 26], rest // 26
            if rest == 0:
                break
        tokens.append((" " * (number % 2) + word).encode())
        number += 1
    return Vocabulary.from_tokens(tokens, eos_ids=[256])


class Rows:
    """A batch whose rows all follow one constraint; every step each writes a token that it may write."""

    def __init__(self, vocabulary: Vocabulary, index: Any, batch: int, compiled: bool) -> None:
        self.masker = BatchMasker(vocabulary, compiled=compiled)
        self.outputs: list[list[int]] = [[] for _ in range(batch)]
        for row, output in enumerate(self.outputs):
            self.masker.add(row, index, output=output, stop_tokens={256})
        self.logits = torch.randn(batch, vocabulary.size)
        self.work = self.logits.clone()

    def step(self) -> tuple[float, float]:
        """Seconds of `advance` and of `mask`."""
        self.work.copy_(self.logits)
        begin = time.perf_counter()
        self.masker.advance()
        middle = time.perf_counter()
        self.masker.mask(self.work)
        end = time.perf_counter()
        for output, token in zip(self.outputs, self.work.argmax(1).tolist(), strict=True):
            output.append(token)
        return middle - begin, end - middle


def fill_seconds(batch: int, columns: int, repeats: int) -> float:
    """Writing the rows once, which a mask that allows little cannot do without: the floor of the memory."""
    logits = torch.empty(batch, columns)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        logits.fill_(float("-inf"))
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure_masker(steps: int, batches: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Microseconds per request and step."""
    vocabulary = synthetic()
    results: dict[str, dict[str, Any]] = {}
    for name, constraint in CONSTRAINTS.items():
        index = guided.compile(constraint, vocabulary)
        index.close()
        for compiled in (True, False):
            for batch in batches if compiled else (1, 16):
                rows = Rows(vocabulary, index, batch, compiled)
                times = [rows.step() for _ in range(steps)][1:]
                advance, mask = (1e6 * statistics.median(part) / batch for part in zip(*times, strict=True))
                floor = 1e6 * fill_seconds(batch, vocabulary.size, steps) / batch
                form = "compiled" if compiled else "tensors"
                results.setdefault(f"{name} {form}", {})[str(batch)] = [
                    round(advance, 2),
                    round(mask, 2),
                    round(floor, 2),
                ]
                print(
                    f"{name:8}{form:10}{batch:5}  advance {advance:8.2f}  mask {mask:8.2f}  fill {floor:8.2f} us",
                    flush=True,
                )
    return results


# --- the engine -------------------------------------------------------------------------------------------------------


def engine_conditions() -> dict[str, Any]:
    """Name -> constraint, or None. 64 tokens of each, whatever the model would like."""
    string = {"type": "string", "minLength": 2000}
    return {
        "plain": None,
        "regex": guided.Constraint.regex(r"[A-Za-z ,.]{2000,2500}"),
        "json_simple": guided.Constraint.json_schema(
            {"type": "object", "properties": {"a": string}, "required": ["a"]}
        ),
        "json_complex": guided.Constraint.json_schema(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "kind": {"enum": ["a", "b", "c"]},
                    "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 200},
                },
                "required": ["id", "kind", "tags"],
            }
        ),
        "grammar": guided.Constraint.grammar('start: item+\nitem: "(" item* ")" | WORD " "\nWORD: /[a-z]{200,}/\n'),
    }


def measure_engine(tokens: int, repeats: int, batches: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Ratios to unguided, medians of `repeats` rounds in which the conditions take turns."""
    from vllm import LLM, SamplingParams

    from guided.vllm_adapters.params import to_extra_args
    from guided.vllm_adapters.select import V1

    model = LLM(
        str(default_target()), dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=max(batches),
        logits_processors=[V1],
    )  # fmt: skip
    conditions: dict[str, Callable[[int], float]] = {}
    for name, constraint in engine_conditions().items():

        def run(batch: int, constraint: Any = constraint) -> float:
            extra = None if constraint is None else to_extra_args(None, constraint, "bench", fit_budget=False)
            params = SamplingParams(max_tokens=tokens, min_tokens=tokens, temperature=0.0, extra_args=extra)
            begin = time.perf_counter()
            outputs = model.generate(["Once upon a time"] * batch, params, use_tqdm=False)
            seconds = time.perf_counter() - begin
            assert all(len(output.outputs[0].token_ids) == tokens for output in outputs)
            return seconds

        conditions[name] = run
    ratios: dict[str, dict[str, float]] = {}
    for batch in batches:
        times: dict[str, list[float]] = {name: [] for name in conditions}
        for round_number in range(repeats + 1):
            for name, condition in conditions.items():
                seconds = condition(batch)
                if round_number:  # the first round warms up
                    times[name].append(seconds)
        plain = statistics.median(times["plain"])
        for name, values in times.items():
            ratios.setdefault(name, {})[str(batch)] = round(plain / statistics.median(values), 3)
            print(
                f"batch {batch:3} {name:14} {statistics.median(values):7.3f} s  ratio {ratios[name][str(batch)]}",
                flush=True,
            )
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--engine", action="store_true", help="whole generations as well: minutes")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16])
    options = parser.parse_args()
    result: dict[str, Any] = {"host_us": measure_masker(options.steps, BATCHES)}
    worst = {b: max(sum(result["host_us"][f"{name} compiled"][b][:2]) for name in CONSTRAINTS) for b in ("1", "256")}
    result["host_us_per_request_step"] = {batch: round(value, 2) for batch, value in worst.items()}
    if options.engine:
        result["ratios"] = measure_engine(options.tokens, options.repeats, tuple(options.batches))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
