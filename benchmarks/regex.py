"""Regexes and choices: time to first mask, whole index, cached row, beside outlines-core, llguidance and xgrammar.

python -m benchmarks.regex [--tokenizer FOLDER] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import string
import sys
import time
from pathlib import Path

import guided
from benchmarks.measure import ends_within, milliseconds, table
from benchmarks.peers import Peers
from guided.workers.nursery import collect_rarely

OCTET = "(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
PATTERNS = {
    "IPv4 with port": rf"{OCTET}(\.{OCTET}){{3}}:[0-9]{{2,5}}",
    "ISO date-time": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
    "e-mail": r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}",
    "UUID": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "URL": r"https?://[a-zA-Z0-9.-]+(:[0-9]+)?(/[^ ?#]*)?(\?[^ #]*)?(#[^ ]*)?",
    "phone": r"(\+[0-9]{1,3}[- ]?)?\(?[0-9]{3}\)?[- ]?[0-9]{3}[- ]?[0-9]{4}",
    "semantic version": r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+)?",
    "decimal": r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "CVE id": r"CVE-[0-9]{4}-[0-9]{4,7}",
    "hex colour": r"#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "[^\\n]{1,500}": r"[^\n]{1,500}",
    "200 alternatives": "|".join(f"option number {number} of {number * 7919 % 1000}" for number in range(200)),
}
HOSTILE = {
    "nested counts": r"((a|b){1,10}){1,10}.{500}[a-z]{2000}",
    ".{0,10000}": r".{0,10000}",
    "(.*a){20}": r"(.*a){20}",
}


def main() -> None:
    default = Path(os.environ.get("GUIDED_CACHE_DIR", Path.home() / ".cache" / "guided")) / "tokenizers" / "llama3"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, default=default, help="folder with tokenizer.json (default: Llama-3)")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.tokenizer / "tokenizer.json").exists():
        sys.exit(f"no tokenizer.json in {arguments.tokenizer}: run scripts/fetch_tokenizers.py")
    vocabulary = guided.Vocabulary.from_pretrained(arguments.tokenizer)
    guided.warm_up(vocabulary)
    peers = Peers(arguments.tokenizer, vocabulary)
    collect_rarely()  # as the server's workers do
    report = {
        "vocabulary": vocabulary.size,
        "first_mask_ms": first_masks(vocabulary, peers, arguments.repeats),
        "whole_index_ms": whole_indexes(vocabulary, arguments.repeats),
        "cached_row_us": cached_row(vocabulary),
        "choices_5000_ms": choices(vocabulary, arguments.repeats),
        "hostile": hostile(vocabulary),
    }
    print(json.dumps(report))


def first_masks(vocabulary: guided.Vocabulary, peers: Peers, repeats: int) -> dict[str, dict[str, float]]:
    """Constraint text to first mask. outlines-core can mask only once its whole index is built: for that it gets a minute."""
    rows = {}
    for name, pattern in PATTERNS.items():
        conditions = {
            "guided": lambda p=pattern: guided.compile(guided.Constraint.regex(p), vocabulary),
            "llguidance": lambda p=pattern: peers.llguidance("regex", p),
            "xgrammar": lambda p=pattern: peers.xgrammar("regex", p),
        }
        if ends_within(60, lambda p=pattern: peers.outlines(p)):
            conditions["outlines-core"] = lambda p=pattern: peers.outlines(p)
        times = milliseconds(conditions, repeats)
        rows[name] = times | {"llg/guided": times["llguidance"] / times["guided"]}
    print("\nTime to first mask\n" + table(rows, "ms"))
    return rows


def whole_indexes(vocabulary: guided.Vocabulary, repeats: int) -> dict[str, dict[str, float]]:
    """Every state and every row, text to closed index."""
    rows = {}
    for name, pattern in PATTERNS.items():
        index = guided.compile(guided.Constraint.regex(pattern), vocabulary)
        index.close()
        times = milliseconds({"guided": lambda p=pattern: _closed(p, vocabulary)}, repeats)
        rows[name] = times | {"states": index.num_states, "rows": index.num_rows, "KiB": index.memory_bytes >> 10}
    print("\nWhole index\n" + table(rows, "ms"))
    return rows


def _closed(pattern: str, vocabulary: guided.Vocabulary) -> None:
    guided.compile(guided.Constraint.regex(pattern), vocabulary).close()


def cached_row(vocabulary: guided.Vocabulary) -> float:
    """Microseconds of one `mask` call whose row is known, in turn over the states of an index."""
    index = guided.compile(guided.Constraint.regex(PATTERNS["IPv4 with port"]), vocabulary)
    index.close()
    states = list(range(index.num_states)) * 500
    for state in states[: index.num_states]:
        index.mask(state)
    begin = time.perf_counter()
    for state in states:
        index.mask(state)
    microseconds = 1e6 * (time.perf_counter() - begin) / len(states)
    print(f"\nCached row: {microseconds:.2f} us")
    return microseconds


def choices(vocabulary: guided.Vocabulary, repeats: int) -> float:
    """5,000 choices of 40 characters to the first mask, milliseconds."""
    letters = random.Random(1)
    values = ["".join(letters.choices(string.ascii_lowercase + " ", k=40)) for _ in range(5000)]
    time_ms = milliseconds({"guided": lambda: guided.compile(guided.Constraint.choice(values), vocabulary)}, repeats)[
        "guided"
    ]
    print(f"\n5,000 choices of 40 characters, first mask: {time_ms:.1f} ms")
    return time_ms


def hostile(vocabulary: guided.Vocabulary) -> dict[str, dict[str, object]]:
    """Patterns that explode: an answer or a limit, seconds, and the growth of the process in MiB."""
    rows: dict[str, dict[str, object]] = {}
    for name, pattern in HOSTILE.items():
        before = _peak_mib()
        begin = time.perf_counter()
        try:
            guided.compile(guided.Constraint.regex(pattern), vocabulary)
            outcome = "first mask"
        except guided.LimitExceeded as error:
            outcome = f"limit {error.limit}"
        rows[name] = {"outcome": outcome, "seconds": time.perf_counter() - begin, "MiB": _peak_mib() - before}
    print("\nHostile patterns\n" + table(rows, "s"))
    return rows


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
