"""Where Numba keeps the compiled kernels: a folder for each state of the package's sources.

Numba keeps a kernel for as long as the file that defines it stays the same, and does not look at the files of the functions that
were compiled into it. After an upgrade in place it would run kernels of which one half is old. Imports nothing heavy: it has to run
before Numba is imported.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"
_STATE = re.compile("[0-9a-f]{16}")
_COMPILED_IN = (
    "automaton/network.py",
    "automaton/packed.py",
)  # files without kernels that are compiled into some: constants, types
_KEPT_SECONDS = 14 * 24 * 3600  # folders of other states that were written to since


def choose() -> None:
    """Points Numba to the folder: inside of NUMBA_CACHE_DIR where that is set, else of the cache folder of this package."""
    state = _state_of_sources()
    told = os.environ.get(_VARIABLE)
    if told and Path(told).name == state:
        return  # by the process that started this one
    base = Path(told) if told else _cache_folder() / "kernels"
    folder = base / state
    if not folder.exists():
        _drop_old(base)
    os.environ[_VARIABLE] = str(folder)
    if "numba" in sys.modules:  # it has read the variable already
        sys.modules["numba"].config.CACHE_DIR = str(folder)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Lets one process compile and the others of the machine wait, which then load what it compiled.

    A server's processes start together. Numba keeps the kernels of two copies of this package apart, so these do not wait for each
    other; and where the folder cannot be written to, nobody waits.
    """
    copy = hashlib.sha256(str(Path(__file__).parent).encode()).hexdigest()[:16]
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            folder = Path(os.environ[_VARIABLE])
            folder.mkdir(parents=True, exist_ok=True)
            lock = opened.enter_context((folder / f"{copy}.lock").open("w"))  # closing it lets the next one in
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernel_sources(root: Path) -> list[Path]:
    """The files of the package that kernels are compiled from."""
    compiled = [path for path in root.rglob("*.py") if path.name != "kernel_cache.py" and b"njit" in path.read_bytes()]
    return sorted({*compiled, *(root / name for name in _COMPILED_IN)})


def _state_of_sources() -> str:
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in kernel_sources(root):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    return Path(os.environ.get("GUIDED_CACHE_DIR") or Path.home() / ".cache" / "guided")


def _drop_old(base: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in base.iterdir():
            ours = _STATE.fullmatch(folder.name) is not None
            if ours and time.time() - folder.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
