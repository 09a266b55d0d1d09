"""Schemas and answers are checked in processes that are killed in time: whatever a schema asks for, other requests go on."""

from __future__ import annotations

import asyncio

import pytest

from server.bedrock.checker import Checker
from server.errors import RequestRefused
from tests.bedrock.stand_in import tool_use
from tests.bedrock.test_answers import WEATHER, chat, content, error

# 2 KB that ask for 2^40 evaluations of any answer.
DOUBLING = {
    "$defs": {
        **{f"a{i}": {"oneOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(40)},
        "a40": True,
    },
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/a0"}},
}


def test_a_schema_that_doubles_is_refused_and_the_next_one_is_checked(bedrock, gateway):
    client = gateway(check_seconds=0.5)
    bedrock.script = [tool_use({"x": 1})]
    told = error(chat(client, guided_json=DOUBLING), 400)
    assert (told["code"], told["param"]) == ("constraint_too_complex", "guided_json")
    assert len(bedrock.asked) == 1  # another answer would take as long
    bedrock.script = [tool_use({"location": "Oslo", "unit": "celsius"})]
    assert content(chat(client, guided_json=WEATHER))


def test_a_schema_that_takes_long_to_read_is_refused(bedrock, gateway):
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}
    told = error(chat(gateway(check_seconds=0.05), guided_json=schema), 400)
    assert told["code"] == "constraint_too_complex"
    assert bedrock.asked == []


async def checked_beside(checker: Checker) -> list[str]:
    """What ends first: a check that does not end by itself, or the other work of the loop."""
    ended = []

    async def check():
        with pytest.raises(RequestRefused, match="longer"):
            await checker.problem(DOUBLING, {"x": 1}, "guided_json")
        ended.append("check")

    async def other():
        for _ in range(100):
            await asyncio.sleep(0)
        ended.append("other")

    await asyncio.gather(check(), other())
    return ended


def test_the_event_loop_goes_on():
    checker = Checker(1, 0.5)
    try:
        assert asyncio.run(checked_beside(checker)) == ["other", "check"]
    finally:
        checker.close()


async def checked_of_others(checker: Checker) -> list[str]:
    """Which of two callers is done first: the one with five checks that do not end, or the one who comes after."""
    ended = []

    async def hostile():
        with pytest.raises(RequestRefused):
            await checker.of("hostile").problem(DOUBLING, {"x": 1}, "f")
        ended.append("hostile")

    async def other():
        assert await checker.of("other").problem({"type": "integer"}, 1, "f") is None
        ended.append("other")

    checks = [asyncio.create_task(hostile()) for _ in range(5)]
    await asyncio.sleep(0.1)
    await asyncio.gather(other(), *checks)
    return ended


def test_one_caller_leaves_a_process_to_the_others():
    checker = Checker(2, 1.5)
    try:
        asyncio.run(checker.problem({"type": "integer"}, 1, "f"))
        assert "other" in asyncio.run(checked_of_others(checker))[:3]
    finally:
        checker.close()


def test_a_process_that_died_is_replaced():
    checker = Checker(1, 30)
    checker.start()
    try:
        (process,) = checker._idle
        assert asyncio.run(checker.problem({"type": "integer"}, 1, "f")) is None
        process._process.kill()
        process._process.wait()
        with pytest.raises(RequestRefused):
            asyncio.run(checker.problem({"type": "integer"}, 1, "f"))
        assert "'a'" in asyncio.run(checker.problem({"type": "integer"}, "a", "f"))
    finally:
        checker.close()


def test_memory_is_bounded():
    """Every branch fails with a message of 5 MB, and all of them are kept until the last one has failed."""
    checker = Checker(1, 60)
    schema = {"$defs": {"e": {"enum": ["x" * 100_000] * 50}}, "anyOf": [{"$ref": "#/$defs/e"}] * 400}
    try:
        with pytest.raises(RequestRefused, match="memory"):
            asyncio.run(checker.problem(schema, "a", "f"))
        assert asyncio.run(checker.problem({"type": "integer"}, 1, "f")) is None
    finally:
        checker.close()


def test_a_message_does_not_quote_megabytes():
    checker = Checker(1, 60)
    try:
        assert len(asyncio.run(checker.problem({"type": "integer"}, "x" * 1_000_000, "f"))) <= 500
    finally:
        checker.close()
