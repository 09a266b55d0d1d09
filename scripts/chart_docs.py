"""In: helm/values.yaml with its comments, and the server's settings; out: helm/values.schema.json and helm/README.md.

    python scripts/chart_docs.py [--check]

`# -- text` above a value is its description, `# @schema {...}` below that what its type does not say. A value whose default is an
empty object takes anything; every other object takes the names that values.yaml lists and no others. The names and bounds under
`settings` are those of `server.settings.Settings`. With --check nothing is written; exit status 1 says that a file is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CHART = ROOT / "helm"
ValuePath = tuple[str, ...]
# Settings that the chart gives by values of its own: addresses with passwords, keys, mounted files.
ELSEWHERE = {
    "redis_url": "indexCache.redis.existingSecret",
    "redis_password": "part of the address in indexCache.redis.existingSecret",
    "redis_key": "indexCache.redis.signingKey",
    "warm": "warmUp",
    "api_keys": "auth.existingSecret",
    "admin_keys": "auth.adminKey",
    "api_keys_file": "auth.keysFile",
    "admin_port": "admin.port",
    "admin_host": "part of admin.port",
}
KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):")


@dataclass(slots=True)
class Comment:
    text: str = ""
    schema: dict[str, Any] = field(default_factory=dict)


def comments(source: str) -> Iterator[tuple[ValuePath, Comment]]:
    """Every key of the file with the comment above it."""
    above, path = Comment(), list[str]()
    for line in source.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            above.text = stripped[5:]
        elif stripped.startswith("# @schema "):
            above.schema = yaml.safe_load(stripped[10:])
        elif match := KEY.match(line):
            depth = len(match[1]) // 2
            path = [*path[:depth], match[2]]
            yield tuple(path), above
            above = Comment()
        elif stripped and not stripped.startswith("#"):
            above = Comment()


def schema_of(value: Any, path: ValuePath, described: dict[ValuePath, Comment]) -> dict[str, Any]:
    comment = described.get(path, Comment())
    if isinstance(value, dict) and value and not comment.text:
        properties = {name: schema_of(inner, (*path, name), described) for name, inner in value.items()}
        schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    else:
        names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
        schema = {"type": names[type(value)]}
    if comment.text:
        schema["description"] = comment.text
    return schema | comment.schema


def settings_schema() -> dict[str, Any]:
    """The server's own settings, null for "leave it"."""
    from server.settings import Settings

    properties = {}
    for name, prop in Settings.model_json_schema()["properties"].items():
        if name in ELSEWHERE:
            continue
        kept = {k: v for k, v in prop.items() if k not in ("title", "default")}
        properties[name] = {"description": kept.pop("description", ""), "anyOf": [kept, {"type": "null"}]}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def values_schema(source: str) -> str:
    described = dict(comments(source))
    schema = schema_of(yaml.safe_load(source), (), described)
    schema["properties"]["settings"] |= settings_schema()
    schema["properties"]["global"] = {"type": "object", "description": "Helm's own, for parent charts"}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def rows(value: Any, path: ValuePath, described: dict[ValuePath, Comment]) -> Iterator[str]:
    comment = described.get(path, Comment())
    if isinstance(value, dict) and value and not comment.text:
        for name, inner in value.items():
            yield from rows(inner, (*path, name), described)
    else:
        text = comment.text
        if "enum" in comment.schema:
            text += f" (one of {', '.join(map(str, comment.schema['enum']))})"
        default = json.dumps(value, ensure_ascii=False)
        yield f"| `{'.'.join(path)}` | `{default}` | {text.replace('|', chr(92) + '|')} |"


def readme(source: str) -> str:
    from server.settings import Settings

    described = dict(comments(source))
    values = "\n".join(rows(yaml.safe_load(source), (), described))
    settings = "\n".join(
        f"| `{ELSEWHERE.get(name, f'settings.{name}')}` | `{json.dumps(f.get('default'))}` | {f.get('description', '')} |"
        for name, f in Settings.model_json_schema()["properties"].items()
        if not ELSEWHERE.get(name, "").startswith("part of")
    )
    template = (CHART / "README.md.tmpl").read_text(encoding="utf-8")
    return template.replace("@VALUES@", values).replace("@SETTINGS@", settings)


def main() -> int:
    source = (CHART / "values.yaml").read_text(encoding="utf-8")
    wanted = {CHART / "values.schema.json": values_schema(source), CHART / "README.md": readme(source)}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run make chart", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
