"""vLLM's real V2 model runner on the CPU, by Triton's interpreter, matches constraints. About 0.7 s a step, so few tokens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import fetch_triton

PHONE, WORD, CODE = r"[0-9]{3}-[0-9]{4}", r"(yes|no|maybe)", r"([A-F][0-9]){3}"


def generate(model: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Runs one engine in a process of its own; `task` as in `generate.py`."""
    if not os.environ.get("GUIDED_TEST_V2_RUNNER"):
        pytest.skip("takes minutes: run make test-v2")
    if not fetch_triton.is_there():
        pytest.skip("triton is not fetched: run scripts/fetch_triton.py")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(fetch_triton.target()), str(here.parents[1])])
    environment = os.environ | {
        "PYTHONPATH": path,
        "TRITON_INTERPRET": "1",
        "TRITON_CPU_SHIM": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    command = [sys.executable, "-m", "tests.v2_runner.generate", str(model), json.dumps(task)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("ANSWERS "))


def check(task: dict[str, Any], result: dict[str, Any]) -> None:
    assert result["processor"].startswith("guided.vllm_adapters.v2:")
    for requests, outputs in zip(task["batches"], result["answers"], strict=True):
        for request, samples in zip(requests, outputs, strict=True):
            for text, tokens, _ in samples:
                if "regex" in request:
                    assert re.fullmatch(request["regex"], text), (request, text)
                else:
                    assert tokens == request["max_tokens"]  # min_tokens as many: nothing ended it


def plain(prompt: str, tokens: int) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": tokens, "min_tokens": tokens}


def test_mixed_batch_recycled_slots_and_two_samples(model_folder):
    """More requests than slots, so that slots change hands; the plain ones come out as they do alone."""
    alone = plain("The capital of France is", 4)
    task = {
        "slots": 2,
        "batches": [
            [
                {"prompt": "Call me:", "regex": PHONE},
                alone,
                {"prompt": "Really?", "regex": WORD, "n": 2, "temperature": 1.0},
                {"prompt": "Code:", "regex": CODE, "max_tokens": 6},
                alone,
            ],
            [alone],
        ],
    }
    result = generate(model_folder, task)
    check(task, result)
    texts = [samples[0][0] for batch in result["answers"] for samples in batch]
    assert texts[1] == texts[4] == texts[5]
    assert len(result["answers"][0][2]) == 2


def test_speculative_decoding(model_folder):
    """Repetitive prompts, so that the n-gram speculator has drafts; plain requests beside it."""
    prompt = "1-2-3-4-1-2-3-4-1-2-3-4-1-2-"
    task = {
        "speculate": True,
        "batches": [
            [
                {"prompt": prompt, "regex": r"3-4-1-2-3-5(-[0-9]){2}", "report": "drafted"},
                {"prompt": prompt, "regex": r"([0-9]-){5}"},
                plain(prompt, 8),
            ]
        ],
    }
    result = generate(model_folder, task)
    check(task, result)
    mass, allowed = result["reported"]["drafted"]
    assert len(mass) == len(allowed) == result["answers"][0][0][0][1]
    assert all(0 < part <= 1 for part in mass) and allowed[-1] == 1, "only the stop token is left at the end"


def test_preemption(model_folder):
    """Three requests of two blocks each in a KV cache of four: they are preempted, and replayed when they come back."""
    prompt = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"  # nearly one block; the answer needs another
    task = {
        "blocks": 5,
        "max_model_len": 96,
        "batches": [[{"prompt": prompt, "regex": rf"[a-{last}]{{18}}", "max_tokens": 24} for last in "fgh"]],
    }
    check(task, generate(model_folder, task))
