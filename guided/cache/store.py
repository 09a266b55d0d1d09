"""The tiers below memory as one: disk first, then the remote cache, whose finds are kept on disk. Knows no constraint language."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from guided.cache.disk import Disk
from guided.cache.remote import Remote
from guided.constraint import Constraint
from guided.index.file import Stored
from guided.index.token_index import TokenIndex
from guided.limits import Budget

DISK, REMOTE = "disk", "redis"


@dataclass(frozen=True, slots=True)
class Found:
    """An index and the tier that had it."""

    stored: Stored
    tier: str


class Store:
    """Where processes that compile find and leave indexes."""

    def __init__(self, disk: Disk, remote: Remote | None = None) -> None:
        self.disk = disk
        self._remote = remote

    def find(self, digest: str, budget: Budget | None = None) -> Found | None:
        """The index of a constraint, if a tier has it; one that still grows may cost `budget` from now on."""
        stored = self.disk.load(digest, budget)
        if stored is not None:
            return Found(stored, DISK)
        data = self._remote.get(digest) if self._remote is not None else None
        if data is None:
            return None
        stored = self.disk.parse(digest, data, budget)
        if stored is None:
            return None
        self.disk.write(digest, data)
        return Found(stored, REMOTE)

    def keep(self, index: TokenIndex, constraint: Constraint) -> bytearray:
        """Writes an index to disk; the bytes are for `share`, which may take its time."""
        return self.disk.save(index, constraint)

    def share(self, digest: str, data: bytes | bytearray) -> None:
        """Writes what `keep` gave for other replicas."""
        if self._remote is not None:
            self._remote.put(digest, data)

    @contextlib.contextmanager
    def alone(self, digest: str, patience_seconds: float) -> Iterator[None]:
        """While inside, nobody else compiles this constraint, on this host or on others; look again before doing so."""
        with self.disk.alone(digest, patience_seconds):
            if self._remote is None:
                yield
                return
            with self._remote.alone(digest, patience_seconds):
                yield

    def remote_trouble(self) -> dict[str, int]:
        """Misses and failures of the remote cache since the last call."""
        if self._remote is None:
            return {"misses": 0, "failures": 0}
        counts = {"misses": self._remote.misses, "failures": self._remote.failures}
        self._remote.misses = self._remote.failures = 0
        return counts

    def flush(self) -> dict[str, int]:
        """Removes the indexes of this generation from every tier; how many each had."""
        removed = {DISK: self.disk.flush()}
        if self._remote is not None:
            removed[REMOTE] = self._remote.flush()
        return removed
