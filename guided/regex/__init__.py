"""Regular expressions: pattern text in, automata over characters or a network over bytes out; knows no vocabulary.

pattern --parse--> syntax tree --compile--> CharNfa --embed--> Network
"""

from __future__ import annotations

import re

from guided.automaton.char_dfa import CharDfa
from guided.automaton.char_nfa import CharNfa, determinise
from guided.automaton.encoding import Utf8Encoder, embed_nfa
from guided.automaton.network import Network
from guided.automaton.words import add_words
from guided.errors import InvalidConstraint, LimitExceeded, Unsatisfiable
from guided.limits import Budget
from guided.regex.characters import warm
from guided.regex.compile import compile_tree
from guided.regex.parse import parse
from guided.regex.parser import FLAGS
from guided.regex.syntax import settle_ends, unanchored

_MAY_ASSERT = re.compile(r"[$^(\\]")  # without one of these there is no assertion to settle

# Words to choose from, perhaps in a group, perhaps with anchors: these need no more than their trie.
_WORDS = re.compile(r"\^?(?:([^\\.^$*+?{\[()]*)|\((?:\?:)?([^\\.^$*+?{\[()]*)\))\$?")

__all__ = ["build_network", "pattern_dfa", "pattern_nfa", "warm"]


def pattern_nfa(
    pattern: str, *, flags: int | str = 0, dialect: str = "python", search: bool = False, budget: Budget | None = None
) -> CharNfa:
    """The automaton of the texts that match a pattern.

    Args:
        flags: `re` flags, or their letters ("im").
        dialect: "python" (`re`) | "ecma" (ECMA-262, the dialect of JSON Schema).
        search: the pattern may match anywhere in the text (`re.search`), instead of the whole of it (`re.fullmatch`).

    Raises:
        InvalidConstraint, UnsupportedKeyword: with the column.
        LimitExceeded: too many states, nested too deeply, out of time.
    """
    budget = budget or Budget()
    bits = _flag_bits(flags) if isinstance(flags, str) else int(flags)
    tree = parse(pattern, bits, dialect, budget)
    try:
        if search:
            tree = unanchored(tree)
        if _MAY_ASSERT.search(pattern):
            tree = settle_ends(tree, at_start=True, at_end=True)
        return compile_tree(tree, budget)
    except RecursionError as error:
        raise LimitExceeded("the pattern is nested too deeply", limit="nesting", source=pattern, column=0) from error


def pattern_dfa(
    pattern: str, *, flags: int | str = 0, dialect: str = "python", search: bool = False, budget: Budget | None = None
) -> CharDfa:
    """`pattern_nfa`, determinised; the empty automaton if nothing matches. Same arguments, same errors."""
    budget = budget or Budget()
    return determinise(pattern_nfa(pattern, flags=flags, dialect=dialect, search=search, budget=budget), budget)


LONGEST_PATTERN = (
    50_000  # characters; `re` takes seconds for more and cannot be interrupted. Lists of words may be longer.
)


def build_network(pattern: str, budget: Budget) -> Network:
    """The network of `re.fullmatch(pattern)` over UTF-8.

    Raises:
        Unsatisfiable: no string matches.
        InvalidConstraint, UnsupportedKeyword, LimitExceeded: as `pattern_nfa`.
    """
    network = Network()
    network.root = network.rule()
    words = _WORDS.fullmatch(pattern)
    if words:
        alternatives = (words[1] if words[1] is not None else words[2]).split("|")
        network.define(network.root, add_words(network, [word.encode() for word in alternatives], budget))
        return network
    if len(pattern) > LONGEST_PATTERN:
        raise LimitExceeded(
            f"the pattern has {len(pattern):,} characters, at most {LONGEST_PATTERN:,} are read",
            limit="constraint_bytes",
        )
    start = embed_nfa(network, pattern_nfa(pattern, budget=budget), Utf8Encoder(network))
    if not network.final[start] and network.first_edge[start] < 0:
        raise Unsatisfiable("no string matches this regex", source=pattern, column=0)
    network.define(network.root, start)
    return network


def _flag_bits(letters: str) -> int:
    bits = 0
    for letter in letters:
        if letter not in FLAGS:
            raise InvalidConstraint(f"unknown regex flag {letter!r}")
        bits |= FLAGS[letter]
    return bits
