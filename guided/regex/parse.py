"""Pattern text -> syntax tree: picks the parser of the dialect; knows no automata."""

from __future__ import annotations

from guided.errors import LimitExceeded
from guided.limits import Budget
from guided.regex.ecma_syntax import EcmaParser, WideEcmaParser
from guided.regex.parser import Parser
from guided.regex.python_syntax import PythonParser
from guided.regex.syntax import Node

DIALECTS: dict[str, type[Parser]] = {"python": PythonParser, "ecma": EcmaParser, "ecma-wide": WideEcmaParser}


def parse(pattern: str, flags: int, dialect: str, budget: Budget) -> Node:
    """The tree of a pattern.

    Args:
        flags: `re` flags.
        dialect: "python" | "ecma" | "ecma-wide" (what matches under either reading of `\\d \\w \\s`).

    Raises:
        InvalidConstraint: not a pattern of the dialect.
        UnsupportedKeyword: backreferences, conditionals, atomic groups, possessive quantifiers.
        LimitExceeded: nested too deeply.
    """
    parser = DIALECTS[dialect](pattern, flags, budget)
    try:
        return parser.parse()
    except RecursionError as error:
        raise LimitExceeded(
            "the pattern is nested too deeply", limit="nesting", source=pattern, column=parser.at
        ) from error
