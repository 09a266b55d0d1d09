"""`guided lint`: a JSON Schema in; what a model is likely to do badly with it, and how long its answers are, out."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import asdict

from guided.cli.arguments import UsageError, limits_of, read_text, schema_constraint
from guided.cli.report import write_json
from guided.cli.stages import embedded_model, load_kernels, load_vocabulary
from guided.estimate import TokenEstimate, estimate_tokens
from guided.json_schema.lint import LintWarning, warnings_of
from guided.json_schema.prepare import prepare
from guided.limits import Budget


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where there are warnings and --strict was given."""
    text = read_text(args.schema)
    _refuse_structural_tag(text, args.schema)
    constraint = schema_constraint(args, text)
    limits = limits_of(args)
    found = warnings_of(prepare(constraint.value, constraint.options, Budget(limits)), constraint.options)
    tokens = None
    if args.tokenizer or embedded_model():
        vocabulary = load_vocabulary(args)
        load_kernels()
        tokens = estimate_tokens(constraint, vocabulary, limits)
    if args.json:
        write_json(
            {
                "ok": True,
                "warnings": [asdict(one) for one in found],
                "tokens": None if tokens is None else asdict(tokens),
            }
        )
    else:
        _show(found, tokens)
    return int(args.strict and bool(found))


def _refuse_structural_tag(text: str, name: str) -> None:
    with contextlib.suppress(ValueError, RecursionError):  # what is no JSON is refused as a schema
        value = json.loads(text)
        if isinstance(value, dict) and (value.get("type") == "structural_tag" or "structures" in value):
            raise UsageError(f"{name} is a structural tag; lint knows JSON Schemas: give it those inside, one by one")


def _show(found: list[LintWarning], tokens: TokenEstimate | None) -> None:
    for one in found:
        print(f"{one.pointer or 'the root'}: {one.code}\n  {one.message}")
    print(f"{len(found) or 'no'} warning{'' if len(found) == 1 else 's'}")
    if tokens is None:
        print("tokens: not counted, no --tokenizer was given")
        return
    most = "no bound" if tokens.is_exact else "not known: the index does not close"
    print(f"fewest tokens   {'' if tokens.is_exact else 'about '}{tokens.fewest:,}")
    print(f"typical tokens  about {tokens.typical:,}")
    print(f"most tokens     {most if tokens.most is None else format(tokens.most, ',')}")
    print(f"max_tokens      {tokens.max_tokens:,}")
