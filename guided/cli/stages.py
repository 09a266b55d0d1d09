"""The stages from a constraint to its closed index, run one by one and timed; what the commands have in common."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guided.automaton.lazy_dfa import LazyDfa
from guided.cli.arguments import UsageError, constraint_of, limits_of
from guided.compiler import begin_index, build_network, leave_out_unwritable, warm_up
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.index.slices import slices_of
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary, VocabularyError

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
_PATIENCE_SECONDS = 4.0


class Stages:
    """Runs stages; `seconds` keeps how long each took.

    Attributes:
        dfa: what `automaton` gave last.
    """

    dfa: LazyDfa

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.seconds: dict[str, float] = {}
        self.constraint: Constraint = constraint_of(args)
        self.budget = Budget(limits_of(args))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - begin

    def automaton(self, vocabulary: Vocabulary | None = None) -> LazyDfa:
        """The automaton of the constraint, its start state known, less what the vocabulary, if one is given, cannot write.

        Raises:
            ConstraintError: it is refused.
        """
        with self.timed("network"):
            self.budget.restart()
            network = build_network(self.constraint, self.budget)
            if vocabulary is not None:
                leave_out_unwritable(network, vocabulary)
        with self.timed("automaton"):
            self.dfa = LazyDfa(network, self.budget)
        return self.dfa

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that was asked for, or the embedded model's.

        Raises:
            UsageError: there is none, or it cannot be served.
        """
        with self.timed("vocabulary"):
            return load_vocabulary(self.args)

    def index(self, vocabulary: Vocabulary) -> TokenIndex:
        """The index with the row of its start state."""
        with self.timed("kernels"):
            load_kernels()  # else their loading would count as part of the stages
        dfa = self.automaton(vocabulary)
        with self.timed("vocabulary slices"):
            slices_of(vocabulary)
        with self.timed("first mask"):
            return begin_index(dfa, vocabulary)

    def close(self, index: TokenIndex) -> str | None:
        """Closes the index as far as the limits allow; what stopped it, None where it is closed."""
        with self.timed("whole index"):
            try:
                index.close(self.budget)
            except LimitExceeded as error:
                return error.message
        return None


def until_stopped(message: str) -> str:
    """What an index that is not closed is, in words; `message` is what `Stages.close` returned."""
    return f"no, the rest comes while it is used, which is no error (stopped at {message.rpartition(': ')[2]})"


def load_vocabulary(args: argparse.Namespace) -> Vocabulary:
    """As `Stages.vocabulary`."""
    origin = args.tokenizer or embedded_model()
    if origin is None:
        raise UsageError(
            f"no tokenizer: give --tokenizer FOLDER, or run `.venv/bin/python scripts/prepare_model.py` to have {EMBEDDED_MODEL}"
        )
    try:
        return Vocabulary.from_pretrained(origin, padded_size=args.vocabulary_size)
    except (VocabularyError, OSError) as error:
        raise UsageError(f"the tokenizer {origin} cannot be used: {error}") from error


def load_kernels() -> None:
    """Loads the compiled kernels; where they have to be compiled first, says why it takes so long."""
    notice = threading.Timer(
        _PATIENCE_SECONDS,
        lambda: print("guided: compiling kernels for this machine, once; this takes a minute or two", file=sys.stderr),
    )
    notice.start()
    try:
        warm_up()
    finally:
        notice.cancel()


def embedded_model() -> Path | None:
    """The folder of the embedded model, if it was prepared."""
    root = Path(os.environ.get("GUIDED_CACHE_DIR") or "~/.cache/guided").expanduser()
    folder = root / "models" / EMBEDDED_MODEL
    return folder if (folder / "config.json").is_file() else None
