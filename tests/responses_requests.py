"""In: OpenAI's client and a request to /v1/responses; out: the response, of a stream too, whose events say what it says."""

from __future__ import annotations

from typing import Any

from openai import OpenAI

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
}
TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {"leg": {"$ref": "#/$defs/leg"}},
    "required": ["leg"],
    "$defs": {"leg": {"enum": ["a", "b"]}},
}
SCHEMAS = {"weather": WEATHER, "trip": TRIP}
TOOLS: Any = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
NAMED: Any = {"type": "function", "name": "weather"}


def custom_tool(syntax: str, definition: str) -> Any:
    return {
        "type": "custom",
        "name": "say",
        "format": {"type": "grammar", "syntax": syntax, "definition": definition},
    }


def respond(client: OpenAI, *, stream: bool, body: dict[str, Any] | None = None, **fields: Any) -> Any:
    """The response; of a stream its last one.

    Args:
        body: fields that the client does not know.
    """
    options = {"input": "How is the weather in Oslo?", "max_output_tokens": 200, **fields}
    made: Any = client.responses.create(stream=stream, extra_body=body, **options)
    if not stream:
        return made
    events = list(made)
    items = [event.item for event in events if event.type == "response.output_item.done"]
    deltas = {item.id: "" for item in items}
    for event in events:
        if event.type in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            deltas[event.item_id] += event.delta
    for item in items:
        if item.type != "message":
            assert deltas[item.id] == (item.arguments if item.type == "function_call" else item.input)
    assert events[-1].response.output == items
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events[-1].response
