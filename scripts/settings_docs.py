"""In: the server's settings; out: docs/settings.md, the table of all of them.

    python scripts/settings_docs.py [--check]

With --check nothing is written; exit status 1 says that the file is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TARGET = ROOT / "docs" / "settings.md"
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))

INTRODUCTION = """\
# Settings

vLLM's own flags go to `guided-server` as they are (`--max-model-len 8192`, `--tensor-parallel-size 2`, `--speculative-config '{...}'`; with
`make serve` through `ARGS`). What vLLM does not know is listed here. A setting `name` can be given, the first of these wins,

* on the command line: `--guided.name VALUE`;
* in the file of `--config FILE.yaml`, which takes vLLM's flags too:

  ```yaml
  model: Qwen/Qwen2.5-7B-Instruct
  max-model-len: 8192
  guided:
    compile_seconds: 5
  ```

* in the environment: `GUIDED_NAME=VALUE`;
* in a file `.env` in the working directory, in the same way.

Unknown names are errors, wherever they are, misspelt `GUIDED_` variables too. `GUIDED_CACHE_DIR` (environment only, `~/.cache/guided`)
is where exported models, vocabularies and indexes are kept.

| `GUIDED_...` | default | bounds | |
|---|---|---|---|
"""


def default_of(name: str, prop: dict[str, Any]) -> str:
    value = prop.get("default")
    if value is None or value == "":
        return ""
    if name.endswith("_bytes"):
        for shift, unit in UNITS:
            if value and value % (1 << shift) == 0:
                return f"{value >> shift} {unit}"
    if isinstance(value, bool | str):
        return f"`{str(value).lower()}`"
    return f"{value:,}"


def bounds_of(prop: dict[str, Any]) -> str:
    kinds = [prop, *prop.get("anyOf", [])]
    if choices := next((kind["enum"] for kind in kinds if "enum" in kind), None):
        return ", ".join(f"`{choice}`" for choice in choices)
    return ", ".join(f"{sign} {kind[key]:,}" for kind in kinds for key, sign in BOUNDS.items() if key in kind)


def page() -> str:
    from server.settings import Settings

    rows = [
        f"| `{name.upper()}` | {default_of(name, prop)} | {bounds_of(prop)} | {prop['description'].replace('|', chr(92) + '|')} |"
        for name, prop in Settings.model_json_schema()["properties"].items()
    ]
    return (
        INTRODUCTION
        + "\n".join(rows)
        + "\n\nThis file is generated: run `make chart` after a change of the settings.\n"
    )


def main() -> int:
    wanted = page()
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == wanted:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{TARGET.relative_to(ROOT)} is out of date: run make chart", file=sys.stderr)
        return 1
    TARGET.write_text(wanted, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
