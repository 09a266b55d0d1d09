"""`guided plot`: a constraint in, its automaton as an SVG picture out."""

from __future__ import annotations

import argparse
import sys

from guided.cli.arguments import UsageError
from guided.cli.report import write_json
from guided.cli.stages import Stages
from guided.plot import plot, title_of


def run(args: argparse.Namespace) -> int:
    if (
        any(given is not None for given in (args.schema, args.json_schema, args.structural_tag))
        and not args.whitespace
        and not args.whitespace_pattern
    ):
        args.whitespace = "compact"  # every layout of a document is one more copy of the whole automaton
    if args.title is not None and any("\ud800" <= character <= "\udfff" for character in args.title):
        raise UsageError("--title is not Unicode text")
    stages = Stages(args)
    dfa = stages.automaton()
    stages.budget.restart()
    svg, graph = plot(
        dfa,
        args.title or title_of(stages.constraint),
        max_states=args.max_states,
        direction=args.direction,
        json_escapes=args.draw_escapes or stages.constraint.kind not in ("json", "structural_tag"),
    )
    if args.output is not None:
        try:
            args.output.write_text(svg, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{args.output} cannot be written: {error.strerror}") from error
    if args.json:
        facts = {"states": graph.num_states, "whole": graph.is_whole, "cut": bool(graph.num_cut or graph.open)}
        drawn = len(graph.edges) - len(graph.open)
        write_json({"ok": True, **facts, "drawn": drawn, **({} if args.output else {"svg": svg})})
    elif args.output is None:
        sys.stdout.write(svg)
    return 0
