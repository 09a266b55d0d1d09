"""The examples of the README run as they stand, against the live server, and print answers that satisfy their constraints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import jsonschema
import pytest

from tests.live_server import ROOT, LiveServer

pytestmark = pytest.mark.engine

FIELDS = ["guided_regex", "guided_choice", "guided_json", "guided_grammar"]
JUDGES: dict[str, Callable[[str], object]] = {
    "guided_regex": lambda text: re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{2,5}", text),
    "guided_choice": lambda text: text in ("POSITIVE", "NEUTRAL", "NEGATIVE"),
    "guided_json": lambda text: re.search(r"celsius|fahrenheit", text) and "location" in text,
    "guided_grammar": lambda text: re.match(r'[NOT (]*(service|status|region):"', text),
}


def blocks(language: str) -> list[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def for_server(text: str, server: LiveServer) -> str:
    return text.replace("http://localhost:8000", server.url).replace("SmolLM2-135M-Instruct", server.model)


def examples(language: str) -> dict[str, str]:
    """Field -> the first example that uses it."""
    found: dict[str, str] = {}
    for block in blocks(language):
        for field in FIELDS:
            if f'"{field}"' in block:
                found.setdefault(field, block)
    assert list(found) == FIELDS, f"one {language} example for each kind of constraint"
    return found


@pytest.mark.parametrize("field", FIELDS)
def test_curl_example(server, field):
    command = for_server(examples("bash")[field], server)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=300)
    choice = json.loads(done.stdout)["choices"][0]
    text = choice.get("text") or choice["message"]["content"]
    assert choice["finish_reason"] in ("stop", "length")
    assert choice["finish_reason"] == "length" or JUDGES[field](text), text


def printed(server: LiveServer, word: str) -> Any:
    """What the one `curl` example with this word in it prints."""
    (example,) = [block for block in blocks("bash") if word in block]
    command = for_server(example, server)
    return json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=300).stdout)


def test_tools_example(server):
    choice = printed(server, '"tools"')["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    (example,) = [block for block in blocks("bash") if '"tools"' in block]
    (tool,) = json.loads(example[example.index("{") : example.rindex("}") + 1])["tools"]
    assert choice["finish_reason"] == "tool_calls" and call["function"]["name"] == tool["function"]["name"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), tool["function"]["parameters"])


def test_compile_example(server):
    found = printed(server, "/v1/guided/compile")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^compiles a constraint.*?\n\n", readme, re.MULTILINE | re.DOTALL)
    assert {name for name in found if f"`{name}`" in said} == set(found)
    body = {"model": server.model, "prompt": "Code: ", "guided_ref": found["digest"], "max_tokens": found["max_tokens"]}
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=300).json()
    assert re.fullmatch("[A-Z]{3}-[0-9]{4}", answer["choices"][0]["text"])


@pytest.mark.parametrize("field", FIELDS)
def test_python_example(server, field):
    program = for_server(blocks("python client")[0] + examples("python")[field], server)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert JUDGES[field](done.stdout.strip()), done.stdout


def test_stream_example(server):
    (example,) = [block for block in blocks("python") if "stream(" in block]
    (model,) = re.findall(
        r"^class WeatherQuery.*?(?=\n\n)", examples("python")["guided_json"], re.MULTILINE | re.DOTALL
    )
    program = "from pydantic import BaseModel, Field\n" + for_server(
        blocks("python client")[0] + model + "\n" + example, server
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    streamed, parsed = done.stdout.strip().rsplit("\n", 1)
    assert repr(json.loads(streamed)["location"]) in parsed


def test_error_example_is_what_the_server_says(server):
    body = json.dumps({"model": server.model, "messages": [], "guided_choise": ["a"]})
    command = ["curl", "-s", f"{server.url}/v1/chat/completions", "-H", "Content-Type: application/json", "-d", body]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    shown = re.search(r'"message": "(guided_choise.*?), \.\.\."', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown is not None
    assert answer["error"]["message"].startswith(shown.group(1))
