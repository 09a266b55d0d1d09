"""A folder in memory for the index files that the disk does not take: shared by the processes of one server, gone when it is.

    BASE/guided-indexes-<user id>-<random>/owner.lock     locked as long as the server lives

BASE is /dev/shm, or the folder for temporary files where that has more room. A server that was killed leaves its folder behind;
the next one finds its lock open and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

_VARIABLE = "_GUIDED_SPARE_FOLDER"  # no setting: those are for people
_LOCK = "owner.lock"
_PART = 4  # 1/4 of what is free may be taken: vLLM's processes talk to each other through /dev/shm


@dataclass(frozen=True, slots=True)
class Spare:
    """The folder of a server that runs.

    Attributes:
        capacity_bytes: of all files in it.
    """

    folder: Path
    capacity_bytes: int

    @classmethod
    def left(cls) -> Spare | None:
        """That of the server which started this process; None: it has none."""
        text = os.environ.get(_VARIABLE)
        if not text:
            return None
        folder, capacity_bytes = json.loads(text)
        return cls(Path(folder), capacity_bytes)


@contextlib.contextmanager
def spare_folder(capacity_bytes: int, bases: Sequence[Path] | None = None) -> Iterator[Spare | None]:
    """Makes the folder of this server, and removes it in the end; processes that are started meanwhile know it (`Spare.left`).

    Args:
        capacity_bytes: at most; less where the file system has less room; 0: there is none.
        bases: folders to make it in, the first that has room enough; None: those of the machine.
    """
    before = os.environ.pop(_VARIABLE, None)
    with contextlib.ExitStack() as stack:
        spare = None
        if capacity_bytes:
            spare = _first_with_room(capacity_bytes, bases or (Path("/dev/shm"), Path(tempfile.gettempdir())), stack)
        if spare is not None:
            os.environ[_VARIABLE] = json.dumps([str(spare.folder), spare.capacity_bytes])
        try:
            yield spare
        finally:
            os.environ.pop(_VARIABLE, None)
            if before is not None:
                os.environ[_VARIABLE] = before


def _first_with_room(capacity_bytes: int, bases: Sequence[Path], stack: contextlib.ExitStack) -> Spare | None:
    """The new folder, to be removed by `stack`."""
    for base in bases:
        _remove_left_overs(base)
    rooms = {base: min(capacity_bytes, room) for base in bases if (room := _room(base)) > 0}
    for base in sorted(rooms, key=lambda base: -rooms[base]):  # a stable sort: the first of those with room for all
        try:
            folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=base))  # mode 0700
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        stack.callback(os.close, lock)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return Spare(folder, rooms[base])
    names = " or ".join(map(str, bases))
    logger.warning("there is no room in %s: constraints whose indexes the disk does not take will be refused", names)
    return None


def _room(base: Path) -> int:
    """Bytes that may be taken there; 0 where nothing can be written."""
    try:
        status = os.statvfs(base)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize // _PART if os.access(base, os.W_OK | os.X_OK) else 0


def _prefix() -> str:
    return f"guided-indexes-{os.getuid()}-"


def _remove_left_overs(base: Path) -> None:
    """The folders of servers that are dead. Those of other users are left alone, whatever their names say."""
    for folder in base.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError: it lives
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
