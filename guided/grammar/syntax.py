"""A grammar text in, the name of its syntax out, by the rule that it starts from; reads nothing else of it."""

from __future__ import annotations

import re

from guided.errors import InvalidConstraint

# A definition at the beginning of a line. Literals, character classes, regexes and comments are skipped whole, so nothing inside
# them counts; Lark's `//` and GBNF's `#` both begin comments here, since neither begins anything else outside of a literal.
_GBNF = re.compile(
    r"""(?P<skip>"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\#[^\n]*)|(?P<root>^[ \t]*root\s*::=)|.""", re.M | re.S
)
_LARK = re.compile(
    r"""(?P<skip>"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*)
      | (?P<start>^(?:%(?:override|extend)[ \t]+)?[!?]{0,2}start[ \t]*(?:\.[ \t]*-?\d+[ \t]*)?:(?!:=))
      | (?P<import>^%import[^\n]*(?:->\s*|\.|\(\s*|,\s*)start\s*(?=$|[,)]))
      | .""",
    re.M | re.S | re.X,
)


def detect_syntax(text: str) -> str:
    """ "gbnf" for a text with a rule `root ::=`, "lark" for one with a rule `start:`.

    Raises:
        InvalidConstraint: neither, or both.
    """
    is_gbnf = any(match["root"] for match in _GBNF.finditer(text))
    is_lark = any(match["start"] or match["import"] for match in _LARK.finditer(text))
    if is_gbnf != is_lark:
        return "gbnf" if is_gbnf else "lark"
    found = "both a rule `start:` and a rule `root ::=`" if is_lark else "neither a rule `start:` nor a rule `root ::=`"
    raise InvalidConstraint(
        f"the grammar has {found}",
        hint="Accepted are Lark grammars, which begin at `start:`, and GBNF grammars, which begin at `root ::=`; "
        'the option grammar_syntax ("lark" or "gbnf") says which one it is',
    )
