"""A grammar text as its parser gets it, with special tokens replaced, and places in it for error messages; knows no syntax tree.

Special tokens are written `<|name|>`, `<name>` or, for names that do not look like this, `<"[NAME]">`. The quoted form stands for
what is between the quotes, the others for themselves, angle brackets included.
"""

from __future__ import annotations

import re

from guided.errors import InvalidConstraint, LimitExceeded
from guided.limits import Budget

# Literals and comments come first, so that nothing inside them is taken for a bracket or a token.
_LARK = re.compile(
    r"""(?P<skip> "(?:\\"|\\\\|[^"\n])*?" | /(?!/)(?:\\/|\\\\|[^/])*?/[imslux]* | //[^\n]* | \#[^\n]* )
      | (?P<special> <(?: "[^"\n]+" | [^<>"\s]+ )> )
      | (?P<open> [(\[{] ) | (?P<close> [)\]}] )""",
    re.VERBOSE,
)


def place_of(text: str, offset: int) -> tuple[int, int]:
    """(line from 1, column from 0) of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset) - 1


def too_deep(text: str, offset: int, budget: Budget) -> LimitExceeded:
    """The refusal of the parenthesis that is one too many."""
    line, column = place_of(text, offset)
    limit = budget.limits.nesting
    return LimitExceeded(
        f"the grammar is nested more than {limit:,} deep", limit="nesting", line=line, column=column, source=text
    )


def check_length(text: str, most: int) -> None:
    """Refuses a text that would take too long to read."""
    if len(text) > most:
        raise LimitExceeded(
            f"the grammar is too long: {len(text):,} characters, the limit is {most:,}", limit="constraint_bytes"
        )


class Source:
    """The text of a Lark grammar.

    Attributes:
        text: as it came.
        plain: with each special token replaced by the name of a terminal of the same length.
        special: name of such a terminal -> name of the special token.
    """

    def __init__(self, text: str, budget: Budget) -> None:
        self.text = text
        self.special: dict[str, str] = {}
        self.plain = self._scan(text, budget)

    def _scan(self, text: str, budget: Budget) -> str:
        pieces, done, depth = [], 0, 0
        for match in _LARK.finditer(text):
            if match["special"]:
                pieces += [text[done : match.start()], self._stand_in(match)]
                done = match.end()
            elif match["open"]:
                depth += 1
                if depth > budget.limits.nesting:
                    raise too_deep(text, match.start(), budget)
            elif match["close"]:
                depth -= 1
        return "".join(pieces) + text[done:]

    def _stand_in(self, match: re.Match) -> str:
        """A terminal name, as long as the special token, so that columns stay what they are."""
        written = match["special"]
        if re.fullmatch(r"<\[\d[\d,\- ]*\]>", written):
            line, column = self.place(match.start())
            raise self.invalid(f"special token {written}: tokens are given by name, not by number", line, column)
        name = written[2:-2] if written.startswith('<"') else written
        number = len(self.special)
        while (stand_in := "Z" + str(number).rjust(len(written) - 1, "_")) in self.text or stand_in in self.special:
            number += 1
        self.special[stand_in] = name
        return stand_in

    def place(self, offset: int) -> tuple[int, int]:
        """(line, column) of an offset, both from 1, as Lark counts."""
        line, column = place_of(self.text, offset)
        return line, column + 1

    def at(self, line: int, column: int) -> dict:
        """The arguments of a `ConstraintError` that show a place; line and column from 1, or -1 at the end of the text."""
        if not isinstance(line, int) or line < 1 or line > self.text.count("\n") + 1:
            line, column = self.place(len(self.text))
        return {"line": line, "column": column - 1, "source": self.text}

    def invalid(self, message: str, line: int, column: int) -> InvalidConstraint:
        """The refusal of what stands at a place."""
        return InvalidConstraint(message, **self.at(line, column))
