"""In: the environment; out: the application with its Bedrock client and cache, for uvicorn and for AWS Lambda.

python -m server.bedrock.start --port 8000            # Fargate, or a laptop with AWS credentials
server.bedrock.start.lambda_handler                    # Lambda
"""

from __future__ import annotations

import argparse
import logging
import sys
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from fastapi import FastAPI

from server.bedrock.app import CACHE_THREADS, create_app
from server.bedrock.cache import AnswerCache, DynamoDbCache, MemoryCache, NoCache, RedisCache
from server.bedrock.checker import Checker
from server.bedrock.engine import BedrockEngine
from server.bedrock.settings import BedrockSettings

CONNECT_SECONDS = 5.0
# Longer than a load balancer keeps an idle connection (120 s in terraform/medium): whoever closes second races no request.
KEEP_ALIVE_SECONDS = 125


def log_requests() -> None:
    """One line of JSON for each request, on stdout and without a prefix: what the log's metric filters and queries read."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    requests = logging.getLogger("guided.requests")
    requests.handlers, requests.propagate = [handler], False
    requests.setLevel(logging.INFO)


def application(settings: BedrockSettings, checker: Checker) -> FastAPI:
    config = Config(
        read_timeout=settings.timeout_seconds,
        connect_timeout=CONNECT_SECONDS,
        retries={"total_max_attempts": 1},
        max_pool_connections=settings.connections,
    )
    client = boto3.client(
        "bedrock-runtime", region_name=settings.region, endpoint_url=settings.endpoint_url, config=config
    )
    engine = BedrockEngine(client, settings.models, settings.attempts, settings.request_seconds, settings.connections)
    return create_app(settings, engine, answer_cache(settings), checker, api_keys(settings))


def _started() -> FastAPI:
    settings = BedrockSettings()
    checker = Checker(settings.check_processes, settings.check_seconds)
    checker.start()
    return application(settings, checker)


def api_keys(settings: BedrockSettings) -> tuple[str, ...]:
    """From the environment and from Secrets Manager. Raises botocore's ClientError: a gateway without its keys must not start."""
    texts = [settings.api_keys.get_secret_value()]
    if settings.api_keys_secret:
        client = boto3.client("secretsmanager", region_name=settings.region)
        texts.append(client.get_secret_value(SecretId=settings.api_keys_secret)["SecretString"])
    return tuple(key.strip() for text in texts for key in text.split(",") if key.strip())


def answer_cache(settings: BedrockSettings) -> AnswerCache:
    """Raises ValueError: the setting names no kind of cache."""
    where, seconds = settings.answer_cache, settings.answer_cache_seconds
    if not where:
        return NoCache()
    if where == "memory":
        return MemoryCache(seconds)
    if where.startswith("dynamodb:"):
        config = Config(
            connect_timeout=0.5, read_timeout=0.5, retries={"max_attempts": 0}, max_pool_connections=CACHE_THREADS
        )
        client = boto3.client("dynamodb", region_name=settings.region, config=config)
        return DynamoDbCache(client, where.removeprefix("dynamodb:"), seconds)
    if where.startswith(("redis://", "rediss://")):
        return RedisCache(where, seconds)
    raise ValueError(f"GUIDED_BEDROCK_ANSWER_CACHE: {where!r} is neither memory, dynamodb:TABLE nor a Redis URL")


@cache
def _lambda_adapter() -> Any:
    from mangum import Mangum

    log_requests()
    return Mangum(_started(), lifespan="off")


def lambda_handler(event: Any, context: Any) -> Any:
    return _lambda_adapter()(event, context)


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser(description="OpenAI-compatible guided answers from Amazon Bedrock")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    log_requests()
    uvicorn.run(_started(), host=args.host, port=args.port, access_log=False, timeout_keep_alive=KEEP_ALIVE_SECONDS)


if __name__ == "__main__":
    main()
