"""A closed index as one file, and back: versioned, checksummed, memory-mapped; arrays only, nothing in it is executed.

Layout: 8 bytes magic, 32 bytes BLAKE2b of all that follows, 8 bytes header length (little endian), the header (JSON: format,
vocabulary and constraint digest, name, dtype, shape and offset of each array), padding, the arrays, each aligned to 64 bytes.
Pages are mapped copy-on-write: processes of one host share them, and Numba sees ordinary arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from guided.constraint import FORMAT_VERSION
from guided.index.token_index import TokenIndex
from guided.vocabulary import Vocabulary

_MAGIC = b"GUIDEDIX"
_PREAMBLE = 48  # bytes before the header
_ALIGNMENT = 64


class IndexFileError(ValueError):
    """The file is not an index, is damaged, or belongs to another vocabulary or format version."""


def save(index: TokenIndex, path: str | os.PathLike[str], constraint_digest: str) -> None:
    """Writes a closed index; readers see the old file or the whole new one (atomic rename).

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    assert index.is_closed, "only a closed index is complete as arrays"
    data = to_bytes(index, constraint_digest)
    folder = Path(path).parent
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".index-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)  # mkstemp's 0600 would hide the file from the other users of a shared folder
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def load(path: str | os.PathLike[str], vocabulary: Vocabulary, constraint_digest: str | None = None) -> TokenIndex:
    """Maps an index file.

    Raises:
        OSError: the file cannot be read.
        IndexFileError: it is not an index for this vocabulary (and constraint), or it is damaged.
    """
    with Path(path).open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except ValueError as error:  # an empty file cannot be mapped
            raise IndexFileError(f"{path} is empty") from error
    return from_buffer(mapped, vocabulary, constraint_digest)


def to_bytes(index: TokenIndex, constraint_digest: str) -> bytes:
    """A closed index in the file's layout, for stores that are not files."""
    arrays = index.to_arrays()
    table: list[dict[str, Any]] = []
    offset = 0
    for name, array in arrays.items():
        offset = _aligned(offset)
        table.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset})
        offset += array.nbytes
    payload = bytearray(offset)
    for entry, array in zip(table, arrays.values(), strict=True):
        payload[entry["offset"] : entry["offset"] + array.nbytes] = np.ascontiguousarray(array).tobytes()
    header = json.dumps(
        {
            "format": FORMAT_VERSION,
            "vocabulary": index.vocabulary.digest,
            "constraint": constraint_digest,
            "arrays": table,
        }
    ).encode()
    padding = _payload_begin(len(header)) - _PREAMBLE - len(header)
    content = len(header).to_bytes(8, "little") + header + bytes(padding) + payload
    return _MAGIC + _checksum(content) + content


def from_buffer(buffer: Any, vocabulary: Vocabulary, constraint_digest: str | None = None) -> TokenIndex:
    """The index in a writable buffer, which it keeps using. Raises IndexFileError as `load` does."""
    view = memoryview(buffer)
    header, begin = _read_header(view)
    for what, expected in (
        ("format", FORMAT_VERSION),
        ("vocabulary", vocabulary.digest),
        ("constraint", constraint_digest),
    ):
        if expected is not None and header.get(what) != expected:
            raise IndexFileError(f"the index is of another {what}: {header.get(what)!r}, not {expected!r}")
    arrays = {
        entry["name"]: np.frombuffer(
            buffer, np.dtype(entry["dtype"]), int(np.prod(entry["shape"])), begin + entry["offset"]
        ).reshape(entry["shape"])
        for entry in header["arrays"]
    }
    return TokenIndex.from_arrays(arrays, vocabulary)


def _read_header(view: memoryview) -> tuple[dict[str, Any], int]:
    """The header and where the payload begins, once the checksum is known to be right."""
    if len(view) < _PREAMBLE or bytes(view[:8]) != _MAGIC:
        raise IndexFileError("this is not an index file")
    if bytes(view[8:40]) != _checksum(view[40:]):
        raise IndexFileError("the index is damaged: its checksum is wrong")
    length = int.from_bytes(view[40:_PREAMBLE], "little")
    return json.loads(bytes(view[_PREAMBLE : _PREAMBLE + length])), _payload_begin(length)


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def _payload_begin(header_length: int) -> int:
    return _aligned(_PREAMBLE + header_length)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
