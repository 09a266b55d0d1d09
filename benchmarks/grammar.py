"""Grammars: time to first mask, masks along 2,000-token texts, beside llguidance and xgrammar on the same grammars and texts.

    python -m benchmarks.grammar [--tokenizer FOLDER] [--repeats N] [--only NAME]

llguidance reads the same Lark file, xgrammar the GBNF file of the same language (whitespace written out). Where an engine refuses
a grammar or a text, its cells stay empty and the reason is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import llguidance.numpy
import numpy as np
import xgrammar
from tokenizers import Tokenizer

import guided
from benchmarks.grammar_texts import NAMES, text_of
from benchmarks.measure import milliseconds, percentile, table
from benchmarks.peers import Peers
from guided.workers.nursery import collect_rarely

FOLDER = Path(__file__).parent / "grammars"
TOKENS = 2_000
PEER_SECONDS = 30  # of one walk; then its percentiles are of the steps so far

Step = Callable[[int], bool]  # takes a token and computes the next mask; False where the token is refused


def main() -> None:
    default = Path(os.environ.get("GUIDED_CACHE_DIR", Path.home() / ".cache" / "guided")) / "tokenizers" / "llama3"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, default=default, help="folder with tokenizer.json (default: Llama-3)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=NAMES, help="one grammar instead of all")
    arguments = parser.parse_args()
    if not (arguments.tokenizer / "tokenizer.json").exists():
        sys.exit(f"no tokenizer.json in {arguments.tokenizer}: run scripts/fetch_tokenizers.py")
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer / "tokenizer.json"))
    vocabulary = guided.Vocabulary.from_pretrained(arguments.tokenizer)
    guided.warm_up(vocabulary)
    peers = Peers(arguments.tokenizer, vocabulary)
    collect_rarely()  # as the server's workers do
    names = [arguments.only] if arguments.only else NAMES
    first = first_masks(names, vocabulary, peers, arguments.repeats)
    steps = walks(names, tokenizer, vocabulary, peers)
    print(json.dumps({"vocabulary": vocabulary.size, "first_mask_ms": first, "walk": steps}))


def source(name: str, syntax: str) -> str:
    """The text of a benchmark grammar."""
    return (FOLDER / f"{name}.{syntax}").read_text()


def first_masks(names: list[str], vocabulary: guided.Vocabulary, peers: Peers, repeats: int) -> dict[str, dict]:
    """Grammar text to first mask."""
    rows: dict[str, dict] = {}
    for name in names:
        lark, gbnf = source(name, "lark"), source(name, "gbnf")
        conditions = {
            "guided lark": lambda text=lark: guided.compile(guided.Constraint.grammar(text), vocabulary),
            "guided gbnf": lambda text=gbnf: guided.compile(guided.Constraint.grammar(text), vocabulary),
            "llguidance": lambda text=lark: peers.llguidance("lark", text),
            "xgrammar": lambda text=gbnf: peers.xgrammar("gbnf", text),
        }
        times = milliseconds({key: run for key, run in conditions.items() if works(f"{key} {name}", run)}, repeats)
        ours = times["guided lark"]
        rows[name] = times | {f"{key}/lark": times[key] / ours for key in ("llguidance", "xgrammar") if key in times}
    print("\nTime to first mask\n" + table(rows, "ms"), flush=True)
    return rows


def works(what: str, run: Callable[[], object]) -> bool:
    """Runs once; where an engine refuses, says so."""
    try:
        run()
    except (ValueError, RuntimeError) as error:
        print(f"{what}: {str(error).strip().splitlines()[0][:150]}")
        return False
    return True


def walks(names: list[str], tokenizer: Tokenizer, vocabulary: guided.Vocabulary, peers: Peers) -> dict[str, dict]:
    """Per token of a text: advance, then a mask. The first pass meets every state for the first time, the second none."""
    rows: dict[str, dict] = {}
    for name in names:
        tokens = tokens_of(name, tokenizer)
        index = guided.compile(guided.Constraint.grammar(source(name, "lark")), vocabulary)
        cold, warm = walk_guided(index, tokens), walk_guided(index, tokens)
        row: dict = {"tokens": len(tokens), "states": index.num_states, "MiB": index.memory_bytes >> 20}
        row |= {"cold p50": percentile(cold, 0.5), "cold p99": percentile(cold, 0.99)}
        row |= {"warm p50": percentile(warm, 0.5), "warm p99": percentile(warm, 0.99)}
        for engine, steps, syntax in (("llg", llguidance_steps, "lark"), ("xgr", xgrammar_steps, "gbnf")):
            found = peer_walk(f"{engine} {name}", steps, peers, source(name, syntax), tokens)
            if found:
                row |= {f"{engine} p50": percentile(found, 0.5), f"{engine} p99": percentile(found, 0.99)}
        rows[name] = row
    print("\nOne token: advance and mask\n" + table(rows, "us"), flush=True)
    return rows


def tokens_of(name: str, tokenizer: Tokenizer) -> list[int]:
    """A text of the grammar with about TOKENS tokens."""
    pieces, tokens = 8, []
    while len(tokens) < TOKENS:
        pieces = pieces * 3 // 2
        tokens = tokenizer.encode(text_of(name, pieces), add_special_tokens=False).ids
    return tokens


def walk_guided(index: guided.TokenIndex, tokens: list[int]) -> list[float]:
    """Microseconds of each step; every token must be in the mask before it."""
    state, times = index.start, []
    mask = index.mask(state)
    for token in tokens:
        assert mask[token >> 5] >> np.uint32(token & 31) & 1, "the text is not in the grammar"
        begin = time.perf_counter()
        state = index.advance(state, token)
        mask = index.mask(state)
        times.append(1e6 * (time.perf_counter() - begin))
    assert index.is_accepting(state), "the text is not complete"
    return times


def llguidance_steps(peers: Peers, grammar: str) -> Step:
    matcher = peers.llguidance("lark", grammar)
    mask = llguidance.numpy.allocate_token_bitmask(1, peers.vocabulary_size)

    def step(token: int) -> bool:
        taken = matcher.consume_token(token)
        llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
        return taken

    return step


def xgrammar_steps(peers: Peers, grammar: str) -> Step:
    matcher = peers.xgrammar("gbnf", grammar)
    mask = xgrammar.allocate_token_bitmask(1, peers.vocabulary_size)

    def step(token: int) -> bool:
        taken = matcher.accept_token(token)
        if taken:
            matcher.fill_next_token_bitmask(mask, 0)
        return taken

    return step


def walk_peer(step: Step, tokens: list[int]) -> list[float]:
    """Microseconds of each step. Raises ValueError where the engine refuses a token."""
    times: list[float] = []
    deadline = time.perf_counter() + PEER_SECONDS
    for token in tokens:
        begin = time.perf_counter()
        taken = step(token)
        end = time.perf_counter()
        times.append(1e6 * (end - begin))
        if not taken:
            raise ValueError(f"refuses token {len(times)} of the text")
        if end > deadline:
            print(f"stopped after {len(times)} tokens")
            break
    return times


def peer_walk(
    what: str, steps: Callable[[Peers, str], Step], peers: Peers, grammar: str, tokens: list[int]
) -> list[float]:
    try:
        return walk_peer(steps(peers, grammar), tokens)
    except (ValueError, RuntimeError) as error:
        print(f"{what}: {str(error).strip().splitlines()[0][:150]}")
        return []


if __name__ == "__main__":
    main()
