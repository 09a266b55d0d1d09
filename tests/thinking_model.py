"""The embedded model with a reasoning parser: two of its unused tokens are called <think> and </think>; and questions to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.live_server import LiveServer

START, END = 15, 16
FLAGS = ("--reasoning-parser", "deepseek_r1", "--max-model-len", "1024")
TEMPLATE = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% elif opened %}<think>
{% endif %}
{%- endif %}"""
SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "n": {"type": "integer", "maximum": 99}},
    "required": ["mood", "n"],
}
OPENED = {"chat_template_kwargs": {"opened": True}}  # the prompt ends with <think>


def write_thinking_model(model_folder: Path, folder: Path) -> None:
    """Links to the files of the embedded model, but for the names of two tokens and the chat template."""
    folder.mkdir()
    for file in model_folder.iterdir():
        (folder / file.name).symlink_to(file)
    _replace(folder / "chat_template.jinja", TEMPLATE)
    tokenizer = json.loads((model_folder / "tokenizer.json").read_text())
    for token_id, name in ((START, "<think>"), (END, "</think>")):
        (token,) = (token for token in tokenizer["added_tokens"] if token["id"] == token_id)
        del tokenizer["model"]["vocab"][token["content"]]
        tokenizer["model"]["vocab"][name] = token_id
        token["content"] = name
    _replace(folder / "tokenizer.json", json.dumps(tokenizer))


def _replace(link: Path, text: str) -> None:
    link.unlink()
    link.write_text(text)


@dataclass(frozen=True, slots=True)
class Answer:
    reasoning: str
    content: str
    finish_reason: str
    reasoning_tokens: int
    calls: tuple[str, ...] = ()


def ask(server: LiveServer, *, stream: bool, **fields: Any) -> Answer:
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "How is <think> your </think> mood?"}],
        "max_tokens": 48,
        "temperature": 1.0,
        "seed": 7,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream else {}),
        **fields,
    }
    answered = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=300)
    assert answered.status_code == 200, answered.text
    return _streamed(answered.text) if stream else _whole(answered.json())


def _whole(body: dict[str, Any]) -> Answer:
    (choice,) = body["choices"]
    message = choice["message"]
    calls = tuple(call["function"]["arguments"] for call in message.get("tool_calls") or ())
    counted = body["usage"]["completion_tokens_details"]["reasoning_tokens"]
    return Answer(message["reasoning"] or "", message["content"] or "", choice["finish_reason"], counted, calls)


def _streamed(text: str) -> Answer:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    assert not any("error" in chunk for chunk in chunks), text
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    arguments = [c["function"].get("arguments") or "" for delta in deltas for c in delta.get("tool_calls") or ()]
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"] and c["choices"][0]["finish_reason"]]
    counted = chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"]
    reasoning, content = ("".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning", "content"))
    return Answer(reasoning, content, reasons[-1], counted, ("".join(arguments),) if arguments else ())


def assert_valid(text: str) -> None:
    value = json.loads(text)
    assert list(value) == ["mood", "n"] and value["mood"] in ("good", "bad") and value["n"] <= 99
