"""In: a constraint that arrived in the worker; out: its index, from the file that was compiled before it came. Knows no batch."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

from guided.automaton.network import Network
from guided.cache import Files, Memory, Remote, RemoteOptions, Spare, Store, default_folder, generation, is_digest
from guided.compiler import TokenIndex, compile, writable_network
from guided.constraint import Constraint
from guided.errors import LimitExceeded
from guided.limits import Budget, Limits
from guided.masking.slot import BrokenOff
from guided.vllm_adapters.params import GuidedParams
from guided.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# What a constraint without a file may hold up the batch for: most are closed by then and cost the host nothing from then on.
_COMPILING = Limits(seconds=0.1)
_CLOSING = Limits(states=4_000, seconds=0.05)
_LARGE = 16_000  # characters of a constraint whose network is not built in a step of the engine
_GROWTH = Limits(seconds=5.0)  # of one state of an index that still grows: the batch waits


@dataclass(frozen=True, slots=True)
class _Kept:
    """An index, and the stamp of its file when it was read."""

    index: TokenIndex
    stamp: bytes | None


class IndexStore:
    """The indexes of the constraints that were used last, at most `capacity_bytes` of them; closed ones are shared pages of their files."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        capacity_bytes: int = 1 << 30,
        folder: Path | None = None,
        limits: Limits | None = None,
        remote: RemoteOptions | None = None,
        spare: Spare | None = None,
        compiles_at_need: bool = False,
    ) -> None:
        """
        Args:
            limits: of a large constraint whose network the batch has to wait for, and of what is compiled at need.
            remote: what hosts share; None: nothing.
            spare: where the gateway's workers leave what the disk does not take; None: nowhere, or it is on another host.
            compiles_at_need: the gateway is on another host: what comes by no tier of the cache has to be compiled here, however long it
                takes, since all ranks have to know it.
        """
        self._vocabulary = vocabulary
        self._limits = limits or Limits()
        self._kept: Memory[_Kept] = Memory(capacity_bytes)
        self._compiles_at_need = compiles_at_need
        self._warned = False
        self._flushes = 0
        self._patient: set[str] = set()  # digests of constraints with a request that may not be broken off
        self._files = Files.at(folder or default_folder(), vocabulary, spare=spare, rebuild=self._rebuild)
        self._tiers = Store(self._files, None if remote is None else Remote(remote, generation(vocabulary)))

    def get(self, params: GuidedParams) -> TokenIndex:
        """The index of the constraint.

        Raises:
            ValueError: the digest is none.
            BrokenOff: its file is gone; the request may be sent again when it is there.
            ConstraintError: its file is gone, the request has to end here, and the batch does not wait until it is compiled.
        """
        if not is_digest(params.digest):  # it names a file
            raise ValueError("the constraint's digest is none")
        if params.flushes > self._flushes:
            self._flushes = params.flushes
            self._kept.flush()
        if not params.may_break_off and len(params.canonical_text) > _LARGE:
            self._patient.add(params.digest)
        index = self._current(params)
        index.use_budget(Budget(self._limits if params.digest in self._patient else _GROWTH))
        return index

    def breaks_off(self, params: GuidedParams, index: TokenIndex) -> bool:
        """May a request with this index be ended before its answer is complete? Then no short completion can be asked of it either."""
        return not index.is_closed and len(params.canonical_text) > _LARGE and params.digest not in self._patient

    def _current(self, params: GuidedParams) -> TokenIndex:
        """The index that is kept, unless its file was replaced; otherwise what the file has now."""
        kept = self._kept.get(params.digest)
        if kept is not None and kept.index.is_closed:
            return kept.index
        stamp = self._files.stamp(params.digest)
        if kept is not None and kept.stamp == stamp:
            return kept.index
        stored = self._files.load(params.digest) if stamp is not None else None
        if stored is not None:
            index = stored.index
        elif kept is not None:
            return kept.index  # its file is gone, but it has grown here
        else:
            index, stamp = self._found_elsewhere(params)
        self._kept.put(params.digest, _Kept(index, stamp), index.memory_bytes)
        return index

    def _found_elsewhere(self, params: GuidedParams) -> tuple[TokenIndex, bytes | None]:
        """From what hosts share, on all but the one where the gateway is; otherwise compiled, if that may be. And the stamp of its file."""
        found = self._tiers.find(params.digest)
        if found is not None:
            return found.stored.index, self._files.stamp(params.digest)
        if params.may_break_off and not self._compiles_at_need:
            raise BrokenOff("the file of its index is gone", limit="seconds")
        return self._compiled(params), None

    def _rebuild(self, constraint: Constraint) -> Network:
        """The network of an index that needs a rule which its file does not have: for a large constraint, seconds of work.

        Raises:
            BrokenOff: the request is to go on elsewhere.
        """
        if len(constraint.canonical_text) > _LARGE and constraint.digest not in self._patient:
            raise BrokenOff("the index does not reach on, and the batch does not wait for it", limit="seconds")
        return writable_network(constraint, self._vocabulary, Budget(self._limits))

    def _compiled(self, params: GuidedParams) -> TokenIndex:
        """Compiled while the batch waits: a moment only, unless this host has no other way to it. Raises ConstraintError."""
        if self._compiles_at_need:
            if not self._warned:
                self._warned = True
                logger.warning("constraint %s has no index file: the engine compiles it and waits", params.digest)
            index = compile(params.constraint, self._vocabulary, self._limits)
        elif len(params.canonical_text) <= _LARGE:
            index = compile(params.constraint, self._vocabulary, _COMPILING)
        else:
            raise LimitExceeded(
                "the file of its index is gone, and the batch does not wait for another", limit="seconds"
            )
        self._close(index)
        return index

    def _close(self, index: TokenIndex) -> None:
        """Closes an index that is small; one that is not goes on growing where traffic needs it."""
        with contextlib.suppress(LimitExceeded):
            index.close(Budget(_CLOSING))
