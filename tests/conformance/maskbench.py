"""MaskBench: real-world schemas with valid and invalid instances, walked token by token with masks.

    python -m tests.conformance.maskbench --data FILE --tokenizer DIR [--json OUT] [--property-order schema|any]

For each schema: compile, then for each instance check every token against the mask and advance. Prints how many schemas pass,
are refused, reject a valid instance, accept an invalid one, crash or run out of time, and how long the first mask and every other
one took. Instances whose properties stand in another order than the schema's are told apart by a second walk with any order.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import guided
from guided.compiler import warm_up

QUANTILES = (50, 75, 90, 95, 99, 100)
clock = time.perf_counter  # or processor time, with --cpu-time


@dataclass(slots=True)
class Report:
    """One schema.

    Attributes:
        result: "passing", "refused", "rejects valid", "rejects valid (order)", "accepts invalid", "timeout" or "crash".
        first_mask_ms: constraint text to first mask; mask_us: every later mask, the state's first visit included.
    """

    name: str
    result: str = "passing"
    detail: str = ""
    first_mask_ms: float | None = None
    mask_us: list[float] = field(default_factory=list)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a JSON-lines file, compressed or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def tokens_of(text: str, tokenizer) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def walk(index, tokens: list[int], report: Report) -> bool:
    """Is the instance accepted? Token by token; each mask is asked for before its token."""
    state = index.start
    for token in tokens:
        begin = clock()
        mask = index.mask(state)
        report.mask_us.append((clock() - begin) * 1e6)
        if not mask[token >> 5] >> (token & 31) & 1:
            return False
        state = index.advance(state, token)
    return index.is_accepting(state)


def run_schema(case: dict[str, Any], vocabulary, tokenizer, order: str, limits) -> Report:
    """Compiles one schema and walks its instances."""
    report = Report(case["name"])
    begin = clock()
    try:
        constraint = guided.Constraint.json_schema(case["schema"], additional_properties="allow", property_order=order)
        index = guided.compile(constraint, vocabulary, limits)
        index.mask(index.start)
        report.first_mask_ms = (clock() - begin) * 1e3
        for test in case["tests"]:
            tokens = tokens_of(json.dumps(test["data"], ensure_ascii=False), tokenizer)
            accepted = walk(index, tokens, report)
            if accepted != test["valid"]:
                report.result = "rejects valid" if test["valid"] else "accepts invalid"
                report.detail = json.dumps(test["data"])[:200]
                break
    except guided.ConstraintError as error:
        report.result, report.detail = "refused", f"{error.code}: {error.describe()}"
    return report


def only_order(case: dict[str, Any], vocabulary, tokenizer, limits) -> bool:
    """Does the schema pass once properties may come in any order?"""
    return run_schema(case, vocabulary, tokenizer, "any", limits).result == "passing"


def quantiles(values: list[float]) -> dict[str, float]:
    """p50 ... p99 and max."""
    ordered = sorted(values)
    if not ordered:
        return {}
    named = {f"p{q}": ordered[min(len(ordered) - 1, len(ordered) * q // 100)] for q in QUANTILES[:-1]}
    return {**named, "max": ordered[-1]}


def _out_of_time(signum, frame) -> None:
    raise TimeoutError


def guarded(case: dict[str, Any], vocabulary, tokenizer, order: str, limits, seconds: int) -> Report:
    """`run_schema`, with a time limit for the whole schema; what no refusal explains is a crash."""
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(seconds)
    try:
        report = run_schema(case, vocabulary, tokenizer, order, limits)
        if report.result == "rejects valid" and order == "schema" and only_order(case, vocabulary, tokenizer, limits):
            report.result = "rejects valid (order)"
    except TimeoutError:
        report = Report(case["name"], "timeout")
    except Exception as error:  # noqa: BLE001 - a crash is one of the outcomes that are counted
        report = Report(case["name"], "crash", repr(error))
    finally:
        signal.alarm(0)
    return report


def summary(reports: list[Report]) -> dict[str, Any]:
    """The figures that are compared."""
    counts = Counter(report.result for report in reports)
    first = [report.first_mask_ms for report in reports if report.first_mask_ms is not None]
    masks = [value for report in reports for value in report.mask_us]
    return {
        "schemas": len(reports),
        "results": dict(counts.most_common()),
        "passing_percent": round(100 * counts["passing"] / max(1, len(reports)), 2),
        "first_mask_ms": quantiles(first),
        "mask_us": quantiles(masks),
        "masks": len(masks),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a folder with tokenizer.json")
    parser.add_argument("--json", type=Path, help="write the summary and every schema's report there")
    parser.add_argument("--property-order", choices=("schema", "any"), default="schema")
    parser.add_argument("--seconds", type=int, default=60, help="limit for one schema and its instances")
    parser.add_argument(
        "--cpu-time", action="store_true", help="count processor time: for a machine that does other work too"
    )
    parser.add_argument("--every", type=int, default=1, help="take each n-th schema only")
    parser.add_argument("--only", default="", help="schemas whose name contains this")
    arguments = parser.parse_args()
    if arguments.cpu_time:
        global clock
        clock = time.process_time
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    vocabulary = guided.Vocabulary.from_pretrained(str(arguments.tokenizer))
    warm_up(vocabulary)
    gc.collect()
    gc.freeze()  # as vLLM's engine and the compile workers do: no collection looks through what has been loaded
    cases = [case for case in read(arguments.data) if arguments.only in case["name"]][:: arguments.every]
    limits = guided.Limits()
    reports = []
    for case in cases:
        report = guarded(case, vocabulary, tokenizer, arguments.property_order, limits, arguments.seconds)
        reports.append(report)
        if report.result != "passing":
            print(f"{report.result}: {report.name}: {report.detail}", flush=True)
    print(json.dumps(summary(reports), indent=2))
    if arguments.json:
        document = {"summary": summary(reports), "schemas": [asdict(report) for report in reports]}
        arguments.json.write_text(json.dumps(document))
    return int(any(report.result in ("accepts invalid", "crash") for report in reports))


if __name__ == "__main__":
    sys.exit(main())
