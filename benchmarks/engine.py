"""What the processor costs the engine: host time per request and step on synthetic logits, then, where asked, whole generations.

`python -m benchmarks.engine` measures the masker alone; `--engine` adds the engine with the embedded model: batch 1, 8, 16,
unguided and each kind of constraint in turn in one process. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import torch

import guided
from guided.masking import BatchMasker
from guided.vocabulary import Vocabulary

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
    torch.set_num_threads(1)  # the floor is that of one core, on which the loops run too
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


def in_a_process(task: dict[str, Any]) -> dict[str, Any]:
    """What `benchmarks.generations` prints last, in a process that has not imported anything of ours before the engine."""
    command = [sys.executable, "-m", "benchmarks.generations", json.dumps(task)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line
    if process.returncode:
        raise SystemExit(process.returncode)
    return json.loads(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--engine", action="store_true", help="whole generations as well: minutes")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--kinds", nargs="+", default=["regex", "json_simple", "json_complex", "grammar"])
    parser.add_argument(
        "--backends", nargs="*", default=["xgrammar", "guidance", "outlines"], help="vLLM's own, to compare with"
    )
    options = parser.parse_args()
    result: dict[str, Any] = {"host_us": measure_masker(options.steps, BATCHES)}
    worst = {b: max(sum(result["host_us"][f"{name} compiled"][b][:2]) for name in CONSTRAINTS) for b in ("1", "256")}
    result["host_us_per_request_step"] = {batch: round(value, 2) for batch, value in worst.items()}
    if options.engine:
        task = {name: getattr(options, name) for name in ("tokens", "repeats", "batches", "kinds", "backends")}
        result |= in_a_process(task)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
