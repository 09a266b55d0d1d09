"""In: the digest of a request at temperature 0; out: its answer from an earlier time, or None. A failure of a cache is a miss.

With Bedrock there is no index to keep, so what is kept is the answer, and only where the request leaves nothing to chance.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

logger = logging.getLogger(__name__)
MEMORY_ANSWERS = 1024


class AnswerCache(Protocol):
    def get(self, key: str) -> dict[str, Any] | None: ...

    def put(self, key: str, answer: dict[str, Any]) -> None: ...


class NoCache:
    def get(self, key: str) -> dict[str, Any] | None:
        return None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Keeps nothing."""


class MemoryCache:
    """The last answers of this process."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._answers: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()  # key -> (monotonic end, answer)

    def get(self, key: str) -> dict[str, Any] | None:
        end, answer = self._answers.get(key, (0.0, None))
        return answer if end > time.monotonic() else None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        self._answers[key] = (time.monotonic() + self._seconds, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > MEMORY_ANSWERS:
            self._answers.popitem(last=False)


class DynamoDbCache:
    """A table with the string key `digest`; `expires` (seconds since 1970) is its time to live."""

    def __init__(self, client: Any, table: str, seconds: int) -> None:
        self._client, self._table, self._seconds = client, table, seconds

    def get(self, key: str) -> dict[str, Any] | None:
        try:
            item = self._client.get_item(TableName=self._table, Key={"digest": {"S": key}}).get("Item")
            # DynamoDB deletes what has expired within days, not at once.
            return json.loads(item["answer"]["S"]) if item and int(item["expires"]["N"]) > time.time() else None
        except (ClientError, BotoCoreError, KeyError, ValueError) as error:
            logger.warning("answer cache: %s", error)
            return None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        item = {
            "digest": {"S": key},
            "answer": {"S": json.dumps(answer)},
            "expires": {"N": str(int(time.time()) + self._seconds)},
        }
        try:
            self._client.put_item(TableName=self._table, Item=item)
        except (ClientError, BotoCoreError) as error:
            logger.warning("answer cache: %s", error)


class RedisCache:
    """Redis, Valkey or ElastiCache."""

    def __init__(self, url: str, seconds: int) -> None:
        import redis

        self._error = redis.RedisError
        self._client = redis.Redis.from_url(url, socket_timeout=0.2, socket_connect_timeout=0.5)
        self._seconds = seconds

    def get(self, key: str) -> dict[str, Any] | None:
        try:
            found: Any = self._client.get(f"guided:answer:{key}")
            return json.loads(found) if found else None
        except (self._error, ValueError) as error:
            logger.warning("answer cache: %s", error)
            return None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        try:
            self._client.set(f"guided:answer:{key}", json.dumps(answer), ex=self._seconds)
        except self._error as error:
            logger.warning("answer cache: %s", error)
