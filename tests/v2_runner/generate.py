"""Child process: batches of requests as JSON go in on the command line, what the V2 runner wrote comes out as JSON.

python -m tests.v2_runner.generate MODEL '{"speculate": true, "blocks": 30, "batches": [[{"prompt": ..., "regex": ...}]]}'
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from vllm import LLM, SamplingParams

import guided
from guided.vllm_adapters.params import to_extra_args
from guided.vllm_adapters.reports import Reports
from guided.vllm_adapters.select import processor_name


def params(request: dict[str, Any]) -> SamplingParams:
    extra = None
    if "regex" in request:
        extra = to_extra_args(
            None, guided.Constraint.regex(request["regex"]), request["regex"], report=request.get("report")
        )
    return SamplingParams(
        max_tokens=request.get("max_tokens", 16), n=request.get("n", 1), temperature=request.get("temperature", 0.0),
        seed=1, extra_args=extra, min_tokens=request.get("min_tokens", 0),
    )  # fmt: skip


def main(model: str, task: dict[str, Any]) -> None:
    from vllm.engine.arg_utils import EngineArgs

    options: dict[str, Any] = {
        "model": model, "dtype": "float32", "enforce_eager": True, "max_model_len": task.get("max_model_len", 128),
        "max_num_seqs": task.get("slots", 4), "block_size": 32, "enable_prefix_caching": False,
    }  # fmt: skip
    if task.get("blocks"):
        options["num_gpu_blocks_override"] = task["blocks"]
    if task.get("speculate"):
        options["speculative_config"] = {"method": "ngram_gpu", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    name = processor_name(EngineArgs(**options).create_engine_config())
    engine = LLM(**options, logits_processors=[name])
    answers = []
    for batch in task["batches"]:
        outputs = engine.generate([r["prompt"] for r in batch], [params(r) for r in batch], use_tqdm=False)
        answers.append([[(o.text, len(o.token_ids), o.finish_reason) for o in output.outputs] for output in outputs])
    reported = {}
    for request, outputs in (
        (r, o) for batch, of in zip(task["batches"], answers, strict=True) for r, o in zip(batch, of, strict=True)
    ):
        if "report" in request:
            found = asyncio.run(Reports().read(request["report"], outputs[0][1]))
            reported[request["report"]] = None if found is None else [found.mass, found.allowed]
    print("ANSWERS " + json.dumps({"processor": name, "answers": answers, "reported": reported}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
