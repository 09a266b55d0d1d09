"""`guided compile`: a constraint in; its digest, whether its index is closed, and sizes and times of the stages out."""

from __future__ import annotations

import argparse
from pathlib import Path

from guided.cli.arguments import UsageError
from guided.cli.report import size, times, write_json, write_table
from guided.cli.stages import Stages, until_stopped
from guided.constraint import Constraint
from guided.index import file as index_file
from guided.index.token_index import TokenIndex


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where an index file was asked for and the index does not close within the limits."""
    stages = Stages(args)
    vocabulary = stages.vocabulary()
    index = stages.index(vocabulary)
    stopped = stages.close(index)
    written = args.output is not None and index.is_closed
    if written:
        with stages.timed("file"):
            _save(index, args.output, stages.constraint)
    facts = {
        "digest": stages.constraint.digest,
        "vocabulary_digest": vocabulary.digest,
        "vocabulary_size": vocabulary.size,
        "closed": index.is_closed,
        "stopped": stopped,
        "states": index.num_states,
        "rows": index.num_rows,
        "bytes": index.memory_bytes,
        "file": str(args.output) if written else None,
        "seconds": stages.seconds,
    }
    if args.json:
        write_json({"ok": True, **facts})
    else:
        _show(facts)
        if args.output is not None and not written:
            print(f"{args.output} is not written: only a closed index is complete")
    return 1 if args.output is not None and not written else 0


def _save(index: TokenIndex, path: Path, constraint: Constraint) -> None:
    try:
        index_file.save(index, path, constraint)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _show(facts: dict) -> None:
    table = {
        "digest": facts["digest"],
        "vocabulary": f"{facts['vocabulary_size']:,} tokens, {facts['vocabulary_digest']}",
        "closed": "yes" if facts["closed"] else until_stopped(facts["stopped"]),
        "states": f"{facts['states']:,}",
        "rows": f"{facts['rows']:,} distinct",
        "size": size(facts["bytes"]),
        "time": times(facts["seconds"]),
    }
    if facts["file"]:
        table["file"] = facts["file"]
    write_table(table)
