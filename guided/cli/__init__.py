"""The `guided` command: arguments in, text or one JSON object and an exit code out; every command is a module of its own.

Exit codes: 0 fine; 1 the text does not match, or the constraint is refused; 2 the command cannot be carried out as it was
given: wrong arguments, a file that is not there, no tokenizer.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from guided.cli.arguments import UsageError, parse
from guided.cli.report import refusal
from guided.errors import ConstraintError

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    args = parse(arguments)
    command = importlib.import_module(f"guided.cli.{args.command}")  # imported now: `--help` needs no Numba
    try:
        return command.run(args)
    except ConstraintError as error:
        refusal(error, args.json)
        return REFUSED
    except UsageError as error:
        print(f"guided {args.command}: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, UnicodeError, RecursionError, MemoryError, OverflowError) as error:
        if not isinstance(error, BrokenPipeError):
            print(f"guided {args.command}: {error or type(error).__name__}", file=sys.stderr)
            return USAGE
        # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
