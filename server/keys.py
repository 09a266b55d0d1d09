"""In: API keys of a file, the environment and vLLM's own flag; out: whose key a request carries. Keeps digests only; knows no routes.

    python -m server.keys NAME [--admin]     # makes a key: the key itself, once, and the entry for the file

A key is random and long, so a plain SHA-256 of it says nothing about it: nobody can try all keys. The file is YAML:

    keys:
      - {name: team-a, sha256: 2c26b46b..., requests_per_minute: 600, concurrent_requests: 32}
      - {name: operations, sha256: fcde2b2e..., admin: true}

It is read again when it changes, so keys come and go without a restart.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 5.0
_FEWEST_CHARACTERS = 16
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class KeysWrong(ValueError):
    """The file or the text of keys is not what it has to be. The message quotes no key."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One caller's key.

    Attributes:
        name: stands for the caller in logs and where requests take turns.
        digest: SHA-256 of the key.
        admin: opens metrics and the routes of operators too.
        requests_per_minute, concurrent_requests: None: what the settings say for everybody.
    """

    name: str
    digest: bytes
    admin: bool = False
    requests_per_minute: int | None = None
    concurrent_requests: int | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=f"^{_NAME.pattern}$")
    sha256: str = Field(pattern=f"^{_DIGEST.pattern}$")
    admin: bool = False
    requests_per_minute: int | None = Field(default=None, ge=1)
    concurrent_requests: int | None = Field(default=None, ge=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    keys: list[_Entry]


class KeyRing:
    """All keys that open something. Without any, nothing is closed."""

    def __init__(self, fixed: Sequence[ApiKey] = (), file: Path | None = None) -> None:
        """
        Args:
            fixed: keys that stay as long as the process.
            file: more of them; read again when it changes.

        Raises:
            KeysWrong, OSError.
        """
        self._fixed = tuple(fixed)
        self._file = file
        self._read: tuple[ApiKey, ...] = ()
        self._stamp: tuple[int, int] | None = None
        self._looked = time.monotonic()
        if file is not None:
            self._stamp = _stamp(file)
            self._read = read_file(file)
        _refuse_doubles(self.keys)

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        return self._fixed + self._read

    @property
    def is_closed(self) -> bool:
        """Does a caller need a key? A file without keys closes as well: whoever empties it wants nobody in."""
        return bool(self._fixed) or self._file is not None

    @property
    def has_admin(self) -> bool:
        self._look_again()
        return any(key.admin for key in self.keys)

    def find(self, presented: str) -> ApiKey | None:
        """The key that was presented; compares with all of them, so that the time says nothing about which one it is."""
        self._look_again()
        digest = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).digest()
        found = None
        for key in self.keys:
            if hmac.compare_digest(digest, key.digest):
                found = key
        return found

    def _look_again(self) -> None:
        """Takes a changed file; one that cannot be read leaves the keys as they are."""
        now = time.monotonic()
        if self._file is None or now - self._looked < _LOOK_AGAIN_SECONDS:
            return
        self._looked = now
        try:
            stamp = _stamp(self._file)
            if stamp == self._stamp:
                return
            read = read_file(self._file)
            _refuse_doubles(self._fixed + read)
        except (OSError, KeysWrong) as error:
            logger.error("the keys stay as they were: %s", error)
            return
        self._read, self._stamp = read, stamp
        logger.warning("%s was read again: %d keys", self._file, len(read))


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_ino


def read_file(file: Path) -> tuple[ApiKey, ...]:
    """Raises KeysWrong, OSError."""
    try:
        entries = _File.model_validate(yaml.safe_load(file.read_text(encoding="utf-8"))).keys
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors())
        raise KeysWrong(f"{file}: {wrong}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KeysWrong(f"{file} is no YAML ({type(error).__name__})") from None
    return tuple(
        ApiKey(e.name, bytes.fromhex(e.sha256), e.admin, e.requests_per_minute, e.concurrent_requests) for e in entries
    )


def read_text(text: str, kind: str, *, admin: bool = False) -> list[ApiKey]:
    """Keys out of a variable: `NAME=KEY`, `NAME=sha256:DIGEST` or just `KEY`, separated by commas.

    Args:
        kind: names the keys that have no name.

    Raises:
        KeysWrong.
    """
    keys = []
    for number, item in enumerate(filter(None, (item.strip() for item in text.split(","))), 1):
        name, equals, key = item.partition("=")
        if not equals or not _NAME.fullmatch(name):
            name, key = (kind if number == 1 else f"{kind}-{number}"), item
        kind_of_digest, colon, digest = key.partition(":")
        if colon and kind_of_digest == "sha256":
            if not _DIGEST.fullmatch(digest):
                raise KeysWrong(f"key {number} of {kind}: sha256: and 64 hexadecimal digits")
            keys.append(ApiKey(name, bytes.fromhex(digest), admin))
        elif len(key) >= _FEWEST_CHARACTERS:
            keys.append(ApiKey(name, hashlib.sha256(key.encode()).digest(), admin))
        else:
            raise KeysWrong(
                f"key {number} of {kind} has fewer than {_FEWEST_CHARACTERS} characters and could be guessed"
            )
    return keys


def from_plain(keys: Iterable[str]) -> list[ApiKey]:
    """vLLM's own: one name for the first, numbers for the others."""
    return [key for number, plain in enumerate(keys, 1) for key in _plain(plain, number)]


def _plain(plain: str, number: int) -> list[ApiKey]:
    name = "vllm-key" if number == 1 else f"vllm-key-{number}"
    return [ApiKey(name, hashlib.sha256(plain.encode()).digest())] if plain else []


def _refuse_doubles(keys: Sequence[ApiKey]) -> None:
    names = [key.name for key in keys]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise KeysWrong(f"two API keys are called {', '.join(sorted(doubled))}")
    if len({key.digest for key in keys}) < len(keys):
        raise KeysWrong("one API key is there under two names")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m server.keys", description="Makes an API key")
    parser.add_argument("name", help="of the caller, for logs")
    parser.add_argument("--admin", action="store_true", help="opens metrics and the routes of operators too")
    args = parser.parse_args()
    if not _NAME.fullmatch(args.name):
        parser.error("a name is letters, digits and ._@-, at most 64")
    key = f"sk-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    print(f"the key, for the caller; it is kept nowhere: {key}")
    print("the entry, for the file of GUIDED_API_KEYS_FILE:")
    print(f"  - {{name: {args.name}, sha256: {digest}{', admin: true' if args.admin else ''}}}")


if __name__ == "__main__":
    main()
