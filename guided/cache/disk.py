"""Index files in a folder that many processes share: found by digest, written whole or not at all, the oldest removed. Knows no network.

    FOLDER/<generation>/<first two digits>/<digest>.index      and, while somebody compiles it, <digest>.lock

Whatever is wrong with the folder or a file costs time, never a request: it is logged once, and the answer is "not here".
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from guided.cache.address import generation
from guided.constraint import Constraint
from guided.index import file
from guided.index.file import IndexFileError, Rebuild, Stored
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

_TOUCH_SECONDS = 60.0  # a file's time of last use is this exact
_SCANS_PER_CAPACITY = 64  # the folder is looked through whenever 1/64 of its capacity was written by this process
_FULL, _KEEP = (
    0.85,
    0.75,
)  # parts of the capacity: from where files are removed, and how far. The rest is for other processes
_POLL_SECONDS = 0.02


def default_folder() -> Path:
    """`$GUIDED_CACHE_DIR/indexes`, else `~/.cache/guided/indexes`."""
    root = os.environ.get("GUIDED_CACHE_DIR")
    return (Path(root).expanduser() if root else Path.home() / ".cache" / "guided") / "indexes"


class Disk:
    """The indexes of one vocabulary in a folder.

    Attributes:
        evictions: files that this process removed to make room.
        home: the folder of this vocabulary and release.
        trouble: what is wrong with the folder, when it last was; None: nothing so far.
        oldest_seconds: since the use of the file not used longest, when the folder was last looked through.
        used_bytes: of the whole folder, when it was last looked through; None before.
    """

    def __init__(
        self,
        folder: Path,
        vocabulary: Vocabulary,
        *,
        capacity_bytes: int = 4 << 30,
        rebuild: Rebuild | None = None,
        quiet: bool = False,
    ) -> None:
        """`quiet`: trouble is told by who looks at it: of many processes that come and go one is enough."""
        self.folder = folder
        self.capacity_bytes = capacity_bytes
        self.evictions = 0
        self.used_bytes: int | None = None
        self.oldest_seconds: float | None = None
        self.home = folder / generation(vocabulary)
        self._vocabulary = vocabulary
        self._rebuild = rebuild
        self._written = 0  # bytes since the folder was looked through
        self.trouble: str | None = None
        self._warned: set[str] | None = None if quiet else set()

    def path(self, digest: str) -> Path:
        return self.home / digest[:2] / f"{digest}.index"

    @property
    def largest_bytes(self) -> int:
        """Larger files are not taken: they would be the first to make room."""
        return int(_KEEP * self.capacity_bytes)

    def load(self, digest: str, budget: Budget | None = None) -> Stored | None:
        """The index of a constraint; one that still grows may cost `budget` from now on."""
        path = self.path(digest)
        try:
            mapped = file.map_file(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        stored = self.parse(digest, mapped, budget)
        if stored is None:
            self.remove(digest)
        else:
            self.touch(digest)
        return stored

    def parse(self, digest: str, data: Any, budget: Budget | None = None) -> Stored | None:
        """The index in the bytes of a file, None where they are not what they should be."""
        try:
            return file.from_buffer(data, self._vocabulary, digest, rebuild=self._rebuild, budget=budget)
        except IndexFileError as error:
            logger.warning("the stored index of constraint %s is dropped: %s", digest, error)
            return None

    def stamp(self, digest: str) -> bytes | None:
        """Tells two files of a constraint apart, as their checksums do; None where there is none."""
        try:
            return bytes(file.map_file(self.path(digest))[: file.STAMP_BYTES])
        except OSError:
            return None

    def save(self, index: TokenIndex, constraint: Constraint) -> bytearray:
        """Writes an index, if it can be written; the bytes of the file."""
        data = file.to_bytes(index, constraint)
        self.write(constraint.digest, data)
        return data

    def write(self, digest: str, data: bytes | bytearray) -> bool:
        """Writes the bytes of a file; False where that is not possible."""
        if len(data) > self.largest_bytes:
            return False
        path = self.path(digest)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file.write(data, path)
        except OSError as error:
            self._warn("written", error)
            return False
        self._written += max(len(data), 4096)
        if self.used_bytes is None or self._written * _SCANS_PER_CAPACITY > self.capacity_bytes:
            self._make_room()
        return True

    def digests(self) -> Iterator[str]:
        """Of all indexes that are here."""
        for path in self.home.glob("*/*.index"):
            yield path.stem

    def flush(self) -> int:
        """Removes the indexes of this vocabulary; how many there were."""
        count = sum(1 for _ in self.digests())
        shutil.rmtree(self.home, ignore_errors=True)
        self.used_bytes = None
        return count

    def measure(self) -> list[tuple[float, int, Path]]:
        """Looks through the folder for `used_bytes` and `oldest_seconds`; the Unix time of its last use, bytes and path of each file."""
        files = []
        for path in self.folder.glob("*/*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, 512 * status.st_blocks, path))
        self.oldest_seconds = time.time() - min((modified for modified, _, _ in files), default=time.time())
        self.used_bytes = sum(size for _, size, _ in files)
        return files

    # --- one process at a time ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def alone(self, digest: str, patience_seconds: float) -> Iterator[bool]:
        """While inside, other processes of the host wait to compile the same constraint; after `patience_seconds` they go on.

        A lock dies with its owner. Where the folder cannot be written, or is to be empty, nobody waits, and False is what is yielded.
        """
        descriptor: int | None = None
        can_lock = self.capacity_bytes > 0
        if can_lock:
            try:
                descriptor = self._lock(digest, time.monotonic() + patience_seconds)
            except OSError as error:
                self._warn("written", error)
                can_lock = False
        try:
            yield can_lock
        finally:
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    self._lock_path(digest).unlink()
                os.close(descriptor)

    def _lock_path(self, digest: str) -> Path:
        return self.path(digest).with_suffix(".lock")

    def _lock(self, digest: str, deadline: float) -> int | None:
        """None where somebody else has it until then. Raises OSError."""
        path = self._lock_path(digest)
        while time.monotonic() < deadline:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(descriptor, path):
                    return descriptor
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            os.close(descriptor)
        return None

    # --- room ---------------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Removes the files that were not used for the longest time, those of other vocabularies and releases included."""
        self._written = 0
        files = self.measure()
        used = sum(size for _, size, _ in files)
        if used > _FULL * self.capacity_bytes:
            for _, size, path in sorted(files):
                if used <= _KEEP * self.capacity_bytes:
                    break
                _unlink(path)
                self.evictions += 1
                used -= size
        self.used_bytes = used

    def touch(self, digest: str) -> bool:
        """Notes that a file is used; False where it is not there (any more)."""
        path = self.path(digest)
        try:
            used = path.stat().st_mtime
        except OSError:
            return False
        if time.time() - used > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):  # a folder that can only be read serves as well
                os.utime(path)
        return True

    def remove(self, digest: str) -> None:
        """Nothing happens where there is no such file."""
        _unlink(self.path(digest))

    def _warn(self, what: str, error: OSError) -> None:
        self.trouble = f"index cache {self.folder} cannot be {what} ({error.strerror}); work goes on without it"
        if self._warned is not None and what not in self._warned:
            self._warned.add(what)
            logger.warning("%s", self.trouble)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    """Is the open file still the one under this name? Its last owner may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
