"""One definition of a Lark grammar as it was read: a rule, template or terminal; not yet resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lark import Token, Tree

Rename = (
    Callable[[str], str] | None
)  # names inside an imported grammar -> names of the whole grammar; None: as they are


@dataclass(slots=True)
class Definition:
    """A rule, template or terminal.

    Attributes:
        is_terminal: a terminal, not a rule.
        tree: its expansions; None if it was only declared.
        parameters: of a template.
        rename: for the names inside `tree`.
        token: its name where it is defined; None in an imported grammar.
        more: what %extend added, oldest first.
    """

    is_terminal: bool
    tree: Tree | None
    parameters: tuple[str, ...]
    rename: Rename
    token: Token | None
    more: list[tuple[Tree, Rename]] = field(default_factory=list)

    def trees(self) -> list[tuple[Tree, Rename]]:
        """The expansions, each with its renaming, what was added last first; none if only declared."""
        return [] if self.tree is None else [*reversed(self.more), (self.tree, self.rename)]
