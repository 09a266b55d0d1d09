"""Bodies: no larger, slower or deeper than allowed, and otherwise as they came."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.body_limits import BodyLimits, has_more, is_deeper
from tests.server.asgi import ask, echo, scope_of

APP = BodyLimits(echo, most_bytes=1000, seconds=5.0, nesting=20, values=100)


def post(*chunks: bytes, headers: dict[str, str] | None = None):
    return asyncio.run(ask(APP, "POST", "/v1/completions", headers, chunks))


def test_a_body_within_the_limits_goes_through():
    assert post(b'{"a":', b" [1]}").body == b'{"a": [1]}'
    assert asyncio.run(ask(APP, "GET", "/v1/models")).status == 200


def test_too_large_by_its_own_account_or_in_fact():
    assert post(b"", headers={"Content-Length": "1001"}).error["code"] == "request_too_large"
    refused = post(b"x" * 600, b"x" * 600)
    assert (refused.status, refused.headers["connection"]) == (413, "close")
    assert post(b" " * 1000, headers={"Content-Length": "1000"}).status == 200


def test_a_packed_body_is_named_so():
    refused = post(b"\x1f\x8b\0", headers={"Content-Encoding": "gzip"})
    assert (refused.status, refused.error["code"]) == (415, "unsupported_media_type")
    assert refused.error["param"] == "Content-Encoding" and "gzip" in refused.error["message"]
    assert post(b"{}", headers={"Content-Encoding": "identity"}).status == 200


def test_too_deep():
    assert post(b"[" * 20 + b"]" * 20).status == 200
    refused = post(b"[" * 21 + b"]" * 21)
    assert refused.status == 400 and "20 levels" in refused.error["message"]
    assert post(b"[" * 21, headers={"Content-Type": "multipart/form-data; boundary=x"}).status == 200


def test_an_answer_that_repeats_its_request_takes_less_depth():
    app = BodyLimits(echo, most_bytes=1000, seconds=5.0, nesting=500, values=400)
    body = b"[" * 201 + b"]" * 201
    for path, root, status in (
        ("/v1/responses", "", 400),
        ("/a/v1/responses", "/a", 400),
        ("/v1/completions", "", 200),
    ):
        assert asyncio.run(ask(app, "POST", path, None, (body,), root_path=root)).status == status


@pytest.mark.parametrize("part", ["[]", "{}", "1", '"a"', '{"a":1}', '"[,[,\\"[,"'])
def test_too_many_values(part):
    few, many = (b"[%s]" % b",".join([part.encode()] * count) for count in (49, 101))
    assert post(few).status == 200
    app = BodyLimits(echo, most_bytes=10_000, seconds=5.0, nesting=20, values=100)
    refused = asyncio.run(ask(app, "POST", "/v1/completions", None, (many,)))
    assert (refused.status, refused.error["code"]) == (413, "request_too_large") and "100 values" in refused.error[
        "message"
    ]


def test_other_encodings_do_not_get_around_the_depth():
    deep = "[" * 30 + "]" * 30
    assert post(deep.encode("utf-16")).status == post(deep.encode("utf-32-be")).status == 400


def test_too_slow():
    async def never() -> None:
        await asyncio.Event().wait()

    sent = []

    async def send(message) -> None:
        sent.append(message)

    app = BodyLimits(echo, most_bytes=1000, seconds=0.01, nesting=20, values=100)
    asyncio.run(app(scope_of("POST", "/"), never, send))
    assert sent[0]["status"] == 408


def test_a_client_that_leaves_meanwhile_is_not_answered():
    async def leaves():
        return {"type": "http.disconnect"}

    async def send(message) -> None:
        raise AssertionError(message)

    asyncio.run(APP(scope_of("POST", "/"), leaves, send))


def depth(value) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


TEXT = st.text(alphabet='ab"\\[]{}é\n', max_size=6)
JSON = st.recursive(TEXT | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=12)


@given(JSON, st.booleans())
def test_depth_is_that_of_the_parsed_value(value, ascii_only):
    text, levels = json.dumps(value, ensure_ascii=ascii_only).encode(), depth(value)
    assert not is_deeper(text, levels)
    assert levels == 0 or is_deeper(text, levels - 1)


def values(value) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(values, value.values())) + (not value)
    return 1 + sum(map(values, value)) + (not value) if isinstance(value, list) else 1


@given(JSON, st.booleans())
def test_as_many_values_as_the_parsed_one_has(value, ascii_only):
    text, count = json.dumps(value, ensure_ascii=ascii_only).encode(), values(value)
    assert not has_more(text, count)
    assert count == 1 or has_more(text, count - 1)


@pytest.mark.parametrize("text", [b"]]]" + b"[" * 5, b'"' + b"[" * 50, b"", b'{"a": "\\"[[[["', b"}{"])
def test_what_is_no_json_does_not_fail(text):
    is_deeper(text, 3)
    has_more(text, 1)
