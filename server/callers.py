"""In: a request that waits for a compilation; out: whose it is, and that its client left. Knows no constraint."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from guided.workers import Overloaded
from server.compile_service import NoRoom
from server.errors import RequestRefused

Result = TypeVar("Result")
_IPV6_PREFIX = 64  # bits of an address: whoever has one has all that begin with these
CALLER = "caller"  # key of the request's state: the name of the API key


class ClientLeft(Exception):
    """The connection was closed; there is nobody to answer."""


def caller_of(scope: Scope) -> str:
    """What stands for the caller where requests take turns: the name of its API key, or its address, which it cannot make up."""
    if (known := scope.get("state", {}).get(CALLER)) is not None:
        return known
    client = scope.get("client")
    return network_of(client[0]) if client else ""


@lru_cache(maxsize=4096)  # a request asks several times
def network_of(address: str) -> str:
    """What callers are told apart by where they have no keys: an IPv4 address, the network of an IPv6 one, or what else it is."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled when the client leaves. The request's body has been received.

    Raises:
        ClientLeft.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def overloaded(error: Overloaded) -> RequestRefused:
    """HTTP 429 with Retry-After; 503 where it is not for the number of requests."""
    message = f"{error}; try again in {error.retry_seconds} s"
    if isinstance(error, NoRoom):
        return RequestRefused(message, "no_room_for_index", status=503, retry_seconds=error.retry_seconds)
    return RequestRefused(message, "overloaded", status=429, retry_seconds=error.retry_seconds)
