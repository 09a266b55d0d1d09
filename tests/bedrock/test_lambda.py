"""The same gateway inside AWS Lambda: an event of a function URL in, its response out."""

from __future__ import annotations

import json
import subprocess
import sys

from server.bedrock import start
from tests.bedrock.conftest import MODEL_ID
from tests.bedrock.stand_in import tool_use


def event(method: str, path: str, body: object = None) -> dict[str, object]:
    """Payload format 2.0, as Lambda's function URLs and API Gateway send it."""
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "test"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "abc.lambda-url.eu-central-1.on.aws"},
        "requestContext": {"http": http, "domainName": "abc.lambda-url.eu-central-1.on.aws", "stage": "$default"},
        "body": json.dumps(body) if body is not None else None,
        "isBase64Encoded": False,
    }


def test_the_packages_of_the_engine_are_not_loaded():
    """Neither by the gateway nor by its processes that check: its image has none of them."""
    script = (
        "import server.bedrock.start, server.bedrock.check_worker, sys; "
        "print(sorted({'vllm', 'torch', 'numba', 'numpy', 'transformers', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_guided_request(bedrock, monkeypatch):
    monkeypatch.setenv("GUIDED_BEDROCK_MODELS", json.dumps({"haiku": MODEL_ID}))
    monkeypatch.setenv("GUIDED_BEDROCK_ENDPOINT_URL", bedrock.url)
    monkeypatch.setenv("GUIDED_BEDROCK_REGION", "eu-central-1")
    start._lambda_adapter.cache_clear()
    bedrock.script = [tool_use({"value": "no"})]
    body = {"model": "haiku", "messages": [{"role": "user", "content": "?"}], "guided_choice": ["yes", "no"]}
    answer = start.lambda_handler(event("POST", "/v1/chat/completions", body), None)
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["choices"][0]["message"]["content"] == "no"
    refused = start.lambda_handler(event("POST", "/v1/chat/completions", body | {"guided_regex": "a"}), None)
    assert refused["statusCode"] == 400
    assert start.lambda_handler(event("GET", "/health"), None)["statusCode"] == 200
