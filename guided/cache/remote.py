"""Index files in Redis or Valkey, shared by replicas: bytes by digest. Any failure is a miss. Knows no index and executes nothing.

A value is a signature, the length of the file, and the file compressed. What comes back is checked like any file (checksum, version,
vocabulary) by who asked; the signature is keyed where a key is given, so that only replicas that know it can write what others read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis

logger = logging.getLogger(__name__)

_VARIABLE = "_GUIDED_REMOTE_CACHE"  # no setting: those are for people
_SIGNATURE_BYTES, _LENGTH_BYTES = 32, 8
_RETRY_SECONDS = (
    5.0  # after a failure nobody asks for so long: a host that is down costs its timeout once, not every time
)
_POLL_SECONDS = 0.05
_FAST = 1  # zlib level: rows of bits compress as well as they will


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Where the server is and what it may cost.

    Attributes:
        url: redis://, rediss:// (TLS) or unix://, with user and password if need be.
        ca_file: of the authority that signed the server's certificate; the system's where None.
        key: shared by all replicas; values that were written without it are misses.
        timeout_seconds: of connecting, and of each read and write.
        ttl_seconds: values that nobody wrote again for so long are gone.
        most_bytes: of a file, before compression; larger ones stay at home.
    """

    url: str
    password: str | None = None
    ca_file: str | None = None
    key: str = ""
    timeout_seconds: float = 0.05
    ttl_seconds: int = 7 * 86_400
    most_bytes: int = 64 << 20

    def leave(self) -> None:
        """For the processes that this one starts, with `left`: the engine's workers know no settings."""
        os.environ[_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def left(cls) -> RemoteOptions | None:
        """What the process that started this one left; None: nothing is shared."""
        text = os.environ.get(_VARIABLE)
        return cls(**json.loads(text)) if text else None


class Remote:
    """The values of one generation of indexes; see `guided.cache.address`.

    Attributes:
        counts: since the start,
            "misses": values that were asked for and are not there;
            "failures": questions without an answer, and values that are not what they should be. While nobody asks, nothing fails;
            "written", "there", "too_large": files that were to be written, by what came of it.
    """

    def __init__(self, options: RemoteOptions, generation: str) -> None:
        self._options = options
        self._prefix = f"guided:{generation}:"
        self._client: Redis | None = None
        self._resumes = 0.0  # time.monotonic() before which nobody asks
        self._warned = False
        self._damaged: set[str] = set()  # digests whose value is to be replaced, whatever it says it is
        self.counts: Counter[str] = Counter()

    def get(self, digest: str) -> bytearray | None:
        """The bytes of a file, or None."""
        value = self._ask(lambda client: client.get(self._prefix + digest) or b"")
        if value == b"":
            self.counts["misses"] += 1
        if not value:
            return None
        try:
            return self._opened(value)
        except (ValueError, zlib.error) as error:
            self.counts["failures"] += 1
            self._damaged.add(digest)
            logger.warning("index %s from the remote cache is dropped: %s", digest, error)
            return None

    def put(self, digest: str, data: bytes | bytearray) -> bool:
        """Writes the bytes of a file, if they are not too many; are they there now? What is there already only lives on."""
        if len(data) > self._options.most_bytes:
            self.counts["too_large"] += 1
            return False
        content = len(data).to_bytes(_LENGTH_BYTES, "little") + zlib.compress(data, _FAST)
        signature = self._signature(content)
        name, ttl = self._prefix + digest, self._options.ttl_seconds
        if digest not in self._damaged and self._lives_on(name, signature):
            self.counts["there"] += 1
            return True
        written = bool(self._ask(lambda client: client.set(name, signature + content, ex=ttl)))
        self.counts["written"] += written
        if written:
            self._damaged.discard(digest)
        return written

    def _lives_on(self, name: str, signature: bytes) -> bool:
        """Is a value with this signature there? It is as good as new then."""

        def renew(client: Redis) -> bool:
            there = client.getrange(name, 0, len(signature) - 1) == signature
            return there and bool(client.expire(name, self._options.ttl_seconds))

        return bool(self._ask(renew))

    def flush(self) -> int:
        """Removes all values of this generation; how many there were."""

        def remove(client: Redis) -> int:
            count = 0
            for name in client.scan_iter(match=f"{self._prefix}*", count=500):
                count += int(client.unlink(name))  # type: ignore[arg-type]  # typed for both kinds of clients
            return count

        return self._ask(remove) or 0

    @contextlib.contextmanager
    def alone(self, digest: str, patience_seconds: float) -> Iterator[bool]:
        """While inside, other replicas wait for the value that is going to be written, and go on when it has come.

        Yields whether the value may have come while we waited. A lock whose owner died goes away by itself.
        """
        name, token = f"{self._prefix}{digest}:lock", secrets.token_hex(8)
        deadline = time.monotonic() + patience_seconds
        milliseconds = max(1, int(1000 * patience_seconds))
        waited, owner = False, None
        while time.monotonic() < deadline:
            owner = self._ask(lambda client: client.set(name, token, nx=True, px=milliseconds) or b"taken")
            if owner != b"taken":
                break
            waited = True
            time.sleep(_POLL_SECONDS)
        try:
            yield waited
        finally:
            if owner is True and self._ask(lambda client: client.get(name)) == token.encode():
                self._ask(lambda client: client.delete(name))

    # --- values -------------------------------------------------------------------------------------------------------

    def _signature(self, content: bytes) -> bytes:
        key = hashlib.sha256(self._options.key.encode()).digest()
        return hashlib.blake2b(content, digest_size=_SIGNATURE_BYTES, key=key).digest()

    def _opened(self, value: bytes) -> bytearray:
        """The file in a value. Raises ValueError or zlib.error where it is not one that we would write."""
        signature, content = value[:_SIGNATURE_BYTES], value[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(content)):
            raise ValueError("its signature is wrong")
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        if not 0 < length <= self._options.most_bytes:
            raise ValueError(f"it claims to be {length} bytes")
        data = bytearray(zlib.decompressobj().decompress(content[_LENGTH_BYTES:], length))
        if len(data) != length:
            raise ValueError("it is cut short")
        return data

    # --- the server ---------------------------------------------------------------------------------------------------

    def _ask(self, question):
        """The server's answer, or None where there is none."""
        if time.monotonic() < self._resumes:
            return None
        from redis.exceptions import RedisError

        try:
            if self._client is None:
                self._client = self._connect()
            return question(self._client)
        except (RedisError, OSError, ValueError) as error:  # ValueError: an address that makes no sense
            self._resumes = time.monotonic() + _RETRY_SECONDS
            self.counts["failures"] += 1
            if not self._warned:
                self._warned = True
                logger.warning(
                    "the remote index cache does not answer (%s); work goes on without it", type(error).__name__
                )
            return None

    def _connect(self) -> Redis:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        options = self._options
        seconds = options.timeout_seconds
        more = {"ssl_ca_certs": options.ca_file} if options.ca_file and options.url.startswith("rediss") else {}
        if options.password is not None:
            more["password"] = options.password
        return redis.Redis.from_url(
            options.url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 0), **more
        )
