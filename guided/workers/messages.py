"""What server, nursery and workers say to each other: JSON objects with their length in front, and errors as such objects."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from guided import errors
from guided.errors import ConstraintError

Message = dict[str, Any]

IDLE = 20  # beyond all niceness: a worker that runs when nothing else wants the CPU

_LENGTH_BYTES = 4
_CLASSES = {
    error.code: error
    for error in (errors.InvalidConstraint, errors.UnsupportedKeyword, errors.Unsatisfiable, errors.LimitExceeded)
}
_PLACES = ("pointer", "column", "line", "hint", "source", "keyword", "limit")


def pack(message: Message) -> bytes:
    data = json.dumps(message).encode()
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data


def send(channel: socket.socket, message: Message) -> None:
    channel.sendall(pack(message))


def receive(channel: socket.socket) -> Message | None:
    """The next message, None where the other side is gone."""
    head = _read(channel, _LENGTH_BYTES)
    body = None if head is None else _read(channel, int.from_bytes(head, "little"))
    return None if body is None else json.loads(body)


def _read(channel: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = channel.recv(min(count - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


async def receive_async(reader: asyncio.StreamReader) -> Message | None:
    """As `receive`."""
    try:
        head = await reader.readexactly(_LENGTH_BYTES)
        return json.loads(await reader.readexactly(int.from_bytes(head, "little")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def from_error(error: ConstraintError) -> Message:
    places = {name: value for name in _PLACES if (value := getattr(error, name, None)) is not None}
    return {"code": error.code, "message": error.message, **places}


def to_error(message: Message) -> ConstraintError:
    """The error that `from_error` took apart."""
    places = {name: message[name] for name in _PLACES if name in message}
    return _CLASSES[message["code"]](message["message"], **places)
