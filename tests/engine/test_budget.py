"""However tight `max_tokens` is, an answer that comes is complete; where none can be, the request is refused with what it needs."""

from __future__ import annotations

import json
import re

import pytest

from tests.engine.cases import CASES, JSON_OBJECT, JSON_TEXT, Case
from tests.engine.requests import chat, complete, curl, together
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine

NODE = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["label", "children"],
}


def check_tree(text: str) -> None:
    assert set(json.loads(text)) == {"label", "children"}


TREE = Case(
    "tree",
    "A deep tree of folders as JSON with label and children:",
    {"guided_json": {"$ref": "#/$defs/node", "$defs": {"node": NODE}}},
    check_tree,
)


def needed(server: LiveServer, case: Case) -> int:
    """What the refusal of a budget of one token says."""
    body = {"model": server.model, "prompt": case.text, "max_tokens": 1, **case.fields}
    status, answer = curl(server, "/v1/completions", body)
    error = json.loads(answer)["error"]
    assert (status, error["code"], error["param"]) == (400, "budget_too_small", "max_tokens"), answer
    found = re.search(r"needs (\d+) tokens", error["message"])
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize("case", [*CASES, TREE], ids=lambda case: case.name)
def test_every_answer_is_complete_within_a_tight_budget(server, case: Case):
    least = needed(server, case)

    def ask(seed: int) -> None:
        way = chat if seed % 2 else complete
        options = {"temperature": 1.0, "seed": seed, "max_tokens": least + seed // 2 * 3, "extra_body": case.fields}
        case.check(way(server, case, stream=seed % 4 > 1, **options).text)

    together(ask, range(12))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_budget_that_is_too_small_is_a_status_and_not_an_event(server, stream):
    body = {"model": server.model, "messages": JSON_TEXT.messages, "max_completion_tokens": 3, "stream": stream}
    status, answer = curl(server, "/v1/chat/completions", {**body, **JSON_TEXT.fields})
    assert status == 400
    assert json.loads(answer)["error"]["code"] == "budget_too_small"


def test_without_fit_budget_the_answer_is_cut_off_and_says_so(server):
    fields = {**JSON_OBJECT.fields, "guided_options": {"fit_budget": False}}
    answer = chat(server, JSON_OBJECT, max_tokens=3, extra_body=fields)
    assert answer.finish_reason == "length"
    with pytest.raises(ValueError, match=r".+"):
        json.loads(answer.text)
