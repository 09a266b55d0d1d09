"""In: digests of constraints as they are used; out: those used most in the last runs, which a restart warms first. Knows no index.

Servers on one cache folder share the file: each adds what it has counted since it last wrote, under a lock. The first to write of each run
halves what it finds, so that what nobody uses any more is forgotten within a few starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

_KEPT = 1024  # digests in the file
_COUNTED = 16 * _KEPT  # in memory; beyond that those used once are forgotten
_PATIENCE_SECONDS = 2.0  # for the lock; then it is tried again with the next save
_POLL_SECONDS = 0.05


class Usage:
    """How often constraints were used, kept in a file. Without the file a restart is cold, no more. For any threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: Counter[str] = Counter()  # since the last save
        self._lock = threading.Lock()
        self._has_saved = False

    def count(self, digest: str) -> None:
        with self._lock:
            self._counts[digest] += 1
            if len(self._counts) > _COUNTED:
                self._counts = Counter(dict(self._counts.most_common(_KEPT)))

    def of_last_run(self, most: int) -> list[str]:
        """Digests, those used most often first."""
        return [digest for digest, _ in self._read().most_common(most)]

    def save(self) -> None:
        """Adds what was counted to the file, which is written whole or not at all."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                before = self._read()
                if not self._has_saved:
                    before = Counter({digest: count // 2 for digest, count in before.items() if count > 1})
                self._write(before + counts)
            self._has_saved = True
        except OSError:  # the disk tier has said that it cannot be written
            with self._lock:
                self._counts += counts

    def _read(self) -> Counter[str]:
        try:
            counts = json.loads(self._path.read_text(encoding="ascii"))
            return Counter({digest: int(count) for digest, count in counts.items()})
        except (FileNotFoundError, NotADirectoryError):  # which the disk tier tells of
            return Counter()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            logger.warning("the list of constraints of the last run, %s, cannot be read: %s", self._path, error)
            return Counter()

    def _write(self, counts: Counter[str]) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".usage-")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(dict(counts.most_common(_KEPT)), file)
            Path(temporary).replace(self._path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Raises OSError, where another server does not let go of the lock too."""
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)
