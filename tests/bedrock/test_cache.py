"""Answers at temperature 0 are kept, in memory, DynamoDB or Redis; a cache that fails is a miss."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time

import boto3
import pytest
from botocore.stub import Stubber

from server.bedrock.cache import DynamoDbCache, MemoryCache, RedisCache
from server.bedrock.request import read_request
from server.bedrock.settings import BedrockSettings
from server.bedrock.start import answer_cache
from tests.bedrock.stand_in import text, tool_use
from tests.bedrock.test_answers import chat, content
from tests.live_server import free_port

ANSWER = {"text": "yes", "finish_reason": "stop"}


def test_a_request_at_temperature_zero_is_paid_once(bedrock, gateway):
    client = gateway(answer_cache="memory")
    bedrock.script = [text("first"), text("second")]
    assert [content(chat(client, temperature=0)) for _ in range(3)] == ["first"] * 3
    assert chat(client, temperature=0).json()["usage"]["total_tokens"] == 0
    assert content(chat(client, temperature=0, max_tokens=7)) == "second"
    assert len(bedrock.asked) == 2


def test_a_request_that_leaves_something_to_chance_is_not_kept(bedrock, gateway):
    client = gateway(answer_cache="memory")
    bedrock.script = [text("first"), text("second")]
    assert [content(chat(client)) for _ in range(2)] == ["first", "second"]


def test_choices_and_a_schema_of_the_same_tool_have_answers_of_their_own(bedrock, gateway):
    client = gateway(answer_cache="memory")
    bedrock.script = [tool_use({"value": "a"})]
    assert content(chat(client, temperature=0, guided_choice=["a", "b"])) == "a"
    assert content(chat(client, temperature=0, guided_json={"type": "string", "enum": ["a", "b"]})) == '"a"'
    assert content(chat(client, temperature=0, guided_choice=["a", "b"])) == "a"


def test_a_name_that_leads_to_another_model_has_other_answers():
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "temperature": 0}
    conversation = asyncio.run(read_request(body, None, max_tokens=9, strict=False))
    assert conversation.cache_key("old") not in (None, conversation.cache_key("new"))


def test_memory_forgets():
    cache = MemoryCache(seconds=0)
    cache.put("k", ANSWER)
    assert cache.get("k") is None
    assert cache.get("other") is None


@pytest.fixture
def dynamodb():
    client = boto3.client("dynamodb", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="y")
    with Stubber(client) as stub:
        yield DynamoDbCache(client, "answers", seconds=60), stub


def test_dynamodb_keeps_and_forgets(dynamodb):
    cache, stub = dynamodb
    now = int(time.time())
    item = {"digest": {"S": "k"}, "answer": {"S": '{"text": "yes", "finish_reason": "stop"}'}}
    stub.add_response("put_item", {})
    stub.add_response("get_item", {"Item": item | {"expires": {"N": str(now + 50)}}})
    stub.add_response("get_item", {"Item": item | {"expires": {"N": str(now - 1)}}})
    stub.add_response("get_item", {})
    cache.put("k", ANSWER)
    assert [cache.get("k") for _ in range(3)] == [ANSWER, None, None]


def test_dynamodb_fails_softly(dynamodb, caplog):
    cache, stub = dynamodb
    for operation in ("put_item", "get_item"):
        stub.add_client_error(operation, "ProvisionedThroughputExceededException")
    stub.add_response(
        "get_item", {"Item": {"digest": {"S": "k"}, "answer": {"S": "{"}, "expires": {"N": "9999999999"}}}
    )
    cache.put("k", ANSWER)
    assert cache.get("k") is None
    assert cache.get("k") is None
    assert "ProvisionedThroughputExceeded" in caplog.text


def test_redis_keeps_and_its_death_is_a_miss():
    pytest.importorskip("redis")
    server = shutil.which("redis-server") or pytest.skip("redis-server is not installed")
    port = free_port()
    command = [server, "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        cache = RedisCache(f"redis://127.0.0.1:{port}/0", seconds=60)
        for _ in range(100):
            cache.put("k", ANSWER)
            if cache.get("k") == ANSWER:
                break
            time.sleep(0.02)
        assert cache.get("k") == ANSWER
    finally:
        process.terminate()
        process.wait()
    cache.put("k", ANSWER)
    assert cache.get("k") is None


def test_the_setting_names_the_cache():
    def made(where):
        return answer_cache(BedrockSettings(models={"haiku": "x"}, answer_cache=where, region="eu-central-1"))

    assert type(made("memory")).__name__ == "MemoryCache"
    assert type(made("dynamodb:answers")).__name__ == "DynamoDbCache"
    with pytest.raises(ValueError, match="GUIDED_BEDROCK_ANSWER_CACHE"):
        made("memcached://x")
