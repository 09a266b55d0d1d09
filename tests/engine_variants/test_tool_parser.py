"""A server with a tool parser, and with a store of responses: the model's own calls, what comes back of them, answers in the background."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tests.engine.requests import together
from tests.live_server import LiveServer
from tests.responses_requests import SCHEMAS, TOOLS, custom_tool, respond

pytestmark = pytest.mark.engine

FLAGS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
PROMPT = (
    'To call a function write <tool_call>{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}</tool_call> and nothing else. '
    "Call it for Rome and 2 days."
)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(scope="module")
def hermes(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    log = tmp_path_factory.mktemp("hermes") / "server.log"
    with LiveServer.started(model_folder, log, FLAGS, {"VLLM_ENABLE_RESPONSES_API_STORE": "1"}) as server:
        yield server


def ask(server: LiveServer, stream: bool, *, seed: int = 0, body: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = {"seed": seed, **(body or {})}
    return respond(server.client, stream=stream, model=server.model, body=body, **{"input": PROMPT, **fields})


@both
def test_the_models_own_calls_obey_their_parameters(hermes, stream):
    """It answers with text or with calls, as it likes; what begins like a call is one."""

    def kinds(seed: int) -> set[str]:
        output = ask(hermes, stream, seed=seed, tools=TOOLS, temperature=0.7, max_output_tokens=60).output
        for item in output:
            if item.type == "function_call":
                jsonschema.validate(json.loads(item.arguments), SCHEMAS[item.name])
            else:
                assert "<tool_call>" not in item.content[0].text
        return {item.type for item in output}

    assert "function_call" in set().union(*together(kinds, range(6)))


@both
def test_required_and_custom_calls_in_the_parsers_format(hermes, stream):
    for item in ask(hermes, stream, tools=TOOLS, tool_choice="required").output:
        jsonschema.validate(json.loads(item.arguments), SCHEMAS[item.name])
    tool = custom_tool("regex", "[a-z]{3,9}\\n[0-9]")
    (call,) = ask(hermes, stream, tools=[tool], tool_choice={"type": "custom", "name": "say"}).output
    assert re.fullmatch("[a-z]{3,9}\n[0-9]", call.input)


@both
def test_a_custom_call_that_is_cut_off_is_text(hermes, stream):
    tool, options = custom_tool("regex", "[a-z]{90}"), {"guided_options": {"fit_budget": False}}
    made = ask(hermes, stream, tools=[tool], tool_choice="required", max_output_tokens=24, body=options)
    assert made.status == "incomplete"
    assert [call.type for call in made.output] == ["custom_tool_call"]
    assert re.fullmatch("[a-z]+", made.output[0].input)


@both
def test_a_conversation_goes_on_after_a_call(hermes, stream):
    first = ask(hermes, stream, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    (called,) = first.output
    result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "12 degrees"}
    options: dict[str, Any] = {"tools": TOOLS, "tool_choice": "none", "max_output_tokens": 8}
    after = ask(hermes, stream, input=[result], previous_response_id=first.id, **options)
    by_hand = ask(hermes, stream, input=[{"role": "user", "content": PROMPT}, called.model_dump(), result], **options)
    assert after.usage.input_tokens == by_hand.usage.input_tokens


@both
def test_an_answer_in_the_background(hermes, stream):
    """With its report, and counted when it is there."""

    def counted() -> float:
        text = httpx.get(f"{hermes.url}/metrics", timeout=10).text
        found = re.search(r'^guided_request_seconds_count{kind="regex",route="/v1/responses"} (\S+)$', text, re.M)
        return float(found[1]) if found else 0.0

    before = counted()
    body = {"guided_regex": "[a-z]{20}", "guided_options": {"report": True}}
    made: Any = hermes.client.responses.create(
        model=hermes.model, input="?", background=True, stream=stream, extra_body=body
    )
    identity = next(iter(made)).response.id if stream else made.id
    deadline = time.monotonic() + 120
    while (found := hermes.client.responses.retrieve(identity)).status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert re.fullmatch("[a-z]{20}", found.output_text)
    report = found.guided
    assert report["tokens"] == found.usage.output_tokens == len(report["token_mass"])
    assert counted() == before + 1
