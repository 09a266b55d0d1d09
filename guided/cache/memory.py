"""Values by name, the least recently used ones dropped when they are too many bytes. Knows nothing of what it keeps."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True)
class _Entry(Generic[Value]):
    value: Value
    nbytes: int
    used: float  # time.monotonic()


@dataclass(slots=True)
class Memory(Generic[Value]):
    """At most `capacity_bytes` of values; a value that is larger than that is kept until the next one comes.

    Attributes:
        used_bytes: of the values kept, as they were told.
        hits, misses, evictions: since the start.
    """

    capacity_bytes: int
    used_bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    _kept: OrderedDict[str, _Entry[Value]] = field(default_factory=OrderedDict)  # least recently used first

    def get(self, name: str) -> Value | None:
        found = self._kept.get(name)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(name)
        found.used = time.monotonic()
        return found.value

    def peek(self, name: str) -> Value | None:
        """As `get`, but does not count as use."""
        found = self._kept.get(name)
        return None if found is None else found.value

    def put(self, name: str, value: Value, nbytes: int) -> None:
        """Keeps a value, in place of the one that had the name."""
        self.drop(name)
        while self._kept and self.used_bytes + nbytes > self.capacity_bytes:
            self.drop(next(iter(self._kept)))
            self.evictions += 1
        self._kept[name] = _Entry(value, nbytes, time.monotonic())
        self.used_bytes += nbytes

    def drop(self, name: str) -> None:
        """Forgets a value; nothing happens where there is none."""
        entry = self._kept.pop(name, None)
        if entry is not None:
            self.used_bytes -= entry.nbytes

    def flush(self) -> int:
        """Forgets all; how many there were."""
        count = len(self._kept)
        self._kept.clear()
        self.used_bytes = 0
        return count

    @property
    def oldest_seconds(self) -> float:
        """Since the value was used that was not used for the longest time; 0 where there is none."""
        oldest = next(iter(self._kept.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.used

    def __contains__(self, name: str) -> bool:
        """Does not count as use."""
        return name in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)
