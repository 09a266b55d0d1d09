"""The one place where the stages meet: constraint -> network -> automaton -> index, timed and budgeted."""

from __future__ import annotations

import contextlib
import difflib

from guided import kernel_cache
from guided.automaton.avoiding import avoiding
from guided.automaton.endings import Endings
from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import GROW
from guided.automaton.network import Network
from guided.automaton.preface import read_first
from guided.constraint import Constraint
from guided.errors import InvalidConstraint, LimitExceeded, Unsatisfiable
from guided.index.dead_ends import spells_every_byte, writes_ascii
from guided.index.fewest import fewest_tokens
from guided.index.overshoot import Overshoot
from guided.index.slices import slices_of, unwritable_bytes
from guided.index.targets import token_targets
from guided.index.token_index import TokenIndex
from guided.limits import Budget, Limits
from guided.vocabulary import Vocabulary

__all__ = [
    "TokenIndex",
    "begin_index",
    "build_network",
    "compile",
    "fewest_tokens",
    "leave_out_unwritable",
    "warm_up",
]

_WORTH_CLOSING = Limits(states=20_000, seconds=0.5)
_UNWRITABLE = "no token of this model's vocabulary can write what the constraint asks for"


def compile(constraint: Constraint, vocabulary: Vocabulary, limits: Limits | None = None) -> TokenIndex:
    """The index of a constraint, with the row of its start state; the rest grows on demand or by `TokenIndex.close`.

    Raises:
        ConstraintError: the constraint is refused; see `guided.errors`.
        TypeError: it is no constraint.
    """
    if not isinstance(constraint, Constraint):
        kind = type(constraint).__name__
        raise TypeError(f"compile takes a Constraint, such as Constraint.regex(...), not {kind}")
    budget = Budget(limits or Limits())
    return begin_index(LazyDfa(writable_network(constraint, vocabulary, budget), budget), vocabulary)


def writable_network(constraint: Constraint, vocabulary: Vocabulary, budget: Budget | None = None) -> Network:
    """The recogniser of a constraint, less what the vocabulary cannot write. The same constraint gives the same network.

    Raises:
        ConstraintError: the constraint is refused.
    """
    network = build_network(constraint, budget or Budget(), vocabulary)
    leave_out_unwritable(network, vocabulary)
    return network


def leave_out_unwritable(network: Network, vocabulary: Vocabulary) -> None:
    """Takes out of a network what needs a byte that no token of the vocabulary has.

    Raises:
        Unsatisfiable: nothing is left.
    """
    # A network with late rules is written in JSON strings, where every character has a spelling in ASCII too.
    if network.is_complete and network.lose_bytes(unwritable_bytes(vocabulary)) and not network.trim():
        raise Unsatisfiable(_UNWRITABLE)


def begin_index(dfa: LazyDfa, vocabulary: Vocabulary) -> TokenIndex:
    """The index of an automaton with the row of its start state.

    Raises:
        Unsatisfiable: no token may come first and the empty output is not allowed: its bytes are in the vocabulary, but no
            token puts them together, as in a vocabulary that has whole characters only.
        LimitExceeded: a limit was reached.
    """
    index = TokenIndex(dfa, vocabulary)
    if not index.mask(index.start).any() and not index.is_accepting(index.start):
        raise Unsatisfiable(_UNWRITABLE)
    # What no token has was taken out of a complete network; one with late rules is JSON, and counts on ASCII.
    if not spells_every_byte(vocabulary) or (dfa.source.has_late_rules and not writes_ascii(vocabulary)):
        _drop_dead_ends(index, dfa.budget)
    return index


def _drop_dead_ends(index: TokenIndex, budget: Budget) -> None:
    """Leaves out what the vocabulary begins but cannot end, where the index is small enough to see that."""
    index.use_budget(Budget(_WORTH_CLOSING))
    with contextlib.suppress(LimitExceeded):
        if not index.drop_dead_ends():
            raise Unsatisfiable(_UNWRITABLE)
    index.use_budget(budget)


def build_network(constraint: Constraint, budget: Budget, vocabulary: Vocabulary | None = None) -> Network:
    """The recogniser of a constraint.

    Args:
        vocabulary: tells which special tokens there are; without it every name is taken for one.

    Raises:
        ConstraintError: the constraint is refused.
    """
    budget.check_size(len(constraint.canonical_text.encode()))
    network = _front_end(constraint, budget)
    if vocabulary is not None:
        _resolve_special_tokens(network, vocabulary)
    marker, strings = constraint.options.get("after"), constraint.options.get("avoid")
    if marker is not None:
        read_first(network, marker, constraint.options.get("opening"))
    return network if strings is None else avoiding(network, strings, budget)


def _resolve_special_tokens(network: Network, vocabulary: Vocabulary) -> None:
    """Refuses names of special tokens that the model has not. A token that its tokenizer counts as text is read as that text.

    Raises:
        InvalidConstraint: there is no such token.
    """
    for name, uses in network.special_tokens.items():
        if name in vocabulary.special_token_ids:
            continue
        if name.encode() not in vocabulary.token_bytes:
            close = difflib.get_close_matches(name, vocabulary.special_token_ids, n=1)
            raise InvalidConstraint(
                f"the model's vocabulary has no token {name}",
                hint=f"Did you mean {close[0]}?" if close else "To write it as text, put it between quotes",
                **network.token_places.get(name, {}),
            )
        for source, target in uses:
            network.literal(source, name.encode(), target)


def _front_end(constraint: Constraint, budget: Budget) -> Network:
    value, options = constraint.value, constraint.options
    # A front end is imported when it is first needed: the engine process and most servers need one or two of them.
    match constraint.kind:
        case "regex":
            from guided import regex

            return regex.build_network(value, budget)
        case "choice":
            from guided import choice

            return choice.build_network(value, budget)
        case "json":
            from guided import json_schema

            return json_schema.build_network(value, options, budget)
        case "grammar":
            from guided import grammar

            return grammar.build_network(value, options, budget)
        case "structural_tag":
            from guided import structural_tag

            return structural_tag.build_network(value, options, budget)
    raise InvalidConstraint(f"there is no kind of constraint named {constraint.kind!r}")


def warm_up(vocabulary: Vocabulary | None = None) -> None:
    """Compiles or loads every kernel, so that no request waits for Numba: seconds the first time, then from its disk cache.

    The tables of characters that regexes ask for (`\\w`, case) are computed too. With a vocabulary also the rest of what its first
    constraints would wait for: the slices of the vocabulary and the imports of the front ends.
    """
    from guided import regex

    regex.warm()
    with kernel_cache.one_at_a_time():
        _run_every_kernel()
    if vocabulary is not None:
        slices_of(vocabulary)
        unwritable_bytes(vocabulary)
        spells_every_byte(vocabulary)
        writes_ascii(vocabulary)
        _use_every_front_end()


def _use_every_front_end() -> None:
    from guided import json_schema

    json_schema.warm()
    for constraint in (
        Constraint.regex("."),
        Constraint.choice(["a"]),
        Constraint.json_schema({"properties": {"a": {"type": "string"}}}),
        Constraint.grammar('start: "a"'),
        Constraint.structural_tag({"format": {"type": "any_text"}}),
    ):
        build_network(constraint, Budget(Limits(seconds=600)))


def _run_every_kernel() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"\xc3", b"\xa9", b"", b""], eos_ids=[3], special_token_ids={"<s>": 4})
    network = Network()
    network.root = network.rule()
    start, end = network.state(), network.state(final=True)
    network.literal(start, b"a", end)
    network.literal(start, b"\xc3\xaa", end)  # its second byte is no token: there are dead ends to drop
    network.define(network.root, start)
    index = TokenIndex(LazyDfa(network, Budget(Limits(seconds=600))), vocabulary)
    fewest_tokens(index)
    token_targets(index, index.start)
    index.mask(index.start)  # before the index is closed: one row alone has a kernel of its own
    index.min_tokens(index.start)
    fewest_tokens(index)
    index.max_tokens()
    index.advance(index.start, 0)
    index.drop_dead_ends()
    _run_kernels_of_stacks()
    _run_kernels_of_marks()


def _run_kernels_of_stacks() -> None:
    """Nested parentheses: what deep stacks, growing budgets and crowded indexes need."""
    vocabulary = Vocabulary.from_tokens([b"a", b"(", b")", b"))", b""], eos_ids=[4])
    network = Network()
    network.root = network.rule()
    start, opened, inside, end = network.state(), network.state(), network.state(), network.state(final=True)
    network.literal(start, b"(", opened)
    network.call(opened, network.root, inside)
    network.literal(inside, b")", end)
    network.literal(start, b"a", end)
    network.define(network.root, start)
    index = TokenIndex(LazyDfa(network, Budget(Limits(seconds=600))), vocabulary)
    overshoot = Overshoot(index, Endings(index.automaton))
    state = index.start
    for token in (1, 1, 1):
        overshoot.most_bytes(state)
        following = index.advance(state, token)
        assert following is not None
        state = following
    overshoot.most_bytes(state)
    for grow in GROW.values():  # hash tables are filled anew
        grow(index.automaton.machine)
    index.forget_all_but([state])


def _run_kernels_of_marks() -> None:
    """Letters, of which the same may not come again at once: what remembered texts need."""
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b",", b""], eos_ids=[3])
    network = Network()
    network.root = network.rule(lambda: letter(b""))
    end = network.state(final=True)

    def letter(before: bytes) -> int:
        start, marked, read, following = (network.state() for _ in range(4))
        network.mark(start, marked)
        for byte in b"ab".replace(before, b""):
            network.edge(marked, 1 << byte, read)
        network.forget(read, end)
        network.literal(read, b",", following)
        network.ask(following, lambda text: letter(text[:1]), end)
        return start

    index = TokenIndex(LazyDfa(network, Budget(Limits(seconds=600))), vocabulary)
    overshoot = Overshoot(index, Endings(index.automaton))
    state = index.start
    for token in (0, 2, 1):
        following = index.advance(state, token)
        assert following is not None
        state = following
    overshoot.after_tops(state)
