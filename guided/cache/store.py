"""The tiers below memory as one: files first, then the remote cache, whose finds are kept in files. Knows no constraint language."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from guided.cache.files import DISK, Files
from guided.cache.remote import Remote
from guided.constraint import Constraint
from guided.index.file import Stored
from guided.index.token_index import TokenIndex
from guided.limits import Budget

REMOTE = "redis"


@dataclass(frozen=True, slots=True)
class Found:
    """An index and the tier that had it."""

    stored: Stored
    tier: str


class Store:
    """Where processes that compile find and leave indexes."""

    def __init__(self, files: Files, remote: Remote | None = None) -> None:
        self.files = files
        self._remote = remote

    def find(self, digest: str, budget: Budget | None = None) -> Found | None:
        """The index of a constraint, if a tier has it; one that still grows may cost `budget` from now on."""
        stored = self.files.load(digest, budget)
        if stored is not None:
            return Found(stored, DISK)
        data = self._remote.get(digest) if self._remote is not None else None
        if data is None:
            return None
        stored = self.files.parse(digest, data, budget)
        if stored is None:
            return None
        self.files.write(digest, data)
        return Found(stored, REMOTE)

    def keep(self, index: TokenIndex, constraint: Constraint) -> bytearray:
        """Writes an index to a file; the bytes are for `share`, which may take its time."""
        return self.files.save(index, constraint)

    def share(self, digest: str, data: bytes | bytearray) -> None:
        """Writes what `keep` gave for other replicas."""
        if self._remote is not None:
            self._remote.put(digest, data)

    @contextlib.contextmanager
    def alone(self, digest: str, patience_seconds: float) -> Iterator[None]:
        """While inside, nobody else compiles this constraint, on this host or on others; look again before doing so."""
        with self.files.alone(digest, patience_seconds):
            if self._remote is None:
                yield
                return
            with self._remote.alone(digest, patience_seconds):
                yield

    def remote_use(self) -> dict[str, int]:
        """What the remote cache has counted since the last call."""
        if self._remote is None:
            return {}
        counts = dict(self._remote.counts)
        self._remote.counts.clear()
        return counts

    def flush(self) -> dict[str, int]:
        """Removes the indexes of this generation from every tier; how many each had."""
        removed = self.files.flush()
        if self._remote is not None:
            removed[REMOTE] = self._remote.flush()
        return removed
