"""`guided warm`: files of constraints in; their indexes in the cache that a server of the same model reads, out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from guided.cache import Disk, default_folder
from guided.cli.arguments import UsageError, limits_of
from guided.cli.report import duration, write_json
from guided.cli.stages import embedded_model, load_kernels, load_vocabulary
from guided.compiler import compile, writable_network
from guided.constraint_files import find_files, read_file
from guided.errors import ConstraintError, LimitExceeded
from guided.index import file
from guided.limits import Budget, Limits
from guided.vocabulary import Vocabulary

_BAR = 24  # characters


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where a constraint is refused or cannot be written; the others are warmed all the same."""
    files = _files(args.paths)
    if not files:
        raise UsageError("there is no constraint in " + ", ".join(map(str, args.paths)))
    if args.vocabulary_size is None:
        args.vocabulary_size = _model_width(args.tokenizer or embedded_model())
    vocabulary = load_vocabulary(args)
    load_kernels()
    disk = Disk(
        args.folder or default_folder(), vocabulary, rebuild=lambda constraint: writable_network(constraint, vocabulary)
    )
    results = []
    for done, path in enumerate(files):
        _progress(done, len(files), path.name, args.json)
        results.append({"file": str(path), **_warm(path, disk, vocabulary, limits_of(args))})
        if not args.json:
            _show(results[-1])
    _progress(len(files), len(files), "", args.json)
    failed = [one for one in results if one["state"] in ("refused", "not written")]
    if args.json:
        write_json({"ok": not failed, "folder": str(disk.home), "constraints": results})
    return 1 if failed else 0


def _files(paths: list[Path]) -> list[Path]:
    try:
        return find_files(paths)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error


def _model_width(folder: str | Path | None) -> int | None:
    """The width of the model's logits, as a server takes it, where the tokenizer comes in the model's folder."""
    try:
        config = json.loads((Path(folder or "") / "config.json").read_text(encoding="utf-8"))
        return config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    except (OSError, ValueError, AttributeError):
        return None


def _warm(path: Path, disk: Disk, vocabulary: Vocabulary, limits: Limits) -> dict[str, Any]:
    """{"state": "closed" | "growing" | "present" | "refused" | "not written", ...}."""
    begin = time.perf_counter()
    try:
        constraint = read_file(path)
        stored = disk.load(constraint.digest)
        if stored is not None and stored.index.is_closed:
            return {"state": "present", "digest": constraint.digest, "states": stored.index.num_states}
        index = compile(constraint, vocabulary, limits)
        try:
            index.close(Budget(limits))
        except LimitExceeded:  # recursive, or very large: what of it a request needs first is small
            index = compile(constraint, vocabulary, limits)
        data = file.to_bytes(index, constraint)
        written = disk.write(constraint.digest, data)
    except (ConstraintError, OSError) as error:
        return {"state": "refused", "message": str(error)}
    state = ("closed" if index.is_closed else "growing") if written else "not written"
    sizes = {"states": index.num_states, "bytes": len(data)}
    return {"state": state, "digest": constraint.digest, **sizes, "seconds": time.perf_counter() - begin}


def _show(result: dict[str, Any]) -> None:
    if result["state"] == "refused":
        print(f"{result['file']}: refused: {result['message']}")
        return
    took = f", {duration(result['seconds'])}" if "seconds" in result else ""
    print(f"{result['file']}: {result['state']}, {result['states']:,} states{took}, {result['digest']}")


def _progress(done: int, total: int, name: str, quiet: bool) -> None:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return
    filled = _BAR * done // max(1, total)
    end = "\n" if done == total else ""
    print(
        f"\r\x1b[K[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {total}  {name}",
        end=end,
        file=sys.stderr,
        flush=True,
    )
