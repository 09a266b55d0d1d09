"""A finished vocabulary's arrays in, one memory-mapped file out, and back; knows no tokenizer.

Layout: magic, checksum of all that follows, header length, header (JSON: version, meta data and, for each array, dtype,
length and place), then the arrays, each aligned to 64 bytes, little-endian. The file's name is a digest of its source.
A file that is missing, cut short, altered or of another version is as good as none: the caller builds the vocabulary anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 1  # raise it whenever the arrays of the same tokenizer files would come out differently
MAGIC = b"GUIDEDV\x00"
CHECKSUM_BYTES = 16
LENGTH_BYTES = 8
HEADER_AT = len(MAGIC) + CHECKSUM_BYTES + LENGTH_BYTES
ALIGNMENT = 64

logger = logging.getLogger(__name__)

Arrays = Mapping[str, npt.NDArray[Any]]


def cache_folder(cache_dir: str | os.PathLike[str] | None) -> Path:
    """Where vocabularies are kept: the given folder, else `$GUIDED_CACHE_DIR/vocabularies`, else `~/.cache/guided/vocabularies`."""
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    root = os.environ.get("GUIDED_CACHE_DIR")
    return (Path(root).expanduser() if root else Path.home() / ".cache" / "guided") / "vocabularies"


def cache_path(folder: Path, fingerprint: str, padded_size: int | None) -> Path:
    """The file of a source (its `fingerprint`) padded to `padded_size`."""
    key = hashlib.sha256(f"{FORMAT_VERSION}\0{fingerprint}\0{padded_size}".encode()).hexdigest()
    return folder / f"{key[:40]}.vocabulary"


def to_bytes(meta: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file; `parse` reads them."""
    body = bytearray()
    places = []
    for name, array in arrays.items():
        body.extend(bytes(-len(body) % ALIGNMENT))
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        places.append({"name": name, "dtype": little.dtype.str, "length": len(little), "at": len(body)})
        body.extend(little.tobytes())
    header = json.dumps({"version": FORMAT_VERSION, "meta": meta, "arrays": places}).encode()
    header += b" " * (-(HEADER_AT + len(header)) % ALIGNMENT)
    content = len(header).to_bytes(LENGTH_BYTES, "little") + header + body
    return MAGIC + checksum(content) + content


def save(path: Path, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the file whole or not at all. A folder that can't be written costs time, not correctness: it is only logged."""
    data = to_bytes(meta, arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o644)  # mkstemp's 0600 would hide it from the other users of a shared folder
                file.write(data)
            Path(scratch).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(scratch).unlink()
            raise
    except OSError as error:
        logger.warning("vocabulary cache %s can't be written (%s); the next start takes longer", path, error)


def load(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
    """Meta data and arrays of a file, None where it can't be used. The arrays are private copies-on-write of the file.

    Copy-on-write, not read-only: Numba takes read-only arrays for another type and would compile every kernel twice.
    """
    try:
        with path.open("rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: an empty file can't be mapped
        logger.warning("vocabulary cache %s can't be read (%s); building it anew", path, error)
        return None
    try:
        return parse(view)
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("vocabulary cache %s is damaged (%s); building it anew", path, error)
        return None


def parse(view: memoryview) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Take a file apart. Raises ValueError, KeyError or TypeError where it isn't what `save` wrote."""
    content_at = len(MAGIC) + CHECKSUM_BYTES
    if view[: len(MAGIC)] != MAGIC:
        raise ValueError("not a vocabulary file")
    if view[len(MAGIC) : content_at] != checksum(view[content_at:]):
        raise ValueError("wrong checksum")
    body_at = HEADER_AT + int.from_bytes(view[content_at:HEADER_AT], "little")
    header = json.loads(bytes(view[HEADER_AT:body_at]))
    if header["version"] != FORMAT_VERSION:
        raise ValueError(f"format version {header['version']}, not {FORMAT_VERSION}")
    body = view[body_at:]
    arrays = {
        place["name"]: np.frombuffer(body, dtype=place["dtype"], count=place["length"], offset=place["at"])
        for place in header["arrays"]
    }
    return header["meta"], arrays


def checksum(content: bytes | memoryview) -> bytes:
    """128-bit digest."""
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()
