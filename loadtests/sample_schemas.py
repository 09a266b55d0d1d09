"""Out: schemas to load a server with: real ones from a file where there is one, otherwise made-up ones. Knows no server.

The real ones are a sample of MaskBench (github.com/guidance-ai/jsonschemabench, folder maskbench), which is not part of this repository: a
gzipped file of JSON lines, each an object with a `schema`. `--schemas FILE` of the load tests names it.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "maskbench-sample.jsonl.gz"
MADE_UP = 1_000

_TEXT = {"type": "string", "maxLength": 60}
_WHEN = {"type": "string", "format": "date-time"}
_MONEY = {
    "type": "object",
    "properties": {"amount": {"type": "number", "minimum": 0}, "currency": {"enum": ["EUR", "USD", "NOK"]}},
}
_ADDRESS = {
    "type": "object",
    "properties": {"street": _TEXT, "city": _TEXT, "postcode": {"type": "string", "pattern": "^[0-9]{4,5}$"}},
    "required": ["street", "city"],
}
# Shapes as clients send them: flat records, lists, nesting, definitions, alternatives, patterns, numbers within bounds.
_SHAPES: list[dict[str, Any]] = [
    {
        "name": _TEXT,
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "email": {"type": "string", "format": "email"},
    },
    {"title": _TEXT, "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,12}$"}, "maxItems": 8}},
    {"from": _ADDRESS, "to": _ADDRESS, "sent": _WHEN, "price": _MONEY},
    {
        "status": {"enum": ["open", "closed", "waiting", "unknown"]},
        "since": _WHEN,
        "reason": {"type": ["string", "null"]},
    },
    {"value": {"anyOf": [{"type": "number"}, _TEXT, {"type": "array", "items": {"type": "number"}, "maxItems": 16}]}},
    {
        "host": {"type": "string", "format": "ipv4"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "tls": {"type": "boolean"},
    },
    {
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "items": {"type": "object", "properties": {"sku": _TEXT, "price": _MONEY}},
        }
    },
    {"tree": {"$ref": "#/$defs/node"}},
    {"at": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False, "minItems": 2}},
    {f"answer_{n}": {"enum": ["yes", "no", "does not say"]} for n in range(40)},
]
_NODE = {
    "type": "object",
    "properties": {"label": _TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
}


def schemas(path: Path | None = None) -> list[dict[str, Any]]:
    """The larger ones first; those of `path`, of the usual place, or made-up ones, which a line on stderr says.

    Raises:
        OSError: there is no such `path`.
    """
    if path is None and not DEFAULT.exists():
        print(
            f"no real schemas at {DEFAULT}, and no --schemas FILE: {MADE_UP} made-up ones are sent; "
            "loadtests/sample_schemas.py says where real ones are",
            file=sys.stderr,
            flush=True,
        )
        found = [made_up(number) for number in range(MADE_UP)]
    else:
        with gzip.open(path or DEFAULT, "rt", encoding="utf-8") as file:
            found = [json.loads(line)["schema"] for line in file]
    return sorted(found, key=lambda schema: -len(json.dumps(schema)))


def made_up(number: int) -> dict[str, Any]:
    """One of them; each number has its own."""
    own = {f"id_{number}": {"type": "integer"}}
    parts = [_SHAPES[(number + step) % len(_SHAPES)] for step in range(1 + number // len(_SHAPES) % 4)]
    properties = own | {name: part for shape in parts for name, part in shape.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"node": _NODE},
        "type": "object",
        "properties": properties,
        "required": sorted(properties)[: 1 + number % len(properties)],
        "additionalProperties": False,
    }
