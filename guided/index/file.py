"""An index and its constraint as one file, and back: versioned, checksummed, memory-mapped; arrays only, nothing in it is executed.

Layout: 8 bytes magic, 32 bytes BLAKE2b of all that follows, 8 bytes header length (little endian), the header (JSON: format,
vocabulary and constraint digest, closed or growing, name, dtype, shape and offset of each array), padding, the arrays, each aligned to
64 bytes. One of them is the constraint's canonical text, so a digest is enough to have a constraint back. Pages are mapped
copy-on-write: processes of one host share them, and Numba sees ordinary arrays.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import mmap
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from guided.automaton.network import Network
from guided.constraint import FORMAT_VERSION, Constraint
from guided.index import snapshot
from guided.index.bounds import check_closed, check_growing
from guided.index.token_index import TokenIndex
from guided.limits import Budget
from guided.vocabulary import Vocabulary

LAYOUT = 3  # of the file
STAMP_BYTES = 40  # at the beginning of a file: magic and checksum
_MAGIC = b"GUIDEDIX"
_PREAMBLE = 48  # bytes before the header
_ALIGNMENT = 64
_CONSTRAINT = "constraint"  # name of the array with the canonical text

Rebuild = Callable[[Constraint], Network]


class IndexFileError(ValueError):
    """The file is not an index, is damaged, or belongs to another vocabulary, constraint or version."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds.

    Attributes:
        nbytes: of the file.
    """

    constraint: Constraint
    index: TokenIndex
    nbytes: int


def save(index: TokenIndex, path: str | os.PathLike[str], constraint: Constraint) -> int:
    """Writes an index, closed or growing; readers see the old file or the whole new one (atomic rename). The bytes written.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    return write(to_bytes(index, constraint), path)


def write(data: bytes | bytearray, path: str | os.PathLike[str]) -> int:
    """Writes what `to_bytes` gave, as `save` does."""
    if Path(path).exists() and not Path(path).is_file():
        raise FileExistsError(errno.EEXIST, "is there and is no regular file", str(path))
    descriptor, temporary = tempfile.mkstemp(dir=Path(path).parent, prefix=".index-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)  # mkstemp's 0600 would hide the file from the other users of a shared folder
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
    return len(data)


def load(
    path: str | os.PathLike[str],
    vocabulary: Vocabulary,
    constraint_digest: str | None = None,
    *,
    rebuild: Rebuild | None = None,
    budget: Budget | None = None,
) -> Stored:
    """Maps an index file.

    Args:
        rebuild: the network of a constraint, for an index that still grows; without it such a file is refused.
        budget: what such an index may cost from now on.

    Raises:
        OSError: the file cannot be read.
        IndexFileError: it is not an index for this vocabulary (and constraint), or it is damaged.
    """
    return from_buffer(map_file(path), vocabulary, constraint_digest, rebuild=rebuild, budget=budget)


def map_file(path: str | os.PathLike[str]) -> mmap.mmap | bytearray:
    """The bytes of a file, shared with other processes until somebody writes to them; for `from_buffer`. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for a writer
    with os.fdopen(descriptor, "rb"):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if status.st_size == 0:
            return bytearray()  # an empty file cannot be mapped
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)


def to_bytes(index: TokenIndex, constraint: Constraint) -> bytearray:
    """An index in the file's layout, for stores that are not files."""
    text = np.frombuffer(constraint.canonical_text.encode(), np.uint8)
    arrays = {_CONSTRAINT: text, **snapshot.to_arrays(index)}
    table: list[dict[str, Any]] = []
    offset = 0
    for name, array in arrays.items():
        offset = _aligned(offset)
        table.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset})
        offset += array.nbytes
    header = json.dumps(
        {
            "format": FORMAT_VERSION,
            "layout": LAYOUT,
            "vocabulary": index.vocabulary.digest,
            "constraint": constraint.digest,
            "closed": index.is_closed,
            "arrays": table,
        }
    ).encode()
    begin = _payload_begin(len(header))
    data = bytearray(begin + offset)
    data[:8] = _MAGIC
    data[40:_PREAMBLE] = len(header).to_bytes(8, "little")
    data[_PREAMBLE : _PREAMBLE + len(header)] = header
    for entry, array in zip(table, arrays.values(), strict=True):
        at = begin + entry["offset"]
        data[at : at + array.nbytes] = array.tobytes()
    data[8:40] = _checksum(memoryview(data)[40:])
    return data


def from_buffer(
    buffer: Any,
    vocabulary: Vocabulary,
    constraint_digest: str | None = None,
    *,
    rebuild: Rebuild | None = None,
    budget: Budget | None = None,
) -> Stored:
    """What a writable buffer holds, which the index keeps using. Arguments and errors as for `load`."""
    view = memoryview(buffer)
    header, begin = _read_header(view)
    for what, expected in (
        ("format", FORMAT_VERSION),
        ("layout", LAYOUT),
        ("vocabulary", vocabulary.digest),
        ("constraint", constraint_digest),
    ):
        if expected is not None and header.get(what) != expected:
            raise IndexFileError(f"the index is of another {what}: {header.get(what)!r}, not {expected!r}")
    try:
        arrays = _arrays(buffer, header, begin)
        constraint = _constraint(arrays.pop(_CONSTRAINT), header["constraint"])
        closed = header["closed"] is True
        (check_closed if closed else check_growing)(arrays, vocabulary.size)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        # Its checksum is right, so somebody made it up: nothing of it is believed.
        raise IndexFileError(f"the index is not one that was saved here: {error}") from error
    if closed:
        return Stored(constraint, snapshot.closed(arrays, vocabulary), len(view))
    if rebuild is None:
        raise IndexFileError("the index still grows, and nobody is here to go on with it")
    growing = snapshot.growing(arrays, vocabulary, lambda: rebuild(constraint), budget or Budget())
    return Stored(constraint, growing, len(view))


def _arrays(buffer: Any, header: dict[str, Any], begin: int) -> dict[str, np.ndarray]:
    """Raises KeyError, TypeError, ValueError: what the header says of an array is not possible."""
    arrays = {}
    for entry in header["arrays"]:
        shape, offset, dtype = entry["shape"], entry["offset"], np.dtype(entry["dtype"])
        if dtype.hasobject or offset < 0 or any(not isinstance(size, int) or size < 0 for size in shape):
            raise ValueError(f"an array of {dtype} and shape {shape} at {offset}")
        size = math.prod(shape)
        array = np.frombuffer(buffer, dtype, size, begin + offset) if size else np.empty(0, dtype)
        arrays[entry["name"]] = array.reshape(shape)
    return arrays


def _constraint(text: np.ndarray, digest: str) -> Constraint:
    """Raises ValueError: it is none, or not the one that the header names."""
    constraint = Constraint.from_canonical(text.tobytes().decode())
    if constraint.digest != digest:
        raise ValueError("its constraint is another than its header says")
    return constraint


def _read_header(view: memoryview) -> tuple[dict[str, Any], int]:
    """The header and where the payload begins, once the checksum is known to be right."""
    if len(view) < _PREAMBLE or bytes(view[:8]) != _MAGIC:
        raise IndexFileError("this is not an index file")
    if bytes(view[8:40]) != _checksum(view[40:]):
        raise IndexFileError("the index is damaged: its checksum is wrong")
    length = int.from_bytes(view[40:_PREAMBLE], "little")
    try:
        header = json.loads(bytes(view[_PREAMBLE : _PREAMBLE + length]))
    except (ValueError, RecursionError) as error:
        raise IndexFileError(f"the index has no header: {error}") from error
    if not isinstance(header, dict):
        raise IndexFileError("the index has no header")
    return header, _payload_begin(length)


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def _payload_begin(header_length: int) -> int:
    return _aligned(_PREAMBLE + header_length)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
