"""A batch of generations in the real engine, unguided and under each constraint, by this project and by vLLM's own backends.

All in one process. Each run under a constraint has an unguided run beside it, before and after in turn, and counts as the ratio of the two:
the speed of a shared machine drifts by more than what is measured. Ours runs as in the server: the index was stored before the request
came, and the answer has to fit its budget. vLLM keeps the backend that its first guided request chose; here it is made to forget it
between conditions, which works because engine and caller are one process. Nothing of this project may be imported before the engine is made: vLLM 0.32 looks through all modules for kernels to
replace (`vllm.triton_utils.dispatcher._rebind_kernels`) and stumbles over those of llvmlite.

    python -m benchmarks.generations '{"tokens": 64, "repeats": 5, "batches": [1, 8, 16], "kinds": ["regex"], "backends": []}'
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from scripts.prepare_model import default_target

PROMPT = "Once upon a time"
KINDS_OF_TIME = ("ratios", "cpu_ratios")
BACKENDS = {"xgrammar": "ebnf", "guidance": "lark", "outlines": None}  # vLLM's own -> how they want grammars

Cost = tuple[float, float]  # seconds of wall time and of CPU time
_CLOSE_SECONDS = 0.1  # the server's default
_BUDGET = 900  # tokens that an answer may have: none of the constraints has to be cut short for it

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
            str(default_target()), dtype="float32", enforce_eager=True, max_model_len=1024, max_num_seqs=slots,
            logits_processors=[V1], enable_prefix_caching=False,
        )  # fmt: skip
        self._config = self._llm.llm_engine.vllm_config.structured_outputs_config
        self._numbers = itertools.count()
        self._manager = self._llm.llm_engine.engine_core.engine_core.structured_output_manager

    def cost(
        self, batch: int, tokens: int, *, extra: Any = None, backend: str | None = None, outputs: Any = None
    ) -> Cost:
        """What the first `tokens` tokens of a batch of answers took; then the answers are given up."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        self._manager.backend = None
        self._config.backend = backend or "auto"
        engine = self._llm.llm_engine
        waiting = {f"{next(self._numbers)}" for _ in range(batch)}
        begin = time.perf_counter(), time.process_time()
        for name in waiting:
            params = SamplingParams(
                max_tokens=_BUDGET, min_tokens=tokens, temperature=0.0, extra_args=extra,
                structured_outputs=None if outputs is None else StructuredOutputsParams(**outputs),
            )  # fmt: skip
            engine.add_request(name, PROMPT, params)
        while waiting:
            for answer in engine.step():
                assert not answer.finished, "an answer ended early"
                if len(answer.outputs[0].token_ids) >= tokens:
                    waiting.discard(answer.request_id)
                    engine.abort_request([answer.request_id])
        cost = time.perf_counter() - begin[0], time.process_time() - begin[1]
        while engine.has_unfinished_requests():
            engine.step()
        return cost


def store(constraint: Any) -> None:
    """Writes the index where the engine looks for it, closed as far as the server would close it before a request."""
    from guided.cache import Disk, default_folder
    from guided.compiler import compile
    from guided.limits import Budget, Limits
    from guided.vocabulary import Vocabulary
    from guided.workers.jobs import close

    model = json.loads((default_target() / "config.json").read_text())
    vocabulary = Vocabulary.from_pretrained(str(default_target()), padded_size=model["vocab_size"])
    index = compile(constraint, vocabulary)
    close(index, _CLOSE_SECONDS, Budget(Limits()))
    Disk(default_folder(), vocabulary).save(index, constraint)


def conditions(engine: Engine, kinds: list[str], backends: list[str], tokens: int) -> dict[str, Callable[[int], Cost]]:
    """Name -> cost of a batch of that many answers."""
    from guided.vllm_adapters.params import to_extra_args

    found: dict[str, Callable[[int], Cost]] = {"plain": lambda batch: engine.cost(batch, tokens)}
    for kind in kinds:
        store(ours(kind))
        extra = to_extra_args(None, ours(kind), "bench")
        found[kind] = lambda batch, extra=extra: engine.cost(batch, tokens, extra=extra)
        for backend in backends:
            outputs = theirs(backend, kind)
            if outputs is not None:
                found[f"{backend}_{kind}"] = lambda batch, backend=backend, outputs=outputs: engine.cost(
                    batch, tokens, backend=backend, outputs=outputs
                )
    return found


def measure(tokens: int, repeats: int, batches: list[int], kinds: list[str], backends: list[str]) -> dict[str, Any]:
    """Ratios to unguided, medians of `repeats` pairs; None where a backend fails.

    By wall time, and by CPU time of the process, which others on the machine disturb less.
    """
    engine = Engine(max(batches))
    running = conditions(engine, kinds, backends, tokens)
    plain = running.pop("plain")
    found: dict[str, Any] = {kind: {name: {} for name in running} for kind in KINDS_OF_TIME}
    for batch in batches:
        ratios: dict[str, list[Cost]] = {name: [] for name in running}
        for round_number in range(repeats + 1):
            for name, condition in list(running.items()):
                try:
                    ratio = pair(plain, condition, batch, plain_first=round_number % 2 == 0)
                except Exception as error:  # noqa: BLE001 - another engine's failure is a result
                    print(f"{name}: {type(error).__name__}: {error}", flush=True)
                    del running[name]
                    continue
                if round_number:  # the first round warms up
                    ratios[name].append(ratio)
        for name, values in ratios.items():
            line = f"batch {batch:3} {name:22}"
            for kind, of_kind in zip(KINDS_OF_TIME, zip(*values, strict=True), strict=bool(values)):
                found[kind][name][str(batch)] = round(statistics.median(of_kind), 3)
                line += f"  {kind} {statistics.median(of_kind):.3f} ({min(of_kind):.3f} to {max(of_kind):.3f})"
            print(line, flush=True)
    return found


def pair(plain: Callable[[int], Cost], condition: Callable[[int], Cost], batch: int, *, plain_first: bool) -> Cost:
    """Speed under the condition divided by unguided speed, by either time."""
    before = plain(batch) if plain_first else None
    own = condition(batch)
    unguided = before or plain(batch)
    return unguided[0] / own[0], unguided[1] / own[1]


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
