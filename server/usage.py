"""In: digests of constraints as they are used; out: those used most in the last run, which a restart warms first. Knows no index."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
from collections import Counter
from pathlib import Path

logger = logging.getLogger(__name__)

_KEPT = 1024  # digests in the file
_COUNTED = 16 * _KEPT  # in memory; beyond that those used once are forgotten


class Usage:
    """How often constraints were used since the start, kept in a file. Without the file a restart is cold, no more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: Counter[str] = Counter()
        self._saved: dict[str, int] = {}

    def count(self, digest: str) -> None:
        self._counts[digest] += 1
        if len(self._counts) > _COUNTED:
            self._counts = Counter(dict(self._counts.most_common(_KEPT)))

    def of_last_run(self, most: int) -> list[str]:
        """Digests, those used most often first."""
        try:
            counts = json.loads(self._path.read_text(encoding="ascii"))
            return [digest for digest, _ in Counter(counts).most_common(most)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, AttributeError) as error:
            logger.warning("the list of constraints of the last run, %s, cannot be read: %s", self._path, error)
            return []

    def save(self) -> None:
        """Writes the file, whole or not at all."""
        counts = dict(self._counts.most_common(_KEPT))
        if not counts or counts == self._saved:
            return
        with contextlib.suppress(OSError):  # the disk tier has said that it cannot be written
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".usage-")
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    json.dump(counts, file)
                Path(temporary).replace(self._path)
                self._saved = counts
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
