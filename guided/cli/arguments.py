"""The command line: what each command accepts, and the constraint and limits that were given. Compiles nothing."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from guided.constraint import ADDITIONAL_PROPERTIES, ESCAPES, GRAMMAR_SYNTAX, PROPERTY_ORDER, WHITESPACE, Constraint
from guided.constraint_files import SUFFIXES, choices_of
from guided.limits import Limits

_CONSTRAINTS = ("regex", "schema", "json_schema", "choice", "choices", "grammar", "structural_tag")
_SCHEMA_OPTIONS = ("whitespace", "whitespace_pattern", "additional_properties", "property_order", "escapes")


class UsageError(Exception):
    """The command cannot be carried out as it was given."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of one command; exits with code 2 and a usage line where they make no sense."""
    parser = argparse.ArgumentParser(
        prog="guided",
        description="Compiles constraints and shows what they allow.",
        epilog="Exit codes: 0 fine, 1 the text does not match or the constraint is refused, 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"guided-server {version('guided-server')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, add in _COMMANDS.items():
        summary = (add.__doc__ or "").rstrip(".")
        command = commands.add_parser(name, help=summary[0].lower() + summary[1:], description=add.__doc__)
        add(command)
        if name == "lint":
            _add_schema_options(command.add_argument_group("options of the constraint"))
        elif name != "warm":
            _add_constraint(command)
        _add_limits(command)
        command.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args(arguments)
    if args.command not in ("lint", "warm") and all(getattr(args, name) is None for name in _CONSTRAINTS):
        # Not left to argparse, which would say so of a misspelt one too.
        flags = " ".join(f"--{name.replace('_', '-')}" for name in _CONSTRAINTS)
        commands.choices[args.command].error(f"one of the arguments {flags} is required")
    return args


# --- commands ---------------------------------------------------------------------------------------------------------


def _compile(command: argparse.ArgumentParser) -> None:
    """Compile a constraint into an index and say how large it is."""
    _add_tokenizer(command)
    command.add_argument("--output", type=Path, metavar="FILE", help="write the index here")


def _check(command: argparse.ArgumentParser) -> None:
    """Does a text match, and if not, where does it stop and what could come there?"""
    command.add_argument("text", metavar="TEXT", help='the text; "-" reads it from stdin, without its last line break')
    command.add_argument("--keep-newline", action="store_true", help="the last line break of stdin is part of the text")
    _add_tokenizer(command)


def _explain(command: argparse.ArgumentParser) -> None:
    """Show states, fewest and most tokens, sizes, time by stage, sample outputs and the normal form of a constraint."""
    _add_tokenizer(command)
    command.add_argument("--samples", type=_count, default=4, metavar="N", help="random outputs (default %(default)s)")
    command.add_argument("--seed", type=int, default=0, help="of the random outputs (default %(default)s)")


def _lint(command: argparse.ArgumentParser) -> None:
    """Say what a model is likely to do badly with a JSON Schema, and how many tokens its answers take."""
    command.add_argument("schema", metavar="FILE", help='a JSON Schema; "-" reads stdin')
    command.add_argument("--strict", action="store_true", help="exit code 1 if there are warnings")
    _add_tokenizer(command)


def _plot(command: argparse.ArgumentParser) -> None:
    """Draw the automaton of a constraint as SVG."""
    command.add_argument("--output", type=Path, metavar="FILE.svg", help="write the picture here instead of to stdout")
    command.add_argument(
        "--max-states", type=_count, default=40, metavar="N", help="more are not drawn (default %(default)s)"
    )
    command.add_argument("--direction", choices=("auto", "right", "down"), default="auto")
    command.add_argument(
        "--draw-escapes",
        action="store_true",
        help="draw the escapes inside of JSON strings too, such as \\n and \\u00e9",
    )
    command.add_argument("--title", help="the heading (default: the constraint itself)")


def _warm(command: argparse.ArgumentParser) -> None:
    """Compile files of constraints into the cache of a server, before it starts or while it runs."""
    command.add_argument(
        "paths", nargs="+", type=Path, metavar="DIR|FILE", help=f"{', '.join('*' + suffix for suffix in SUFFIXES)}"
    )
    command.add_argument("--folder", type=Path, help="of the cache (default: $GUIDED_CACHE_DIR/indexes)")
    _add_tokenizer(command)


_COMMANDS = {
    "compile": _compile,
    "check": _check,
    "explain": _explain,
    "lint": _lint,
    "plot": _plot,
    "warm": _warm,
}


# --- what they share --------------------------------------------------------------------------------------------------


def _add_constraint(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("constraint (one of)").add_mutually_exclusive_group()
    group.add_argument("--regex", metavar="PATTERN", help="a Python regular expression")
    group.add_argument("--schema", metavar="FILE", help='a JSON Schema; "-" reads stdin')
    group.add_argument("--json-schema", metavar="TEXT", help="a JSON Schema, as text")
    group.add_argument("--choice", action="append", metavar="TEXT", help="one of the choices; give it for each")
    group.add_argument("--choices", metavar="FILE", help='choices, one a line or a JSON list; "-" reads stdin')
    group.add_argument("--grammar", metavar="FILE", help='a Lark or GBNF grammar; "-" reads stdin')
    group.add_argument(
        "--structural-tag", metavar="FILE", help='free text with constraints between markers; "-" reads stdin'
    )
    options = command.add_argument_group("options of the constraint")
    options.add_argument("--syntax", choices=GRAMMAR_SYNTAX, help="of the grammar (default: what it looks like)")
    _add_schema_options(options)


def _add_schema_options(options: argparse._ArgumentGroup) -> None:
    options.add_argument("--whitespace", choices=WHITESPACE, help="between the tokens of a JSON document")
    options.add_argument("--whitespace-pattern", metavar="REGEX", help="the same, as a regex")
    options.add_argument("--additional-properties", choices=ADDITIONAL_PROPERTIES)
    options.add_argument("--property-order", choices=PROPERTY_ORDER)
    options.add_argument("--escapes", choices=ESCAPES)


def _add_tokenizer(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tokenizer", metavar="FOLDER", help="model folder, tokenizer file or hub name (default: the embedded model)"
    )
    command.add_argument(
        "--vocabulary-size", type=_count, metavar="N", help="width of the model's logits (default: the tokenizer's)"
    )


def _add_limits(command: argparse.ArgumentParser) -> None:
    default = Limits()
    limits = command.add_argument_group("limits")
    limits.add_argument(
        "--limit-seconds", type=_seconds, default=default.seconds, metavar="S", help="default %(default)s"
    )
    limits.add_argument("--limit-states", type=_count, default=default.states, metavar="N", help="default %(default)s")
    limits.add_argument(
        "--limit-memory", type=_count, default=default.memory_bytes >> 20, metavar="MIB", help="default %(default)s"
    )
    limits.add_argument(
        "--limit-bytes", type=_count, default=default.constraint_bytes, metavar="N", help="of the constraint's text"
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no positive number of seconds")
    return seconds


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


# --- values -----------------------------------------------------------------------------------------------------------


def limits_of(args: argparse.Namespace) -> Limits:
    return Limits(
        constraint_bytes=args.limit_bytes,
        states=args.limit_states,
        seconds=args.limit_seconds,
        memory_bytes=args.limit_memory << 20,
    )


def schema_constraint(args: argparse.Namespace, text: str) -> Constraint:
    """A JSON Schema with the options that were given. Raises ConstraintError where it is refused."""
    return Constraint.json_schema(text, **_schema_options(args))


def _schema_options(args: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in _SCHEMA_OPTIONS if (value := getattr(args, name)) is not None}


def constraint_of(args: argparse.Namespace) -> Constraint:
    """The constraint that was given.

    Raises:
        ConstraintError: it is refused for what it says.
        UsageError: an option that does not go with it, or a file that cannot be read.
    """
    is_schema = args.schema is not None or args.json_schema is not None
    given = _schema_options(args)
    if given and not is_schema and args.structural_tag is None:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} goes with a JSON Schema or a structural tag only")
    if args.syntax and args.grammar is None:
        raise UsageError("--syntax goes with --grammar only")
    if is_schema:
        text = args.json_schema if args.json_schema is not None else read_text(args.schema)
        return schema_constraint(args, text)
    if args.structural_tag is not None:
        return Constraint.structural_tag(read_text(args.structural_tag), **given)
    if args.regex is not None:
        return Constraint.regex(args.regex)
    if args.grammar is not None:
        return Constraint.grammar(read_text(args.grammar), syntax=args.syntax)
    return Constraint.choice(args.choice if args.choice is not None else choices_of(read_text(args.choices)))


def read_text(name: str) -> str:
    """The text of a file, or of stdin for "-"."""
    try:
        text = sys.stdin.buffer.read().decode() if name == "-" else Path(name).read_text(encoding="utf-8")
        return text.removeprefix("\ufeff")  # a byte order mark, as some editors write it
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
