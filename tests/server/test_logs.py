"""Ids go in and out and into the logs; logs are text or JSON; nothing that a request says is in them."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys

import pytest
from starlette.responses import JSONResponse

from server import logs
from server.error_bodies import OpenAIErrors
from server.errors import RequestRefused
from server.logs import WithoutRefusals, WithRequest, caller_name, request_id
from server.request_ids import RequestIds, let_body_name
from tests.live_server import ROOT
from tests.server.asgi import ask, echo


def asked(given: str | None):
    seen = {}

    async def app(scope, receive, send) -> None:
        seen["header"] = dict(scope["headers"])[b"x-request-id"].decode()
        seen["log"] = request_id.get()
        await echo(scope, receive, send)

    headers = {} if given is None else {"X-Request-Id": given}
    answer = asyncio.run(ask(RequestIds(app), "GET", "/", headers))
    assert answer.headers["x-request-id"] == seen["header"] == seen["log"]
    return seen["header"]


def test_an_id_that_was_given_is_kept():
    assert asked("trace-1/2:3") == "trace-1/2:3"


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, 'a","forged":"1', "a\u00e9"])
def test_others_are_replaced(given):
    new = asked(given)
    assert new != given and len(new) == 32


def test_two_requests_do_not_share_an_id():
    assert asked(None) != asked(None)


@pytest.mark.parametrize(
    ("headers", "body", "left"),
    [
        ({}, {"request_id": "mine"}, False),
        ({"X-Request-Id": "header"}, {"request_id": "mine"}, True),
        ({}, {}, True),
    ],
)
def test_a_body_may_name_the_request_where_no_header_does(headers, body, left):
    """vLLM takes the header before the field: one that we made up would hide what the client asked for."""
    seen = {}

    async def app(scope, receive, send) -> None:
        let_body_name(scope, body)
        seen.update(scope["headers"])
        await echo(scope, receive, send)

    asyncio.run(ask(RequestIds(app), "POST", "/", headers))
    assert (b"x-request-id" in seen) == left


PROGRAM = """
import logging, sys
from server import logs
from server.logs import request_id, caller_name
logs.configure(sys.argv[1])
logs.Progress(0.0).say("starting")
request_id.set("r-1"); caller_name.set("team")
logging.getLogger("server.engine").error("request %s ended", "x")
logging.getLogger("guided.cache").info("seen")
logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "1.2.3.4", "GET", "/v1/models", "1.1", 200)
"""


def lines(log_format: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, log_format], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_json_is_one_object_a_line():
    start, error, info = map(json.loads, lines("json"))
    assert start["request_id"] == "-" and start["message"].endswith("starting")
    assert {"asctime", "levelname", "name", "process"} <= error.keys()
    assert (error["levelname"], error["name"], error["message"]) == ("ERROR", "server.engine", "request x ended")
    assert (error["request_id"], error["caller"]) == (info["request_id"], info["caller"]) == ("r-1", "team")


def test_text_has_them_too():
    start, error, _ = lines("text")
    assert start.startswith("guided-server: [")
    assert error.startswith("ERROR ") and error.endswith("request x ended [r-1 team]")


def test_paths_whose_access_is_not_logged(capsys):
    from server.command_line import parse_arguments

    before = logging.getLogger("uvicorn.access").filters[:]
    for log_format in ("json", "text"):
        args, _ = parse_arguments(["--model", "a/b", "--disable-access-log-for-endpoints", "/health,/ready"])
        logs.configure_vllm(args, log_format)
        logger = logging.getLogger("uvicorn.access")
        if log_format == "text":
            assert logger.filters == before
            continue
        for path in ("/health", "/v1/models"):
            logger.warning('%s - "%s %s HTTP/%s" %d', "1.2.3.4", "GET", path, "1.1", 200)
        logger.filters = before
    said = capsys.readouterr().err
    assert "/v1/models" in said and "/health" not in said


@pytest.mark.parametrize("written_by", ["us", "vllm"])
def test_the_code_of_an_error_is_known_when_its_answer_begins(written_by):
    """uvicorn writes the line of a request then."""
    body = {"us": {"error": {"code": "unsatisfiable"}}, "vllm": {"error": {"code": 400, "message": "no"}}}[written_by]
    seen = []

    async def app(scope, receive, send) -> None:
        async def listening(message) -> None:
            if message["type"] == "http.response.start":
                record = logging.makeLogRecord({})
                WithRequest().filter(record)
                seen.append(record.code)
            await send(message)

        await OpenAIErrors(JSONResponse(body, 400 if scope["path"] == "/bad" else 200))(scope, receive, listening)

    async def both() -> None:
        await ask(RequestIds(app), "POST", "/bad")
        await ask(RequestIds(app), "POST", "/good")

    asyncio.run(both())
    assert seen == [{"us": "unsatisfiable", "vllm": "invalid_value"}[written_by], "-"]


def test_the_access_log_of_uvicorn_tells_id_and_caller():
    import uvicorn

    config = logs.of_uvicorn("text", uvicorn.config.LOGGING_CONFIG)
    assert config["formatters"]["access"]["fmt"].endswith("[%(request_id)s %(caller)s %(code)s]")
    assert "request_id" not in uvicorn.config.LOGGING_CONFIG["formatters"]["access"]["fmt"]
    record = logging.makeLogRecord({})
    request_id.set("r-2")
    caller_name.set("team")
    assert WithRequest().filter(record) and (record.request_id, record.caller) == ("r-2", "team")
    assert logs.of_uvicorn("json", uvicorn.config.LOGGING_CONFIG) is None


def test_what_a_client_did_wrong_is_no_traceback():
    """vLLM logs one of every exception on some routes; what is no refusal stays."""
    from vllm.exceptions import VLLMValidationError

    def passes(error: Exception) -> bool:
        try:
            raise error
        except type(error):
            record = logging.LogRecord("vllm", logging.ERROR, "", 1, "Error in a stream", None, sys.exc_info())
        return bool(WithoutRefusals().filter(record))

    assert not passes(VLLMValidationError("temperature must be in [0, 2]", parameter="temperature"))
    assert not passes(RequestRefused("too many", "overloaded", status=429))
    assert passes(ValueError("a fault of ours"))
    assert WithoutRefusals().filter(logging.LogRecord("vllm", logging.ERROR, "", 1, "no exception", None, None))
