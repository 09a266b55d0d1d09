"""`guided explain`: a constraint in; states, tokens, sizes, times, sample outputs and a schema's normal form out."""

from __future__ import annotations

import argparse
import random
from itertools import islice
from typing import Any

from guided.cli.report import size, times, write_json, write_table
from guided.cli.stages import Stages, until_stopped
from guided.errors import LimitExceeded
from guided.explain.characters import CharacterView
from guided.explain.escapes import EscapeFreeView
from guided.explain.labels import set_label, text_label
from guided.explain.samples import random_text, shortest_text
from guided.index.token_index import TokenIndex
from guided.json_schema.describe import describe
from guided.json_schema.prepare import prepare
from guided.limits import Budget

_MAX_SAMPLE = 300  # characters shown of one
_MAX_LINES = 60  # of a normal form


def run(args: argparse.Namespace) -> int:
    stages = Stages(args)
    index = stages.index(stages.vocabulary())
    stopped = stages.close(index)
    facts: dict[str, Any] = {
        "kind": stages.constraint.kind,
        "digest": stages.constraint.digest,
        "closed": index.is_closed,
        "stopped": stopped,
        "states": index.num_states,
        "classes": stages.dfa.num_classes,
        "rows": index.num_rows,
        "bytes": index.memory_bytes,
        **(_token_counts(stages, index) if index.is_closed else {}),
    }
    if stages.constraint.kind == "json":
        facts["normal_form"] = _normal_form(stages)
    stages.budget.restart()  # what comes now is not part of the compilation
    view = EscapeFreeView(stages.dfa) if stages.constraint.kind == "json" else CharacterView(stages.dfa)
    facts |= {
        "first": _first(view),
        "shortest": _shortest(view),
        "samples": _samples(view, args.samples, args.seed, stages.budget),
    }
    facts["seconds"] = stages.seconds
    if args.json:
        write_json({"ok": True, **facts})
    else:
        _show(facts)
    return 0


def _normal_form(stages: Stages) -> list[str]:
    """The first lines of what the schema comes down to."""
    stages.budget.restart()
    lines = list(
        islice(describe(prepare(stages.constraint.value, stages.constraint.options, stages.budget)), _MAX_LINES + 1)
    )
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], "…"]


def _token_counts(stages: Stages, index: TokenIndex) -> dict[str, int | None]:
    with stages.timed("token counts"):
        return {"min_tokens": index.min_tokens(index.start), "max_tokens": index.max_tokens()}


def _first(view: CharacterView) -> str:
    """What an output may begin with."""
    moves = view.moves(view.start)
    names = [name for name, _ in moves.special]
    return " ".join([set_label(moves.allowed), *names] if moves.allowed else names)


def _shortest(view: CharacterView) -> str | None:
    try:
        return shortest_text(view)
    except LimitExceeded:
        return None


def _samples(view: CharacterView, count: int, seed: int, budget: Budget) -> list[str]:
    """At most `count` different outputs, as many as are found in time."""
    source = random.Random(seed)
    found: dict[str, None] = {}
    try:
        for _ in range(8 * count):  # short languages repeat themselves
            budget.check("the samples")
            text = random_text(view, source)
            if text is not None:
                found[text] = None
            if len(found) == count:
                break
    except LimitExceeded:
        pass  # what was found until then are samples too
    return list(found)


def _show(facts: dict[str, Any]) -> None:
    closed = facts["closed"]
    most = "unbounded" if facts.get("max_tokens") is None else f"{facts['max_tokens']:,}"
    unknown = "not known: the index is not closed"
    normal_form = {"normal form": "\n".join(facts["normal_form"])} if "normal_form" in facts else {}
    write_table(
        {
            "kind": facts["kind"],
            "digest": facts["digest"],
            "closed": "yes" if closed else until_stopped(facts["stopped"]),
            "states": f"{facts['states']:,}{'' if closed else ' so far'}, {facts['classes']} byte classes",
            "rows": f"{facts['rows']:,} distinct{'' if closed else ' so far'}",
            "size": size(facts["bytes"]),
            "fewest tokens": f"{facts['min_tokens']:,}" if closed else unknown,
            "most tokens": most if closed else unknown,
            "begins with": facts["first"] or "nothing: only the empty text",
            **normal_form,
            "shortest": _shown(facts["shortest"]) if facts["shortest"] is not None else "not found",
            "samples": "\n".join(map(_shown, facts["samples"])) or "none found",
            "time": times(facts["seconds"]),
        }
    )


def _shown(text: str) -> str:
    if not text:
        return "(the empty text)"
    return text_label(text if len(text) <= _MAX_SAMPLE else text[:_MAX_SAMPLE] + "…")
