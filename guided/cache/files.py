"""The index files of one host as one tier: on disk, and in memory what the disk does not take. Knows no network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from guided.cache.disk import Disk
from guided.cache.spare import Spare
from guided.constraint import Constraint
from guided.index import file
from guided.index.file import Rebuild, Stored
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary

DISK, SPARE = "disk", "spare"


class Files:
    """The same methods as `Disk`. What lies in the spare folder is newer than what has its name on disk, and is looked for first.

    Attributes:
        disk: for all servers and starts.
        spare: for the processes of this server, as long as it runs; None: there is none.
    """

    def __init__(self, disk: Disk, spare: Disk | None = None) -> None:
        self.disk = disk
        self.spare = spare
        self._folders = {DISK: disk} if spare is None else {SPARE: spare, DISK: disk}

    @classmethod
    def at(
        cls,
        folder: Path,
        vocabulary: Vocabulary,
        *,
        capacity_bytes: int = 4 << 30,
        spare: Spare | None = None,
        rebuild: Rebuild | None = None,
        quiet: bool = False,
    ) -> Files:
        """The files of one vocabulary; see `Disk`."""

        def at(folder: Path, capacity_bytes: int) -> Disk:
            return Disk(folder, vocabulary, capacity_bytes=capacity_bytes, rebuild=rebuild, quiet=quiet)

        return cls(at(folder, capacity_bytes), None if spare is None else at(spare.folder, spare.capacity_bytes))

    @property
    def largest_bytes(self) -> int:
        """Larger files are never taken."""
        return max(folder.largest_bytes for folder in self._folders.values())

    def load(self, digest: str, budget: Budget | None = None) -> Stored | None:
        """The index of a constraint; one that still grows may cost `budget` from now on."""
        found = (folder.load(digest, budget) for folder in self._folders.values())
        return next((stored for stored in found if stored is not None), None)

    def parse(self, digest: str, data: Any, budget: Budget | None = None) -> Stored | None:
        """The index in the bytes of a file, None where they are not what they should be."""
        return self.disk.parse(digest, data, budget)

    def stamp(self, digest: str) -> bytes | None:
        """Tells two files of a constraint apart; None where there is none."""
        found = (folder.stamp(digest) for folder in self._folders.values())
        return next((stamp for stamp in found if stamp is not None), None)

    def touch(self, digest: str) -> bool:
        """Notes that a file is used; False where it is not there (any more)."""
        return any(folder.touch(digest) for folder in self._folders.values())

    def save(self, index: TokenIndex, constraint: Constraint) -> bytearray:
        """Writes an index, if it can be written; the bytes of the file."""
        data = file.to_bytes(index, constraint)
        self.write(constraint.digest, data)
        return data

    def write(self, digest: str, data: bytes | bytearray) -> bool:
        """Writes the bytes of a file; False where that is possible nowhere."""
        if self.disk.write(digest, data):
            if self.spare is not None:
                self.spare.remove(digest)
            return True
        return self.spare is not None and self.spare.write(digest, data)

    def flush(self) -> dict[str, int]:
        """Removes the indexes of this vocabulary; how many there were in each folder."""
        return {name: folder.flush() for name, folder in self._folders.items()}

    def measure(self) -> None:
        """Looks through the folders, for `use`."""
        for folder in self._folders.values():
            folder.measure()

    def use(self) -> dict[str, dict[str, Any]]:
        """Of each folder: "used_bytes", "oldest_seconds", "trouble" (see `Disk`), and "evictions" since the last call."""
        found = {}
        for name, folder in self._folders.items():
            evictions, folder.evictions = folder.evictions, 0
            found[name] = {
                "used_bytes": folder.used_bytes,
                "oldest_seconds": folder.oldest_seconds,
                "trouble": folder.trouble,
                "evictions": evictions,
            }
        return found

    @contextlib.contextmanager
    def alone(self, digest: str, patience_seconds: float) -> Iterator[None]:
        """While inside, who compiles the same constraint on this host waits; where the disk takes no lock, in this server only."""
        with self.disk.alone(digest, patience_seconds) as can_lock:
            if can_lock or self.spare is None:
                yield
                return
            with self.spare.alone(digest, patience_seconds):
                yield
