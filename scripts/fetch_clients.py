"""The client libraries that people put in front of an OpenAI endpoint, each in a folder of its own; knows no test.

    python -m scripts.fetch_clients

Fills `$GUIDED_CACHE_DIR/clients-<version>` (`~/.cache/guided` by default) once, pinned, from the registries that pip and npm are configured
with. They want versions of `openai` that exclude each other, so none shares an environment with another or with the server. What
cannot be had is named on stderr and left out; the exit status stays 0, since the tests that need it skip and say so.

    langchain/ instructor/ pydantic_ai/ schemathesis/    virtual environments
    node/                                                OpenAI's client for Node
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from scripts.fetch_deploy_tools import fetch_once, fetch_python, run

VERSION = "1"  # of this list: raise it when a pin changes
PYTHON = {
    "langchain": ["langchain-openai==1.7.4"],
    "instructor": ["instructor==1.17.0"],
    "pydantic_ai": ["pydantic-ai-slim[openai]==2.68.0"],
    "schemathesis": ["schemathesis==4.32.5"],
}
NODE = ["openai@7.59.0"]


def target() -> Path:
    """Where the clients lie, whether or not they have been fetched."""
    root = Path(os.environ.get("GUIDED_CACHE_DIR") or "~/.cache/guided").expanduser()
    return root / f"clients-{VERSION}"


def fetch_node(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *NODE)


def main() -> None:
    results = {name: fetch_once(target() / name, partial(fetch_python, packages)) for name, packages in PYTHON.items()}
    results["node"] = fetch_once(target() / "node", fetch_node)
    for name, problem in results.items():
        if problem:
            print(f"{name} is not there, so its tests will skip: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
