"""The calls that the page offers to copy are run, and ask for what the page asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.playground.backend import Script

PAGE_ONLY = {
    "stream",
    "stream_options",
    "return_token_ids",
    "guided_options",
}  # fields for showing tokens, not for the answer
NASTY = "It's 5 o'clock: \"$HOME\" `id` \\n \\ ☃ 😀\nsecond line"
CONSTRAINTS = {
    "json": '{"type": "integer",\n  "minimum": 12345678901234567890,\n  "maximum": 12345678901234567899}',
    "regex": r"""it's "\d{2}" \\ [^'"\n]""",
    "choice": 'yes, it\'s\n"no"\nC:\\dir\\',
    "grammar": 'start: "it\'s" A\nA: /[^\\n"]+/',
    "none": None,
}


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_a_copied_call_is_the_page_s_own(page, script: Script, kind, tmp_path):
    page.choose_kind(kind)
    if CONSTRAINTS[kind] is not None:
        page.type_constraint(CONSTRAINTS[kind])
        assert page.verdict() == "The server can enforce this."
    page["prompt"].clear()
    page.script("arguments[0].value = arguments[1]", page["prompt"], NASTY)
    page["seed"].send_keys("7")
    page["max-tokens"].send_keys("90")
    page["run"].click()
    assert page.outcome() == "Complete."
    (asked,) = script.requests
    expected = {name: value for name, value in asked.items() if name not in PAGE_ONLY}
    assert expected["messages"] == [{"role": "user", "content": NASTY}] and expected["seed"] == 7
    if kind == "json":
        assert expected["guided_json"]["minimum"] == 12345678901234567890  # more digits than JavaScript's numbers have

    shell = subprocess.run(["bash", "-c", page.call("curl")], capture_output=True, text=True, timeout=60, check=True)
    assert '"content":"[1]"' in shell.stdout
    program = subprocess.run(
        [sys.executable, "-c", page.call("python")], capture_output=True, text=True, timeout=60, check=True
    )
    assert program.stdout == "[1]\n"
    for body in script.requests[1:]:
        if isinstance(body.get("guided_json"), str):  # a schema may be sent as JSON text
            import json

            body["guided_json"] = json.loads(body["guided_json"])
        assert body == expected
    assert len(script.requests) == 3


def test_a_text_that_cannot_be_sent_is_no_call(page):
    page.type_constraint("{")
    assert "curl" not in page.call("curl") and "Not yet a call" in page.call("curl")
