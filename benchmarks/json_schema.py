"""JSON Schemas of the real world: time to first mask and mask time along instances, beside llguidance, xgrammar and outlines-core.

    python -m benchmarks.json_schema [--data FILE] [--tokenizer FOLDER] [--every N] [--seconds S] [--engines NAME,...]

The engines take turns, each in a process of its own that is ended where one schema takes it longer than S seconds; such a schema counts
as S seconds to first mask, so the percentiles of an engine that runs out of time are lower bounds. Every N-th schema of the sample is taken,
since the slowest engines need minutes for some. Instances are walked token by token; a mask is asked for before each token.
The letter of the standard is asked for everywhere (other properties are allowed). Mask times are of `fill_next_token_bitmask` and its like.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.measure import percentile, table

DATA = Path(__file__).parents[2] / "shared" / "maskbench-sample.jsonl.gz"
WHERE = (
    "name with --data a gzipped file of JSON lines with name, schema and tests, such as a sample of MaskBench's "
    "(github.com/guidance-ai/jsonschemabench, folder maskbench), which is not part of this repository"
)
MEMORY_BYTES = 8 << 30  # address space of one engine's process
Step = Callable[[int], bool]  # takes a token; was it allowed?
Engine = Callable[
    [str], tuple[Callable[[], object], Step, Callable[[], bool]]
]  # schema -> mask, step, may it end here?


@dataclass(slots=True)
class Measured:
    """One schema and engine.

    Attributes:
        result: "pass", "refused", "rejects valid", "accepts invalid", "timeout" or "crash".
    """

    result: str
    first_mask_ms: float | None = None
    mask_us: list[float] = field(default_factory=list)


def main() -> None:
    default = Path(os.environ.get("GUIDED_CACHE_DIR", Path.home() / ".cache" / "guided")) / "tokenizers" / "llama3"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="JSON lines with name, schema, tests (default: the sample)"
    )
    parser.add_argument("--tokenizer", type=Path, default=default, help="folder with tokenizer.json (default: Llama-3)")
    parser.add_argument("--every", type=int, default=20, help="take each n-th schema")
    parser.add_argument("--seconds", type=float, default=20, help="an engine may take for one schema")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: all")
    arguments = parser.parse_args()
    for needed in (arguments.data, arguments.tokenizer / "tokenizer.json"):
        if not needed.exists():
            sys.exit(
                f"{needed} is not there: " + (WHERE if needed == arguments.data else "run scripts/fetch_tokenizers.py")
            )
    cases = list(_cases(arguments.data, arguments.tokenizer))[:: arguments.every]
    workers = {name: Worker(name, arguments.tokenizer, arguments.seconds) for name in arguments.engines.split(",")}
    found: dict[str, list[Measured]] = {name: [] for name in workers}
    for case in cases:
        for name, worker in workers.items():
            found[name].append(worker.measure(case))
    for worker in workers.values():
        worker.stop()
    rows = {name: _summary(measured, arguments.seconds) for name, measured in found.items()}
    print(f"{len(cases)} schemas, at most {arguments.seconds:g} s each\n" + table(_turned(rows), "first: ms, mask: µs"))
    ratios = {name: _ratios(row, rows["guided"]) for name, row in rows.items() if name != "guided" and "guided" in rows}
    if ratios:
        print("\nTimes as multiples of guided's\n" + table(_turned(ratios), "ratio"))
    print(json.dumps({"schemas": len(cases), "seconds": arguments.seconds, "engines": rows, "ratios": ratios}))


def _cases(data: Path, tokenizer_folder: Path) -> Iterator[dict[str, Any]]:
    """The schemas with their instances as tokens."""
    from tokenizers import Tokenizer

    from tests.conformance.maskbench import read

    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    for case in read(data):
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in case["tests"]]
        walks = [
            (test["valid"], tokenizer.encode(text, add_special_tokens=False).ids)
            for test, text in zip(case["tests"], texts, strict=True)
        ]
        yield {"schema": json.dumps(case["schema"]), "walks": walks}


def _summary(found: list[Measured], seconds: float) -> dict[str, Any]:
    counts = Counter(one.result for one in found)
    first = [1e3 * seconds if one.result == "timeout" else one.first_mask_ms for one in found]
    known = [value for value in first if value is not None]
    masks = [value for one in found for value in one.mask_us]
    return {
        **{name: counts[name] for name in ("pass", "refused", "rejects valid", "accepts invalid", "timeout", "crash")},
        **{f"first p{q:g}": percentile(known, q / 100) for q in (50, 99, 100) if known},
        **{f"mask p{q:g}": percentile(masks, q / 100) for q in (50, 99, 100) if masks},
        "masks": len(masks),
    }


def _ratios(row: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
    return {name: row[name] / ours[name] for name in row if name.startswith(("first", "mask p")) and name in ours}


def _turned(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Columns as rows."""
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return {name: {column: row.get(name) for column, row in rows.items()} for name in names}


# --- processes --------------------------------------------------------------------------------------------------------


class Worker:
    """One engine in a process of its own; a new one where the last was ended."""

    def __init__(self, engine: str, tokenizer_folder: Path, seconds: float) -> None:
        self.engine, self.tokenizer_folder, self.seconds = engine, tokenizer_folder, seconds
        self._process: Any = None

    def measure(self, case: dict[str, Any]) -> Measured:
        if self._process is None or not self._process.is_alive():
            self._start()
        self._connection.send(case)
        try:
            if self._connection.poll(self.seconds):
                return self._connection.recv()
        except EOFError:  # it ran out of memory, or fell over
            self.stop()
            return Measured("crash")
        self.stop()
        return Measured("timeout")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.engine, self.tokenizer_folder), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()  # ready: loading is not measured

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(connection: Connection, name: str, tokenizer_folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what engines say of schemas that they refuse
    engine = ENGINES[name](tokenizer_folder)
    gc.collect()
    gc.freeze()  # as servers do: no collection looks through what has been loaded
    connection.send("ready")
    while True:
        connection.send(_measure(engine, connection.recv()))


def _measure(engine: Engine, case: dict[str, Any]) -> Measured:
    begin = time.perf_counter()
    try:
        mask, step, may_end = engine(case["schema"])
        mask()
    except Exception:  # noqa: BLE001 - each engine has errors of its own
        return Measured("refused")
    measured = Measured("pass", 1e3 * (time.perf_counter() - begin))
    for number, (valid, tokens) in enumerate(case["walks"]):
        if number:
            mask, step, may_end = engine(case["schema"])
        try:
            accepted = _walk(mask, step, may_end, tokens, measured.mask_us)
        except Exception:  # noqa: BLE001 - of which some come late
            return Measured("refused", measured.first_mask_ms, measured.mask_us)
        if accepted != valid:
            measured.result = "rejects valid" if valid else "accepts invalid"
            break
    return measured


def _walk(
    mask: Callable[[], object], step: Step, may_end: Callable[[], bool], tokens: list[int], times: list[float]
) -> bool:
    for token in tokens:
        begin = time.perf_counter()
        mask()
        times.append(1e6 * (time.perf_counter() - begin))
        if not step(token):
            return False
    return may_end()


# --- engines ----------------------------------------------------------------------------------------------------------


def _guided(tokenizer_folder: Path) -> Engine:
    import guided

    vocabulary = guided.Vocabulary.from_pretrained(tokenizer_folder)
    guided.warm_up(vocabulary)
    known: dict[str, guided.TokenIndex] = {}

    def engine(schema: str):
        index = known.get(schema)
        if index is None:
            known.clear()
            constraint = guided.Constraint.json_schema(schema, additional_properties="allow")
            index = known[schema] = guided.compile(constraint, vocabulary)
        state = index.start

        def step(token: int) -> bool:
            nonlocal state
            following = index.advance(state, token)
            state = state if following is None else following
            return following is not None

        return lambda: index.mask(state), step, lambda: index.is_accepting(state)

    return engine


def _peers(tokenizer_folder: Path):
    import guided
    from benchmarks.peers import Peers

    return Peers(tokenizer_folder, guided.Vocabulary.from_pretrained(tokenizer_folder))


def _llguidance(tokenizer_folder: Path) -> Engine:
    import llguidance.numpy

    peers = _peers(tokenizer_folder)
    bits = llguidance.numpy.allocate_token_bitmask(1, peers.vocabulary_size)
    tokenizer = peers.llguidance_tokenizer

    def engine(schema: str):
        matcher = llguidance.LLMatcher(tokenizer, llguidance.grammar_from("json_schema", schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        fill = lambda: llguidance.numpy.fill_next_token_bitmask(matcher, bits, 0)  # noqa: E731
        return fill, lambda token: matcher.try_consume_tokens([token]) == 1, matcher.is_accepting

    return engine


def _xgrammar(tokenizer_folder: Path) -> Engine:
    import xgrammar

    peers = _peers(tokenizer_folder)
    compiler, bits = peers.xgrammar_compiler, xgrammar.allocate_token_bitmask(1, peers.vocabulary_size)
    known: dict[str, xgrammar.CompiledGrammar] = {}

    def engine(schema: str):
        if schema not in known:
            known.clear()
            known[schema] = compiler.compile_json_schema(schema, strict_mode=False)
        matcher = xgrammar.GrammarMatcher(known[schema], terminate_without_stop_token=True)
        return lambda: matcher.fill_next_token_bitmask(bits, 0), matcher.accept_token, matcher.is_completed

    return engine


def _outlines(tokenizer_folder: Path) -> Engine:
    import numpy as np
    import outlines_core
    from outlines_core.json_schema import build_regex_from_schema

    peers = _peers(tokenizer_folder)
    vocabulary, bits = peers.outlines_vocabulary, np.zeros(-(-peers.vocabulary_size // 32), np.int32)
    known: dict[str, outlines_core.Index] = {}

    def engine(schema: str):
        if schema not in known:
            known.clear()
            known[schema] = outlines_core.Index(build_regex_from_schema(schema), vocabulary)
        guide = outlines_core.Guide(known[schema])

        def step(token: int) -> bool:
            if not bits[token >> 5] >> (token & 31) & 1:
                return False
            guide.advance(token, return_tokens=False)
            return True

        fill = lambda: guide.write_mask_into(bits.ctypes.data, bits.size, bits.itemsize)  # noqa: E731
        return fill, step, guide.is_finished

    return engine


ENGINES: dict[str, Callable[[Path], Engine]] = {
    "guided": _guided,
    "llguidance": _llguidance,
    "xgrammar": _xgrammar,
    "outlines-core": _outlines,
}


if __name__ == "__main__":
    main()
